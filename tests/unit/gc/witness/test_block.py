"""The block that a refusal by a witness leaves."""

import pytest
from msgspec.structs import replace

from dredge.errors import BlockedError, ConfigError, FormatError, WitnessError
from dredge.gc.run import Run, open_state
from dredge.gc.witness.owner import (
    BLOCK,
    LIFT_BLOCK,
    Owner,
    Site,
    claim,
    lift,
    read_block,
    refuse,
    refuse_blocked,
)
from dredge.lakefs import Environment
from dredge.runs.consents import read_consents
from dredge.runs.run import release_lease
from dredge.storage import ObjectWriter
from tests.support.gc import World, make_world
from tests.support.second_server import copy_of
from tests.support.undo import WAYS, purge, restore, undo_world


def _refused(world: World, run: Run, kind: str = "test", message: str = "The past differs.") -> None:
    with pytest.raises(WitnessError, match=message):
        refuse(Site.of_run(run), kind, message, {"commits": 3})


def _world() -> tuple[World, Run, ObjectWriter]:
    world = make_world()
    return world, world.plan(dry_run=True), open_state(world.lake.namespace)


def test_the_first_block_remains_until_it_is_lifted() -> None:
    world, run, state = _world()
    for kind in ("first", "second"):
        _refused(world, run, kind)
        block = read_block(state)
        assert block is not None
        assert block.kind == "first"
    lift(state, "lake", "seen to")
    _refused(world, run, "third")
    block = read_block(state)
    assert block is not None
    assert block.kind == "third"


def test_a_block_ends_when_a_person_lifts_it_and_is_kept_with_the_reason() -> None:
    world, run, state = _world()
    _refused(world, run)
    lifted = lift(state, "lake", "it was the rehearsal, now stopped", "ada")
    assert lifted is not None
    assert lifted.kind == "test"
    refuse_blocked(state)
    (consent,) = read_consents(state, LIFT_BLOCK)
    assert (consent.who, consent.why) == ("ada", "it was the rehearsal, now stopped")
    assert (consent.what["kind"], consent.what["run_id"]) == ("test", run.plan.run_id)
    assert lift(state, "lake", "again") is None


def test_a_block_is_not_lifted_without_a_reason() -> None:
    world, run, state = _world()
    _refused(world, run)
    with pytest.raises(ConfigError):
        lift(state, "lake", " ")
    assert read_block(state) is not None
    assert read_consents(state) == []


def test_a_refusal_of_another_server_leaves_no_block() -> None:
    world, run, state = _world()
    claim(state, Owner(environment=Environment("http://owner:8000"), since=world.lake.clock.now))
    _refused(world, run)
    refuse_blocked(state)


def test_a_refusal_of_another_installation_under_the_same_url_leaves_no_block() -> None:
    world, run, state = _world()
    ours = world.client.environment()
    claim(state, Owner(environment=replace(ours, installation_id="another"), since=world.lake.clock.now))
    _refused(world, run)
    refuse_blocked(state)


def test_a_refusal_of_the_owner_under_an_alias_leaves_a_block() -> None:
    world, run, state = _world()
    ours = world.client.environment()
    named = replace(ours, url="http://owner:8000")
    claim(state, Owner(environment=named, since=world.lake.clock.now, aliases=(ours.url,)))
    _refused(world, run)
    assert read_block(state) is not None


@pytest.mark.parametrize("way", WAYS)
def test_a_blocked_namespace_is_not_purged(way: str) -> None:
    world, _, gone = undo_world(way)
    run = world.collected()
    world.age(days=40)
    state = open_state(world.lake.namespace)
    blocked = world.plan(dry_run=True)
    _refused(world, blocked)
    release_lease(blocked)
    assert purge(world, dry_run=True).counts["would_go_objects"] == len(gone)
    with pytest.raises(BlockedError):
        purge(world)
    restore(world, run, all=True)
    assert gone <= world.data(), "what a blocked run may not delete can still be brought back"
    world.age(days=40)
    lift(state, "lake", "seen to")
    purge(world)


def test_a_copy_purges_nothing() -> None:
    production, _, gone = undo_world("quarantine")
    production.collect()
    copy = copy_of(production, "http://rehearsal:8000")
    production.age(days=40)
    with pytest.raises(WitnessError):
        purge(copy)
    assert purge(production).counts["purged_objects"] == len(gone)


def test_a_damaged_block_is_an_error_and_no_consent() -> None:
    _, _, state = _world()
    state.put(BLOCK, b"{}")
    with pytest.raises(FormatError, match=BLOCK):
        refuse_blocked(state)
