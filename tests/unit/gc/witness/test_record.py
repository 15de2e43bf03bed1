"""What a complete mark leaves: where, when, in which format, and for how long."""

import json
from typing import Any

import pytest

from dredge.errors import ConflictError, FormatError, RefusedError, WitnessError
from dredge.gc.run import open_state
from dredge.gc.steps import check_limits, list_committed, mark_uncommitted, slice_listing, subtract
from dredge.gc.witness.mark import UNKNOWN
from dredge.gc.witness.owner import read_block, read_ids
from dredge.gc.witness.record import FORMAT, POINTER, MarkRecord, Past, read_record
from dredge.runs.payload import to_json
from dredge.runs.run import release_lease
from dredge.storage import open_deleter
from tests.support.gc import World, make_world
from tests.support.killing import Killed, failing_writes
from tests.support.lost_database import back_up, restore
from tests.support.policies import policy


def two_commits(**settings: Any) -> World:
    world = make_world(**settings, rules=5)
    world.upload("a", b"1")
    world.lake.commit("first", metadata={"k": "v"})
    world.age(days=9)
    world.commit("b", b"2")
    world.age(days=2)
    return world


def stored(world: World) -> MarkRecord:
    found = read_record(open_state(world.lake.namespace)).record
    assert found is not None
    return found


def rewritten(world: World, **fields: Any) -> None:
    state = open_state(world.lake.namespace)
    state.put(POINTER, json.dumps(json.loads(state.get(POINTER)) | fields).encode())


def test_after_a_kill_between_part_and_pointer_the_record_before_counts() -> None:
    world = two_commits()
    world.collect()
    before = stored(world)
    world.age(days=2)
    run = world.plan()
    with failing_writes(f"/{POINTER}", Killed()), pytest.raises(Killed):
        world.run(run)
    assert stored(world) == before
    assert Past.read(run.state, run.plan.namespace).active
    world.collect_after(hours=2)
    assert stored(world).run_id != before.run_id


def test_a_record_that_another_mark_left_since_is_not_replaced() -> None:
    world = two_commits()
    world.collect()
    world.age(days=2)
    run = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed, subtract):
        step(run, world.runner)
    rewritten(world, run_id="another")
    before = stored(world)
    with pytest.raises(ConflictError):
        check_limits(run, world.runner)
    assert stored(world) == before
    release_lease(run)


def test_a_record_of_another_format_or_without_a_field_stops_the_run() -> None:
    world = two_commits()
    orphan = world.orphan("data/x/orphan")
    world.age(days=2)
    world.collect(dry_run=True)
    state = open_state(world.lake.namespace)
    whole = state.get(POINTER)
    lacking = {name: value for name, value in json.loads(whole).items() if name != "kept"}
    for damaged, error in (({"format": FORMAT + 1}, RefusedError), ({"format": FORMAT - 1}, FormatError)):
        rewritten(world, **damaged)
        with pytest.raises(error):
            world.collect()
    state.put(POINTER, json.dumps(lacking).encode())
    with pytest.raises(FormatError):
        world.collect()
    assert orphan in world.data()
    state.put(POINTER, whole)
    world.collect()
    assert orphan not in world.data()


@pytest.mark.parametrize("less", ["tags", "policy"])
def test_a_dry_run_that_keeps_less_than_the_repository_does_leaves_nothing(less: str) -> None:
    own = {"policy": to_json(policy("name: last, branches: [main], last: 9"))} if less == "policy" else {}
    world = two_commits(**own)
    world.collect()
    world.age(days=2)
    before, ids = stored(world), read_ids(open_state(world.lake.namespace))
    fewer = {"keep_tags": False} if less == "tags" else {"policy": None}
    world.collect(dry_run=True, **fewer)
    assert (stored(world), read_ids(open_state(world.lake.namespace))) == (before, ids)
    world.collect(dry_run=True)
    assert stored(world).run_id != before.run_id, "the repository's own settings"
    world.collect(**fewer)
    last = stored(world)
    assert last.run_id != before.run_id
    world.collect(dry_run=True, **fewer)
    assert stored(world).run_id != last.run_id, "a run that was to delete has made them the repository's own"


def test_a_commit_of_a_tag_must_be_known_although_a_dry_run_did_not_keep_tags() -> None:
    world = two_commits()
    world.collect()
    backup = back_up(world)
    world.lake.catalog.branches.create_branch("lake", "dev", "main")
    world.upload("c", b"3", "dev")
    tagged = world.lake.commit("third", "dev").id
    world.lake.catalog.tags.create_tag("lake", "v1", tagged)
    world.lake.catalog.branches.delete_branch("lake", "dev")
    world.collect_after(days=9)
    world.age(days=40)  # so long that no mark carries the commit any more
    world.collect(dry_run=True, keep_tags=False)
    restore(world, backup)
    with pytest.raises(WitnessError):
        world.collect()
    block = read_block(open_state(world.lake.namespace))
    assert block is not None
    assert (block.kind, block.facts["examples"]) == (UNKNOWN, [tagged])


def test_a_record_of_another_namespace_is_no_record() -> None:
    """The bucket is a copy, with the folder of lease and index."""
    world = two_commits()
    world.collect()
    rewritten(world, namespace="memory://elsewhere/lake")
    state = open_state(world.lake.namespace)
    assert Past.read(state, world.lake.namespace).record is None


@pytest.mark.parametrize("how", ["gone", "changed"])
def test_a_record_whose_part_is_damaged_stops_the_run(how: str) -> None:
    world = two_commits()
    world.collect()
    orphan = world.orphan("data/x/orphan")
    world.age(days=2)
    state = open_state(world.lake.namespace)
    key = stored(world).commits.key
    if how == "gone":
        open_deleter(state.uri).delete([key])
    else:
        state.put(key, b"PAR1")
    with pytest.raises(FormatError):
        world.collect()
    assert orphan in world.data()
