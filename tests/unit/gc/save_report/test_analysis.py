"""Sections of the report about the whole repository: there after a clean run, taken over by an optimized one, and never
in the way of a run."""

from __future__ import annotations

import pytest

from dredge.gc.run import Run
from tests.support.gc import World, make_world

COUNTED = {"report_names_max": 100}


def titles(run: Run) -> list[str]:
    return [section["title"] for section in run.folder.read_json("report.json")["sections"]]


def done(world: World, **settings: object) -> Run:
    run = world.plan(**settings)
    world.run(run)
    world.age(hours=1)
    return run


@pytest.fixture
def world() -> World:
    world = make_world()
    world.rules(30)
    world.upload("a/b", b"1")
    world.lake.commit()
    world.age(days=2)
    return world


def test_a_clean_run_tells_what_objects_cost_and_what_other_rules_would_free(world: World) -> None:
    run = done(world, tuning=COUNTED)
    assert titles(run) == [
        "What objects cost",
        "Kept by one branch alone",
        "Live objects by prefix",
        "What other rules would free",
    ]
    page = run.folder.writer.get("report.html").decode()
    assert "<svg" in page
    assert "a/" in page
