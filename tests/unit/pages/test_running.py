"""A run that works says how far it is, and what the rest took before."""

from __future__ import annotations

import pytest

from dredge.gc.steps import slice_listing
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
