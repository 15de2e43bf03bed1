"""Pins are told of wherever somebody asks why an object stays, and end when somebody says so."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError
from dredge.gc.insight.why import why
from dredge.gc.insight.why_answer import KEPT, Target
from dredge.gc.steps import release_lease
from dredge.hashing import hash64
from dredge.runs.clock import Coverage
from dredge.runs.payload import from_file
from dredge.runs.tries import change_file
from dredge.sets.hashes import write_hashes
from dredge.sets.live import LocatedSet, ShardedSet
from dredge.storage import ObjectWriter, open_deleter, open_writer
from dredge.undo.pins import (
    Pin,
    active_pins,
    end_pin,
    narrow_pin,
    pin_folder,
    read_pins,
    write_pin,
)
from tests.support import lost_database
from tests.support.gc import World
from tests.support.memory_store import MemoryReader, forget_memory_store
from tests.support.undo import WAYS, moments, purge, restore, store_of, undo_world


def asked(world: World, address: str) -> str:
    target = Target(world.lake.repository, world.lake.namespace, address)
    return why(world.client, target, world.lake.clock()).verdict


PINS = "_lakefs/retention/gc/dredge/pins/"


def pin_files(world: World) -> set[str]:
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


def test_a_pin_that_goes_between_two_looks_holds_nothing(stand_in: Any) -> None:
    world, _, _ = undo_world("quarantine")
    run = world.plan()
    world.run(run)
    restore(world, run, all=True)
    (pin,) = read_pins(run.state)
    goes = False

    def get(honest: Any, reader: object, key: str) -> bytes:
        if key == f"pins/{pin.pin_id}.json" and not goes:
            raise NotFoundError("a store that does not tell the truth")
        open_deleter(run.state.uri).delete([f"pins/{pin.pin_id}.json"])
        return bytes(honest(reader, key))

    stand_in(MemoryReader.get, get)
    with pytest.raises(FormatError):
        read_pins(run.state)
    goes = True
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


# A pin holds what it holds until its very end, is written and read whole, and is changed by one at a time.


NOW = datetime(2026, 3, 1, tzinfo=UTC)
TICK, DAY = timedelta(microseconds=1), timedelta(days=1)


@pytest.fixture
def state() -> Iterator[ObjectWriter]:
    name = f"pins-{uuid.uuid4().hex[:8]}"
    yield open_writer(f"memory://{name}")
    forget_memory_store(name)


def pin(state: ObjectWriter, name: str = "one", until: datetime = NOW, **more: Any) -> Pin:
    """In force, and holds the hashes 1 and 5."""
    folder = pin_folder(state.uri, name)
    part = write_hashes(folder, "hashes-0.u64", np.array([1, 5], np.uint64))
    made = Pin(
        pin_id=name,
        run_id="run",
        reason="an audit",
        created_at=NOW - DAY,
        until=until,
        objects=2,
        size_bytes=7,
        sets=(LocatedSet(folder.uri, ShardedSet(0, {0: part})),),
        slices=Coverage(((NOW - 9 * DAY, NOW - 8 * DAY),)),
        **more,
    )
    write_pin(state, made)
    return made


@pytest.mark.parametrize("content", [b"{}", b"[]", b"no json"])
def test_one_pin_that_cannot_be_read_is_an_error(content: bytes, state: ObjectWriter) -> None:
    pin(state)
    state.put("pins/broken.json", content)
    with pytest.raises(FormatError):
        read_pins(state)
    with pytest.raises(FormatError):
        active_pins(state, NOW)


def test_ending_changes_the_time_and_narrowing_what_it_holds(state: ObjectWriter) -> None:
    made = pin(state)
    end_pin(state, "one", NOW - DAY)
    assert read_pins(state) == [replace(made, until=NOW - DAY)]
    narrow_pin(state, "one", made.sets, 1, 2, NOW)
    narrowed = replace(made, until=NOW - DAY, finished_at=NOW, objects=1, size_bytes=2)
    assert read_pins(state) == [narrowed]
    with pytest.raises(ConfigError):
        end_pin(state, "other", NOW)
    assert narrow_pin(state, "other", (), 0, 0, NOW) is None
    assert len(read_pins(state)) == 1, "none is made"


@pytest.mark.parametrize("changes", [4, 5])
def test_a_pin_that_somebody_else_changes_is_read_anew_some_times(changes: int, state: ObjectWriter) -> None:
    made, others = pin(state), [*range(changes)]

    def end(value: Any) -> Pin:
        found = from_file(Pin, value)
        if others:
            write_pin(state, replace(made, size_bytes=100 + others.pop()))
        return replace(found, until=NOW - DAY)

    if changes == 5:
        with pytest.raises(ConflictError):
            change_file(state, "pins/one.json", end)
        assert read_pins(state) == [replace(made, size_bytes=100)]
    else:
        assert change_file(state, "pins/one.json", end) is not None
        assert read_pins(state) == [replace(made, size_bytes=100, until=NOW - DAY)]
