"""The page of a repository says how its next run will work, and which slices it need not list."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dredge.pages.figures import Keeping, keeping_of
from dredge.pages.places import FolderPlaces
from dredge.pages.surroundings import Blocking, Facts, Schedule
from tests.support.gc import World, busy_world
from tests.support.pages import Around, pages_of


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
