"""Pages of objects are what sorting and filtering all rows would give, in any order, one page after another."""

from collections.abc import Callable
from typing import Any

import pytest

from dredge.pages.object_rows import Filter
from dredge.pages.objects import SORTS, Objects
from dredge.pages.places import FolderPlaces
from dredge.runs import parts
from dredge.runs.folder import run_ids
from dredge.storage import open_reader
from tests.support.approvals import two_branches
from tests.support.gc import make_world
from tests.support.pages import newest, site_of

type Row = dict[str, Any]

FILTERS = (
    Filter(),
    Filter(prefix="data/s1/"),
    Filter(prefix="data/s1/o1"),
    Filter(prefix="data/s"),
    Filter(prefix="nothing"),
    Filter(size_min=3),
    Filter(size_max=2, prefix="data/s2/"),
    Filter(reason="unreferenced", size_min=2, size_max=4),
    Filter(reason="expired"),
    Filter(outcome="deleted"),
    Filter(outcome="may go"),
    Filter(outcome="held"),
)
KEYS: dict[str, Callable[[Row], Any]] = {
    "size": lambda row: -row["size"],
    "-size": lambda row: row["size"],
    "address": lambda row: row["address"],
}


@pytest.fixture(scope="module")
def runs() -> list[Objects]:
    """A dry run, with some objects held, then one that deleted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "GROUP_ROWS", 7)
        world = make_world(
            tuning={"candidate_rows": 40, "delete_keys": 1000}, safety={"identical_requests_max": 0}
        )
        world.rules(30)
        for number in range(100):
            world.orphan(f"data/s{number % 3}/o{number:03d}", b"x" * (number % 6))
        world.upload("as-long-as-some", b"y" * 5)
        world.lake.commit()
        world.age(days=2)
        world.collect(dry_run=True)
        world.age(days=1)
        world.collect()
    (place,) = FolderPlaces(world.lake.namespace).all()
    return [Objects(place, run_id) for run_id in run_ids(open_reader(place.runs_uri, place.options))]


def pages(objects: Objects, wanted: Filter, sort: str, limit: int) -> list[Row]:
    found: list[Row] = []
    start = ""
    while True:
        page = objects.page(wanted, sort, start, limit)
        found += page.rows.to_pylist()
        start = page.next
        if not start:
            return found
        assert page.rows.num_rows == limit


@pytest.mark.parametrize("sort", SORTS)
def test_pages_are_those_of_all_rows(runs: list[Objects], sort: str) -> None:
    assert [run.is_settled for run in runs] == [True, False]
    for objects in runs:
        for wanted in FILTERS:
            rows = [row for table in objects.all(wanted) for row in table.to_pylist()]
            expected = sorted(rows, key=KEYS[sort]) if sort else rows
            assert pages(objects, wanted, sort, 11) == expected, (wanted, sort)
    held = pages(runs[1], Filter(outcome="held"), sort, 11)
    assert {(row["size"], row["code"]) for row in held} == {(5, "identical_too_many")}
    assert len(pages(runs[1], Filter(), sort, 50)) == 100


def test_objects_of_a_branch_are_those_that_its_commits_named_last() -> None:
    world, run = two_branches()
    (place,) = FolderPlaces(world.lake.namespace).all()
    objects = Objects(place, run.plan.run_id)
    sizes = {
        branch: sorted(row["size"] for row in pages(objects, Filter(branch=branch), "size", 2))
        for branch in ("work", "main", "nowhere")
    }
    assert sizes == {"work": [1, 3, 4], "main": [2], "nowhere": []}
    (table,) = objects.all(Filter(branch="main"))
    assert table["size"].to_pylist() == [2]
    site = site_of(world)
    text = site.text(f"{newest(site)}/objects?branch=nowhere")
    assert "<code>main</code>" in text
    assert "<code>work</code>" in text
