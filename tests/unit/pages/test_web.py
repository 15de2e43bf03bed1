"""The pages show what runs left, change nothing, and do nothing that a name in a lake tells them to."""

import csv
import html
import io
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi import HTTPException

from dredge.gc.steps import slice_listing
from dredge.pages.drawing import Pages
from dredge.pages.objects import SORTS
from dredge.pages.places import FolderPlaces, Place
from dredge.pages.web import CHANGING, make_app
from tests.support.gc import busy_world
from tests.support.pages import ADDRESSES, CHANGES, HOSTILE, SCRIPT, Browser, Fixed, Site, newest, site_of


@pytest.fixture(scope="module")
def site() -> Site:
    """After a run that deleted, then one that only looked and found one more."""
    world, _, _ = busy_world()
    world.orphan(HOSTILE)
    world.age(days=2)
    world.collect()
    world.orphan("data/late/orphan", b"late")
    world.age(days=3)
    world.collect(dry_run=True)
    return site_of(world)


def test_names_in_a_lake_are_text_and_nothing_else(site: Site) -> None:
    pages = ["/", site.place]
    for run in set(re.findall(r"place/[0-9a-f]+/run/[0-9a-v]+", site.text(site.place))):
        pages += [f"/{run}", f"/{run}/objects"]
    texts = [
        site.text(page) for page in [*pages, f"/why?what=data/{SCRIPT}&place={site.place.rpartition('/')[2]}"]
    ]
    assert not any(SCRIPT in text for text in texts)
    assert any("&lt;script&gt;" in text for text in texts)
    policy = site.client.get("/").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "script-src" not in policy  # the default allows no inline script


def test_objects_are_filtered_sorted_and_downloaded(site: Site) -> None:
    runs = sorted(set(re.findall(r"place/[0-9a-f]+/run/[0-9a-v]+", site.text(site.place))))
    deleted = f"/{runs[-1]}/objects"  # the older run sorts last
    assert "deleted" in site.text(deleted)
    assert "data/slice1/" not in site.text(f"{deleted}?prefix=data/slice0/")
    assert "None of the 9 searched rows" in site.text(f"{deleted}?size_min=1000000")
    shown = {sort: re.findall(r"<td><code>([^<]+)", site.text(f"{deleted}?sort={sort}")) for sort in SORTS}
    assert shown["address"] == sorted(shown[""])
    assert sorted(shown["size"]) == shown["address"]
    assert shown["size"][0] == shown["-size"][-1]  # the longest of them
    assert html.unescape(shown["size"][0]) == HOSTILE
    assert len(re.findall(r"<td><code>", site.text(f"{deleted}?size_max=2"))) == 8
    assert "unknown order" in site.text(f"{deleted}?sort=etag", 400)
    rows = list(csv.DictReader(io.StringIO(site.text(f"{deleted}.csv?outcome=deleted"))))
    assert len(rows) == 8
    assert int(rows[0]["size"]) <= max(int(row["size"]) for row in rows)
    assert {row["address"] for row in rows} >= {HOSTILE}
    table = pq.read_table(pa.BufferReader(site.client.get(f"{deleted}.parquet?prefix=data/slice0/").content))
    assert set(table["outcome"].to_pylist()) == {"deleted"}
    assert all(address.startswith("data/slice0/") for address in table["address"].to_pylist())
    assert site.client.get(f"{deleted}.xlsx").status_code == 404


def test_why_names_what_keeps_an_object_and_the_run_that_deleted_one(site: Site) -> None:
    kept = sorted(site.world.served().values())[0]
    key = site.place.rpartition("/")[2]
    assert "it stays" in site.text(f"/why?what={kept}&place={key}")
    assert "deleted" in site.text(f"/why?what=data/slice0/orphan0&place={key}")
    unclear = site.text("/why?what=data/slice0/orphan0", 400)
    assert "names no repository" in unclear
    assert 'value="data/slice0/orphan0"' in unclear  # what was asked can be mended


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/place/0000", 404),
        ("{place}/run/nothing", 404),
        ("{place}/run/..%2f..%2fplan.json", 404),
        ("{place}/run/00000000000000000000", 400),
        ("{run}/objects?start=1-", 400),
        ("{run}/objects?start=99-0", 400),
        ("/run?dag=lakefs_gc&run=never", 404),
        ("/static/..%2fweb.py", 404),
        ("/static/web.py", 404),
    ],
)
def test_what_is_not_there_is_said(site: Site, address: str, status: int) -> None:
    answer = site.client.get(address.format(place=site.place, run=newest(site)))
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_a_damaged_run_has_a_row_and_a_page_that_say_so() -> None:
    world, _, _ = busy_world()
    run = world.plan(dry_run=True)
    world.run(run)
    folder = run.folder
    for name in ("report.json", "plan.json"):
        folder.writer.put(name, b"{")
    site = site_of(world)
    assert "unreadable" in site.text(site.place)
    assert "is not JSON" in site.text(newest(site), 500)


def test_a_run_that_works_is_followed(site: Site) -> None:
    world, _, _ = busy_world()
    run = world.plan()
    slice_listing(run, world.runner)
    working = site_of(world)
    assert f"{run.plan.lease.holder} " in working.text("/")
    address = newest(working)
    assert "data-poll" in working.text(address)
    steps = {step["step"]: step["status"] for step in working.client.get(f"{address}/state").json()["steps"]}
    assert (steps["slice_listing"], steps["subtract"]) == ("success", "not done")
    assert "data-poll" not in site.text(newest(site))


def test_every_route_asks_the_guard() -> None:
    def nobody() -> None:
        raise HTTPException(403)

    class Untouched(Fixed):
        def all(self) -> list[Place]:
            raise AssertionError("it was read before it was asked who reads")

    def somebody() -> None:
        """They may change things, but see none."""

    app = make_app(Pages(Untouched()), [nobody], None, {key: [somebody] for key in CHANGING})
    client = Browser(app)
    assert {client.get(address).status_code for address in ADDRESSES} == {403}
    for address in CHANGES:
        assert client.post(address, {"all": "true"}).status_code == 403
    routes = [route.path for route in app.routes]  # type: ignore[attr-defined]
    assert len(routes) == len(ADDRESSES) + len(CHANGES), "a new route is asked here, too"


def test_a_store_that_is_down_hides_its_own_repository_only() -> None:
    world, _, _ = busy_world()
    world.collect(dry_run=True)
    (good,) = FolderPlaces(world.lake.namespace).all()
    bad = Place("lakefs", "elsewhere", "https://example.invalid/x", "")
    client = Browser(make_app(Pages(Fixed([bad, good]))))
    text = client.get("/").text
    assert "elsewhere" in text
    assert good.name in text
    assert client.get(f"/place/{good.key}").status_code == 200
