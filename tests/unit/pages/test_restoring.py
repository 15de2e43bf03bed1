"""A page says what of a run's deletions would come back, and starts nothing that its own user did not ask for."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urljoin

import pytest

from dredge.icechunk.collection.steps import collect
from dredge.pages import restoring
from dredge.pages.places import Facts, FolderPlaces
from tests.support.gc import World
from tests.support.icechunk_repo import expired_sample
from tests.support.pages import HOSTILE, SCRIPT, Around, Browser, Site, pages_of, site_of
from tests.support.undo import data_bytes, undo_world

MAY = Facts(is_airflow=True, may_start=frozenset({"lakefs_gc_restore"}), form_token="the user's own")
FORM = {"prefix": "data/slice0/", "keep_days": "7", "form_token": "the user's own"}


@pytest.fixture(scope="module")
def swept() -> tuple[World, str]:
    world, _, _ = undo_world("quarantine")
    world.orphan(HOSTILE)
    world.age(days=2)
    run = world.plan()
    world.run(run)
    (place,) = FolderPlaces(world.lake.namespace).all()
    return world, f"/place/{place.key}/run/{run.plan.run_id}"


def site(world: World, known: Facts = MAY) -> tuple[Browser, Around]:
    around = Around(known)
    return pages_of(*FolderPlaces(world.lake.namespace).all(), around=around, clock=world.lake.clock), around


def test_the_dry_run_counts_what_a_restore_would_choose_and_changes_nothing(swept: tuple[World, str]) -> None:
    world, run = swept
    before = data_bytes(world)
    client, around = site(world)
    assert "4 objects" in client.get(f"{run}/restore?prefix=data/slice0/").text
    assert "8 objects" in client.get(f"{run}/restore?all=true").text
    assert "1 object " in client.get(f"{run}/restore?{urlencode({'address': HOSTILE})}").text
    assert "0 objects" in client.get(f"{run}/restore?prefix=data/nothing").text
    assert SCRIPT not in client.get(f"{run}/restore?all=true").text
    assert client.get(f"{run}/restore?all=true&prefix=data/").status_code == 400
    assert data_bytes(world) == before
    assert around.started == []


def test_a_form_of_the_users_own_starts_the_dag_with_what_was_looked_at(swept: tuple[World, str]) -> None:
    world, run = swept
    client, around = site(world)
    answer = client.post(f"{run}/restore", FORM)
    assert answer.status_code == 303
    assert answer.headers["location"] == "restore?started=dags%2Flakefs_gc_restore%2Fruns%2Fmanual__1"
    ((dag, settings),) = around.started
    assert dag == "lakefs_gc_restore"
    uri = f"{FolderPlaces(world.lake.namespace).all()[0].runs_uri}/{run.rpartition('/')[2]}"
    asked = {"repository": world.lake.repository, "run": uri, "prefix": "data/slice0/"}
    assert settings == {**asked, "keep_days": 7.0, "all": False}


@pytest.mark.parametrize(
    ("known", "fields", "status"),
    [
        (MAY, {**FORM, "form_token": "another user's"}, 403),
        (MAY, {**FORM, "form_token": "übel"}, 403),
        (MAY, {**FORM, "form_token": ""}, 403),
        (replace(MAY, may_start=frozenset({"kv_trash_restore"})), FORM, 403),
        (replace(MAY, form_token=""), {**FORM, "form_token": ""}, 403),
        (MAY, {"form_token": FORM["form_token"]}, 400),
        (MAY, {**FORM, "prefix": "data/nothing"}, 400),
        (MAY, {**FORM, "all": "true"}, 400),
        (MAY, {**FORM, "keep_days": "-1"}, 400),
    ],
)
def test_nothing_is_started_by_another_sites_form_or_without_the_right(
    swept: tuple[World, str], known: Facts, fields: dict[str, str], status: int
) -> None:
    world, run = swept
    client, around = site(world, known)
    assert client.post(f"{run}/restore", fields).status_code == status
    assert around.started == []


def test_alone_the_pages_give_a_command_and_take_no_form(swept: tuple[World, str]) -> None:
    world, run = swept
    alone: Site = site_of(world)
    (place,) = FolderPlaces(world.lake.namespace).all()
    hostile = "data/'; rm -rf /; '"
    world.orphan(hostile)
    text = alone.text(f"{run}/restore?{urlencode({'address': HOSTILE})}")
    assert "dredge gc restore" in text
    assert "<form action" not in text
    assert alone.client.post(f"{run}/restore", FORM).status_code == 405
    words = shlex.split(restoring.command_of(place, run.rpartition("/")[2], {"address": hostile}))
    uri = f"{place.runs_uri}/{run.rpartition('/')[2]}"
    assert words == ["dredge", "gc", "restore", uri, "--address", hostile]


def test_a_run_of_an_icechunk_collection_is_taken_back_by_its_own_dag(tmp_path: Path) -> None:
    repo = expired_sample(tmp_path / "repo", 1)
    report = collect(repo.config(undo="quarantine"))
    deleted = report["deleted"]["objects"]
    (place,) = FolderPlaces(f"file://{repo.folder}").all()
    around = Around(replace(MAY, may_start=frozenset({"icechunk_restore"})))
    run = f"/place/{place.key}/run/{report['run_id']}"
    client = pages_of(place, around=around)
    assert '/restore">Restore<' in client.get(run).text
    text = client.get(f"{run}/restore?all=true").text
    assert f"{deleted} objects" in text
    (form,) = re.findall(r'action="([^"]+)" method="post"', text)
    fields = {"all": "true", "form_token": "the user's own"}
    assert client.post(f"{run}/restore", fields).status_code == 403, "the other kind's form"
    assert around.started == []
    answer = client.post(f"/{form}", fields)
    assert answer.status_code == 303
    assert client.get(urljoin(f"/{form}", answer.headers["location"])).status_code == 200
    uri = f"{place.runs_uri}/{report['run_id']}"
    asked = {"storage": repo.uri, "run": uri}
    ((dag, settings),) = around.started
    assert dag == "icechunk_restore"
    assert settings == {**asked, "keep_days": 30.0, "all": True}
    command = shlex.split(restoring.command_of(place, report["run_id"], {"all": "true"}))
    assert command == ["dredge", "icechunk", "restore", settings["storage"], uri, "--all"]
