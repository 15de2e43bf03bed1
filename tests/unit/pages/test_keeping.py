"""The page of a repository says how its next run will work, and which slices it need not list."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.expiration.restore import store_plan
from dredge.icechunk.format.metadata import SnapshotEntry, micros
from dredge.icechunk.history import History
from dredge.pages.history import Keeping, keeping_of
from dredge.pages.object_rows import Kept
from dredge.pages.places import Blocking, Facts, FolderPlaces, Place, Schedule
from tests.support.gc import World, busy_world
from tests.support.pages import SCRIPT, Around, Browser, pages_of


@pytest.fixture(scope="module")
def world() -> World:
    made, _, _ = busy_world()
    made.collect()
    return made


def keeping(world: World, **settings: object) -> Keeping:
    (place,) = FolderPlaces(world.lake.namespace).all()
    found = keeping_of(place, world.lake.clock(), settings)
    assert found is not None
    return found


def test_the_next_run_is_what_the_collector_itself_would_choose(world: World) -> None:
    found = keeping(world)
    plan = world.plan(mode="auto", dry_run=True).plan
    assert (found.mode, found.why) == (plan.mode, plan.why_mode) == ("optimized", found.why)
    assert keeping(world, mode="clean").mode == "clean"
    assert (
        keeping(world, clean_every_days=0.001, repository="other").mode == "optimized"
    )  # no time has passed


def test_schedules_and_windows_are_those_of_the_repository(world: World) -> None:
    (place,) = FolderPlaces(world.lake.namespace).all()
    soon = datetime(2026, 4, 1, tzinfo=UTC)
    ours = Schedule("daily_<b>", {"repository": place.name}, "at midnight", soon, may_backfill=True)
    others = Schedule("other", {"repository": "elsewhere"}, "hourly", soon, may_backfill=True)
    off = Schedule("off", {"repository": place.name}, "weekly", None, may_backfill=False, is_off=True)
    around = Around(Facts(is_airflow=True, schedules=(off, others, ours)), [soon, soon + timedelta(days=1)])
    client = pages_of(place, around=around, clock=world.lake.clock)
    text = client.get(f"/place/{place.key}").text
    assert "2026-04-01 00:00" in client.get("/").text
    assert "daily_&lt;b&gt;" in text
    assert 'href="../dags/daily_%3Cb%3E"' in text  # these pages lie a folder below Airflow's
    assert "switched off" in text
    assert "elsewhere" not in text
    around.known = Facts(is_airflow=True, schedules=(off,))
    assert "switched off" in client.get("/").text
    around.known = Facts(is_airflow=True, schedules=(replace(off, is_off=False),))
    assert "after the current run" in client.get("/").text
    around.known = Facts(is_airflow=True, schedules=(off, others, ours))
    windows = client.get(f"/place/{place.key}/gaps").text
    assert "from <time" in windows
    assert "2026-04-02" in windows
    assert "off without" not in windows
    assert "waits for it" not in windows
    around.blocking = (Blocking("scheduled__1", "dags/gc_lake/runs/scheduled__1", "scheduled__2"),)
    blocked = client.get(f"/place/{place.key}/gaps").text
    assert 'href="../dags/gc_lake/runs/scheduled__1"' in blocked
    assert "scheduled__2" in blocked
    around.starts = None
    assert "permission to start backfills" in client.get(f"/place/{place.key}/gaps").text


# Of those who ask at once one works, and an error is nobody's answer but theirs.


def test_one_works_for_all_who_ask_at_once() -> None:
    kept: Kept[int] = Kept(4)
    asked, go_on = threading.Barrier(3), threading.Event()
    made: list[int] = []

    def make() -> int:
        go_on.wait(10)
        made.append(1)
        return 7

    def ask() -> int:
        asked.wait(10)
        return kept.get("a", make)

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask) for _ in range(2)]
        asked.wait(10)
        go_on.set()
        assert [item.result(10) for item in waiting] == [7, 7]
    assert made == [1]


# The plan of an Icechunk expiration is shown as its picture, in which nothing can run.


NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Browser, Place, str]:
    """A plan for a history of five snapshots and a tag with a hostile name."""
    folder: Path = tmp_path_factory.mktemp("icechunk")
    ids = [f"{number:020d}" for number in range(5)]
    entries = [
        SnapshotEntry(ids[n], ids[n - 1] if n else None, micros(NOW - timedelta(days=50 - n)), SCRIPT)
        for n in range(5)
    ]
    history = History(2, {entry.id: entry for entry in entries}, {"main": ids[4]}, {SCRIPT: ids[2]})
    uri = store_plan(f"file://{folder}", plan_expiration(history, NOW - timedelta(days=46, hours=1)), NOW)
    (place,) = FolderPlaces(f"file://{folder}").all()
    return pages_of(place), place, uri.rpartition("/")[2]


def test_a_plan_is_shown_with_its_history_and_what_becomes_of_each_ref(
    planned: tuple[Browser, Place, str],
) -> None:
    client, place, plan_id = planned
    assert f"expiration/{plan_id}" in client.get(f"/place/{place.key}").text
    text = client.get(f"/place/{place.key}/expiration/{plan_id}").text
    assert "branch:main" in text
    assert text.count("[main]") == 2
    assert SCRIPT not in text
