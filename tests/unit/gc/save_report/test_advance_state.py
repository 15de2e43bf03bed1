"""What a complete run leaves for the next one: everything that exists is in it, and nothing is said to be done that is
not."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from dredge.errors import ConflictError, FormatError, RefusedError
from dredge.gc.run import Run
from dredge.gc.save_report.advance_state import advance_state
from dredge.gc.state import RunState, StateStore, base_of, open_base
from dredge.gc.steps import bulk_delete, verify
from dredge.runs.payload import to_sealed
from dredge.runs.versions import POINTER, Version
from tests.support.gc import World, make_world, summary_of


def grown(**settings: Any) -> World:
    world = make_world(mode="auto", **settings, rules=30)
    world.commit("a", b"1")
    world.upload("b", b"2")
    for number in range(3):
        world.orphan(f"data/slice/{number}", b"x" * (number + 1))
    world.age(days=9)
    return world


def state_after(run: Run) -> RunState:
    state = StateStore(run.state).current("lake", run.plan.namespace).state
    assert state is not None
    assert state.run_id == run.plan.run_id
    return state


def staged(run: Run, state: RunState) -> list[str]:
    return sorted(key for part in state.staged for key in run.folder.read_part(part)["address"].to_pylist())


def whole(world: World, **settings: Any) -> tuple[Run, RunState]:
    run = world.collected(**settings)
    return run, state_after(run)


def test_a_run_builds_on_the_state_that_its_plan_names_or_not_at_all() -> None:
    world = grown()
    run, state = whole(world, mode="clean")
    assert base_of(run) is None
    world.age(days=2)
    later = world.plan()
    base = base_of(later)
    assert base is not None
    assert base.state == state
    assert base.folder.uri == run.folder.uri
    assert base.looked_at() == set()
    assert base.ranges().keys() == base.metaranges().ranges.keys()
    as_clean = SimpleNamespace(plan=SimpleNamespace(mode="clean", state=later.plan.state))
    assert base_of(cast("Any", as_clean)) is None
    without = SimpleNamespace(plan=SimpleNamespace(mode="optimized", state=None))
    assert base_of(cast("Any", without)) is None
    assert later.plan.state is not None
    for damaged in (Version("state/versions/none.json", "0"), Version(later.plan.state.name, "0")):
        with pytest.raises(FormatError):
            open_base(later, damaged)


def test_a_state_is_made_only_of_what_the_chain_vouches_for() -> None:
    world = grown()
    run = world.marked(mode="clean")
    bulk_delete(run, world.runner)
    verify(run)
    listing = summary_of(run, "slice_listing")
    run.folder.write_json(
        "slice_listing/_SUCCESS.json", to_sealed(replace(listing, counts={**listing.counts, "x": 1}))
    )
    with pytest.raises(RefusedError):
        advance_state(run)
    assert StateStore(run.state).current("lake", run.plan.namespace).state is None


def test_the_servers_report_names_no_run_whose_state_did_not_advance() -> None:
    world = grown()
    whole(world)
    world.age(days=2)
    run = world.marked(mode="clean")
    bulk_delete(run, world.runner)
    verify(run)
    places = "_lakefs/retention/gc/uncommitted/"
    before = set(world.lake.keys(places))
    assert any(key.endswith("/report.json") for key in before)
    pointer = run.state.get(POINTER)
    run.state.put(POINTER, pointer + b" ")  # another run was complete meanwhile
    with pytest.raises(ConflictError):
        advance_state(run)
    assert set(world.lake.keys(places)) == before
