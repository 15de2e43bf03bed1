"""Pins are told of wherever somebody asks why an object stays, and end when somebody says so."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.gc.insight.why import why
from dredge.gc.insight.why_answer import KEPT, Target
from dredge.gc.steps import release_lease
from dredge.hashing import hash64
from dredge.storage import ObjectReader, open_deleter
from dredge.undo import pins
from dredge.undo.pins import read_pins
from tests.support import lost_database
from tests.support.gc import World
from tests.support.undo import WAYS, moments, purge, restore, store_of, undo_world


def asked(world: World, address: str) -> str:
    """The verdict on an object."""
    target = Target(world.lake.repository, world.lake.namespace, address)
    return why(world.client, target, world.lake.clock()).verdict


PINS = "_lakefs/retention/gc/dredge/pins/"


def pin_files(world: World) -> set[str]:
    """Pins of which a file is left."""
    return {key.removeprefix(PINS).partition("/")[0].removesuffix(".json") for key in world.lake.keys(PINS)}


def test_pins_go_a_week_after_their_end_and_no_other_ones_do() -> None:
    world, kept, gone = undo_world("quarantine", keep_runs_days=1000)
    run = world.plan()
    world.run(run)
    one, other, third = sorted(gone)[:3]
    for address, days in ((one, 2), (other, 6), (third, 100)):
        restore(world, run, address=address, keep_days=days)
    assert len(read_pins(run.state)) == 3
    died, young = f"{PINS}died/hashes-00000-00000-0.u64", f"{PINS}at-work/hashes-00000-00000-0.u64"
    world.lake.objects.put(died, b"")
    world.age(days=11)
    world.lake.objects.put(young, b"")
    world.collect()
    left = {pin.until - pin.created_at for pin in read_pins(run.state)}
    assert left == {timedelta(days=6), timedelta(days=100)}, (
        "the one that ended five days ago may still be asked about"
    )
    assert pin_files(world) == {pin.pin_id for pin in read_pins(run.state)} | {"at-work"}
    world.age(days=9)
    world.collect()
    (pin,) = read_pins(run.state)
    assert pin_files(world) == {pin.pin_id}
    assert world.data() == kept | {third}
    assert pin.has(int(hash64(pa.array([third]))[0]))


def test_a_run_that_is_killed_while_it_removes_pins_stops_no_later_one() -> None:
    world, kept, gone = undo_world("quarantine", keep_runs_days=1000)
    run = world.plan()
    world.run(run)
    one, other = sorted(gone)[:2]
    restore(world, run, address=one, keep_days=1)
    restore(world, run, address=other, keep_days=1000)
    world.age(days=10)
    store = store_of(world)
    last = world.plan()
    with moments(store) as states:
        world.run(last)
    removing = [state for state in states if any("/pins/" in key for key in state.objects)]
    seen = {tuple(sorted(key for key in state.objects if "/pins/" in key)) for state in removing}
    assert len(seen) == 4, (
        "both, without the record, without the hashes of all, without those of what came back"
    )
    database = lost_database.back_up(world)
    for keys in seen:
        state = next(
            state
            for state in reversed(states)
            if tuple(sorted(k for k in state.objects if "/pins/" in k)) == keys
        )
        state.put_back(store)
        lost_database.restore(world, database)
        release_lease(last)
        world.collect()
        assert len(pin_files(world)) == 1
        assert world.data() == kept | {other}


def test_a_pin_that_goes_between_two_looks_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _, _ = undo_world("quarantine")
    run = world.plan()
    world.run(run)
    restore(world, run, all=True)
    (pin,) = read_pins(run.state)
    key, read = f"pins/{pin.pin_id}.json", pins.read_json

    def gone(reader: ObjectReader, name: str) -> object:
        open_deleter(run.state.uri).delete([key])
        return read(reader, name)

    with monkeypatch.context() as patched:
        patched.setattr(pins, "read_json", lambda *_: read(run.state, "nothing"))
        with pytest.raises(FormatError):
            read_pins(run.state)
    monkeypatch.setattr(pins, "read_json", gone)
    assert read_pins(run.state) == []


@pytest.mark.parametrize("way", WAYS)
def test_why_tells_what_can_be_brought_back_and_what_was(way: str) -> None:
    world, _, gone = undo_world(way)
    run = world.plan()
    world.run(run)
    one, other = sorted(gone)[:2]
    assert asked(world, one) == "deleted"
    restore(world, run, address=one, keep_days=50, because="needed by an audit")
    world.age(days=40)
    assert asked(world, one) == KEPT
    purge(world)
    assert asked(world, other) == "deleted"
