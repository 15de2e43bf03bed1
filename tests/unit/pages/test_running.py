"""A run that works says how far it is, and what the rest took before."""

from __future__ import annotations

import logging

import pytest

from dredge.gc.steps import slice_listing
from dredge.pages.figures import standing
from dredge.pages.places import FolderPlaces
from dredge.runs import progress
from dredge.runs.progress import Progress, log_progress, read_progress
from tests.support.gc import busy_world
from tests.support.pages import Site, newest, site_of


@pytest.fixture
def working() -> tuple[Site, str]:
    """A run after its first step, of a kind that was done before."""
    world, _, _ = busy_world()
    world.collect(dry_run=True)
    world.age(hours=1)
    run = world.plan(dry_run=True)
    slice_listing(run, world.runner)
    run.folder.write_json(
        "mark_uncommitted/_progress/now.json",
        {
            "text": "mark_uncommitted: 5 of <b>9</b> pages",
            "done": 5,
            "total": 9,
            "at": "2026-01-02T03:04:05+00:00",
        },
    )
    site = site_of(world)
    return site, newest(site)


def test_a_run_that_works_says_how_far_it_is_and_how_long_it_may_take(working: tuple[Site, str]) -> None:
    site, address = working
    told = site.client.get(f"{address}/state").json()["progress"]
    assert told.startswith(
        "mark_uncommitted: 5 of <b>9</b> pages (at 03:04:05 UTC). Steps that are not done took"
    )
    assert "5 of &lt;b&gt;9&lt;/b&gt; pages" in site.text(address)


def test_a_run_that_ended_says_nothing(working: tuple[Site, str]) -> None:
    site, _ = working
    _, older = standing(FolderPlaces(site.world.lake.namespace).all()[0]).runs
    assert site.client.get(f"{site.place}/run/{older.run_id}/state").json()["progress"] == ""


def test_the_driver_leaves_what_it_logs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.01)
    world, _, _ = busy_world()
    run = world.plan(dry_run=True)
    with (
        caplog.at_level(logging.INFO, "dredge"),
        log_progress(run.folder, "subtract", "objects", 10) as where,
    ):
        tasks = Progress(run.folder, where, "0")
        found = None
        while found is None or not found["done"]:
            tasks.add(1)
            found = read_progress(run.folder, "subtract")
    assert found["total"] == 10
    assert f"subtract: {found['done']:,} of 10 objects" in found["text"]
    assert read_progress(run.folder, "verify") is None
