"""A run is opened for who wants to take deletions back only where it deleted, and in that very repository."""

import pytest
from msgspec.structs import replace

from dredge.errors import ConfigError
from dredge.gc.run import Run
from dredge.gc.steps import list_committed, mark_uncommitted, release_lease, slice_listing, subtract
from dredge.gc.undo import open_swept
from tests.support.gc import World
from tests.support.undo import small_world


def swept() -> tuple[World, Run, set[str]]:
    world, _, gone = small_world("quarantine")
    run = world.collected()
    return world, run, gone


def test_a_run_is_opened_as_its_plan_made_it_and_for_its_own_repository_alone() -> None:
    world, run, gone = swept()
    here = world.client.repository("lake")
    for repository in (None, here, replace(here, namespace=f"{here.namespace}/")):
        found = open_swept(run.plan.run_uri, repository)
        assert (found.way, found.below, found.folder.uri) == ("quarantine", ("data/",), run.plan.run_uri)
        rows = [key for part in found.candidates for key in run.folder.read_part(part)["address"].to_pylist()]
        assert set(rows) == gone
    for other in (replace(here, name="another"), replace(here, namespace=f"{here.namespace}2")):
        with pytest.raises(ConfigError, match=run.plan.run_id):
            open_swept(run.plan.run_uri, other)


def test_a_run_that_deleted_nothing_is_not_opened() -> None:
    world, _, _ = small_world("quarantine")
    dry = world.collected(dry_run=True)
    with pytest.raises(ConfigError, match=dry.plan.run_id):
        open_swept(dry.plan.run_uri)
    world.age(minutes=1)
    run = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed):
        step(run, world.runner)
    with pytest.raises(ConfigError, match=run.plan.run_id):
        open_swept(run.plan.run_uri)
    subtract(run, world.runner)
    assert open_swept(run.plan.run_uri).candidates
    release_lease(run)
