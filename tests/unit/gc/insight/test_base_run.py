"""The run that an analysis is about is the newest that knows what is live, and its history is as it found it."""

import pytest

from dredge.errors import ConfigError
from dredge.gc.insight.base_run import base_of_run, find_base, open_base
from dredge.gc.run import Run
from dredge.gc.steps import slice_listing
from dredge.runs.run import release_lease
from tests.support.gc import World, make_world


@pytest.fixture
def world() -> World:
    """Two commits on a branch, a tag, and a commit whose branch is gone."""
    made = make_world(rules=30)
    name, catalog = made.lake.repository, made.lake.catalog
    made.upload("a", b"a")
    catalog.tags.create_tag(name, "v1", made.lake.commit("first").id)
    catalog.branches.create_branch(name, "gone", "main")
    made.commit("b", b"b", "gone")
    catalog.branches.delete_branch(name, "gone")
    made.commit("c", b"c")
    made.age(days=2)
    return made


def run(world: World, **settings: object) -> Run:
    context = world.collected(dry_run=True, **settings)
    world.age(minutes=1)
    return context


def test_the_newest_run_that_listed_everything_and_knows_what_is_live_is_found(world: World) -> None:
    world.collect()
    world.age(hours=1)
    whole = run(world, mode="clean").plan
    part = run(world, mode="optimized").plan
    assert (whole.mode, part.mode) == ("clean", "optimized")
    begun = world.plan(dry_run=True)
    slice_listing(begun, world.runner)
    release_lease(begun)
    namespace, name = world.lake.namespace, world.lake.repository
    found, newest = find_base(namespace, name), find_base(namespace, name, whole=False)
    assert found is not None
    assert newest is not None
    assert (found.plan.run_id, found.is_whole) == (whole.run_id, True)
    assert (newest.plan.run_id, newest.is_whole) == (part.run_id, False)
    assert whole.run_id in found.text
    assert find_base(namespace, "another") is None


def test_a_run_that_did_not_come_to_know_what_is_live_is_refused(world: World) -> None:
    begun = world.plan(dry_run=True)
    slice_listing(begun, world.runner)
    assert base_of_run(begun) is None
    with pytest.raises(ConfigError, match=begun.plan.run_id):
        open_base(begun.plan.run_uri)
    with pytest.raises(ConfigError, match="nowhere"):
        open_base(f"{world.lake.namespace}/nowhere")
