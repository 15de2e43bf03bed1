"""A worker's side of the gate: what closed it once, and whatever it cannot see, keeps it closed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import FormatError, LeaseHeldError, OvertakenError
from dredge.runs.folder import RunFolder
from dredge.runs.gate import Gate, GateConfig, write_look
from dredge.runs.lease import Lease
from dredge.runs.tries import StepTry
from dredge.runs.watch import Watch
from dredge.storage import ObjectWriter, forget_memory_store, open_writer

STEP, WATCH = "bulk_delete", "bulk_delete/_watch/1.json"


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    yield open_writer("memory://gate-test/run")
    forget_memory_store("gate-test")


@pytest.fixture
def lease(writer: ObjectWriter) -> Lease:
    return Lease(writer, timedelta(hours=1), lambda: datetime.now(UTC))


@pytest.fixture
def gate(writer: ObjectWriter, lease: Lease) -> Gate:
    """A gate that nobody has opened yet."""
    grant = lease.acquire("run r")
    config = GateConfig(lease=grant, watch=WATCH, trusted_seconds=0, silence_seconds_max=60)
    return Gate(RunFolder(writer, "r", StepTry.claim(writer, STEP)), writer, config)


def look(gate_folder: ObjectWriter, is_open: bool) -> None:
    """Write down what the driver saw."""
    write_look(RunFolder(gate_folder, "r"), WATCH, is_open, "" if is_open else "main moved")


def test_a_gate_is_open_when_the_driver_said_so(gate: Gate, writer: ObjectWriter) -> None:
    assert not gate.is_open(), "the driver has not looked yet"
    look(writer, True)
    assert gate.is_open()
    assert gate.lets_through()
    look(writer, False)
    assert not gate.is_open()


def test_a_gate_that_held_a_request_back_lets_no_later_one_through(gate: Gate, writer: ObjectWriter) -> None:
    """Some keys of the group were not deleted, so the worker has to begin anew, and not go on as if nothing was."""
    look(writer, True)
    assert gate.lets_through()
    look(writer, False)
    assert not gate.lets_through()
    look(writer, True)
    assert not gate.lets_through()
    assert gate.has_shut


def test_a_gate_that_cannot_look_lets_nothing_through(gate: Gate, writer: ObjectWriter) -> None:
    look(writer, True)
    writer.put(WATCH, b"no JSON")
    with pytest.raises(FormatError):
        gate.is_open()
    assert not gate.lets_through()
    look(writer, True)
    assert not gate.lets_through()


def test_a_gate_is_closed_to_a_worker_whose_lease_was_lost(
    gate: Gate, writer: ObjectWriter, lease: Lease
) -> None:
    look(writer, True)
    lease.acquire("run r")  # the same holder, a new right
    assert not gate.lets_through()
    with pytest.raises(LeaseHeldError):
        gate.is_open()


def test_a_gate_is_closed_to_a_worker_whose_step_is_tried_again(gate: Gate, writer: ObjectWriter) -> None:
    look(writer, True)
    StepTry.claim(writer, STEP)
    assert not gate.lets_through()
    with pytest.raises(OvertakenError):
        gate.is_open()


def test_a_gate_is_closed_when_the_driver_was_silent_for_as_long_as_it_may_be(
    gate: Gate, writer: ObjectWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(writer, True)
    looked = writer.stat(WATCH).last_modified
    for seconds, is_open in ((59, True), (60, False), (61, False)):
        now = looked + timedelta(seconds=seconds)
        monkeypatch.setattr("dredge.runs.gate.store_clock", lambda *_, now=now: now)
        assert gate.is_open() is is_open, seconds


def test_a_look_through_the_gate_is_trusted_for_some_seconds_and_no_longer(
    gate: Gate, writer: ObjectWriter, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = GateConfig(lease=lease.acquire("run r"), watch=WATCH, trusted_seconds=2, silence_seconds_max=60)
    gate, seconds = Gate(RunFolder(writer, "r", gate.attempt), writer, config), 100.0
    monkeypatch.setattr("dredge.runs.gate.running_seconds", lambda: seconds)
    look(writer, True)
    assert gate.is_open()
    look(writer, False)
    seconds = 101.9
    assert gate.is_open()
    seconds = 102.0
    assert not gate.is_open()
    seconds = 102.1
    assert not gate.is_open(), "a look that found it closed is none to be trusted"


def test_a_gate_is_closed_to_a_worker_that_slept_while_it_looked(
    gate: Gate, writer: ObjectWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine was suspended after it had asked for the time: by then the driver's look was fresh."""
    for seconds, is_open in ((50.0, True), (70.0, False)):
        look(writer, True)
        times = iter((100.0, 100.0 + seconds))
        monkeypatch.setattr("dredge.runs.gate.running_seconds", lambda times=times: next(times))
        assert gate.is_open() is is_open, seconds


def test_a_gate_is_closed_to_a_worker_that_slept_until_the_drivers_look_arrived(
    gate: Gate, writer: ObjectWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were on one machine: what the driver had seen before that was suspended was written when it went on."""
    for seconds, is_open in ((50.0, True), (70.0, False)):
        look(writer, True)
        asked = writer.stat(WATCH).last_modified - timedelta(seconds=seconds)
        times = iter((100.0, 100.0 + seconds))
        monkeypatch.setattr("dredge.runs.gate.store_clock", lambda *_, asked=asked: asked)
        monkeypatch.setattr("dredge.runs.gate.running_seconds", lambda times=times: next(times))
        assert gate.is_open() is is_open, seconds


@pytest.mark.parametrize(("seconds", "is_open"), [(50.0, True), (70.0, False)])
def test_a_gate_is_closed_when_the_driver_slept_while_it_looked(
    gate: Gate, writer: ObjectWriter, monkeypatch: pytest.MonkeyPatch, seconds: float, is_open: bool
) -> None:
    """It saw the heads, slept, and wrote down then that all was well."""
    times = iter((100.0, 100.0 + seconds))
    monkeypatch.setattr("dredge.runs.watch.running_seconds", lambda: next(times))
    Watch(RunFolder(writer, "r"), WATCH, lambda: None).look()
    assert gate.is_open() is is_open


def test_nothing_is_deleted_outside_a_try(writer: ObjectWriter, lease: Lease) -> None:
    config = GateConfig(lease=lease.acquire("run r"), watch=WATCH, trusted_seconds=0, silence_seconds_max=60)
    with pytest.raises(FormatError, match="outside a try"):
        Gate(RunFolder(writer, "r"), writer, config)
