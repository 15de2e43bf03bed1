"""A worker's side of the gate: what closed it once, and whatever it cannot see, keeps it closed."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError, LeaseHeldError, OvertakenError, UnavailableError
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.gate import Gate, GateConfig, Watch, publish, watching, write_look
from dredge.runs.lease import Lease
from dredge.runs.payload import PartInfo
from dredge.runs.tries import StepTry
from dredge.storage import ObjectWriter, open_writer, store_clock
from tests.support.memory_store import MemoryReader, forget_memory_store, memory_store

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
    grant = lease.acquire("run r")
    config = GateConfig(lease=grant, watch=WATCH, trusted_seconds=0, silence_seconds_max=60)
    return Gate(RunFolder(writer, "r", StepTry.claim(writer, STEP)), writer, config)


@dataclass
class Clocks:
    store: Callable[..., datetime] = store_clock
    running: Callable[[], float] = running_seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    found = Clocks()
    monkeypatch.setattr("dredge.runs.gate.running_seconds", lambda: found.running())
    monkeypatch.setattr("dredge.runs.gate.store_clock", lambda *asked: found.store(*asked))
    return found


def look(gate_folder: ObjectWriter, is_open: bool) -> None:
    now = store_clock(gate_folder, "")
    write_look(RunFolder(gate_folder, "r"), WATCH, is_open, "" if is_open else "main moved", now)


def test_a_gate_is_open_when_the_driver_said_so(gate: Gate, writer: ObjectWriter) -> None:
    assert not gate.is_open(), "the driver has not looked yet"
    look(writer, True)
    assert gate.is_open()
    assert gate.lets_through()
    look(writer, False)
    assert not gate.is_open()


def test_a_gate_that_held_a_request_back_lets_no_later_one_through(gate: Gate, writer: ObjectWriter) -> None:
    look(writer, True)
    assert gate.lets_through()
    write_look(RunFolder(writer, "r"), WATCH, True, "", store_clock(writer, "") - timedelta(minutes=2))
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
    gate: Gate, writer: ObjectWriter, clocks: Clocks
) -> None:
    look(writer, True)
    looked = datetime.fromisoformat(json.loads(writer.get(WATCH))["at"])
    clocks.running = lambda: 100.0
    for seconds, is_open in ((59, True), (60, False), (61, False)):
        now = looked + timedelta(seconds=seconds)
        clocks.store = lambda *_, now=now: now
        assert gate.is_open() is is_open, seconds


@pytest.mark.parametrize(("ahead", "is_open"), [(50, True), (70, False), (3600, False)])
def test_a_look_of_a_driver_that_died_before_the_stores_clock_was_set_back_opens_nothing(
    gate: Gate, writer: ObjectWriter, ahead: int, is_open: bool
) -> None:
    at = store_clock(writer, "") + timedelta(seconds=ahead)
    write_look(RunFolder(writer, "r"), WATCH, True, "", at)
    assert gate.is_open() is is_open


@pytest.mark.parametrize("back", [5, 30, 59, 600])
def test_a_driver_that_died_is_silent_for_no_longer_when_the_stores_clock_is_set_back(
    gate: Gate, writer: ObjectWriter, clocks: Clocks, back: int
) -> None:
    look(writer, True)
    looked = datetime.fromisoformat(json.loads(writer.get(WATCH))["at"])
    seconds = 100.0
    clocks.running = lambda: seconds
    clocks.store = lambda *_: looked + timedelta(seconds=seconds - 100 - (back if seconds > 101 else 0))
    opened = []
    for seconds in (100.0, *map(float, range(103, 1000, 3))):
        if gate.is_open():
            opened.append(seconds)
    assert opened[0] == 100.0
    assert opened[-1] < 160.0


def test_a_driver_that_lives_is_believed_when_the_stores_clock_is_set_back(
    gate: Gate, writer: ObjectWriter, clocks: Clocks
) -> None:
    for seconds in range(0, 300, 30):
        clocks.running = lambda seconds=seconds: 100.0 + seconds  # type: ignore[misc]
        write_look(
            RunFolder(writer, "r"), WATCH, True, "", store_clock(writer, "") - timedelta(seconds=seconds / 10)
        )
        assert gate.is_open(), seconds


def test_a_look_through_the_gate_is_trusted_for_some_seconds_and_no_longer(
    gate: Gate, writer: ObjectWriter, lease: Lease, clocks: Clocks
) -> None:
    config = GateConfig(lease=lease.acquire("run r"), watch=WATCH, trusted_seconds=2, silence_seconds_max=60)
    gate, seconds = Gate(RunFolder(writer, "r", gate.attempt), writer, config), 100.0
    clocks.running = lambda: seconds
    look(writer, True)
    assert gate.is_open()
    look(writer, False)
    seconds = 101.9
    assert gate.is_open()
    seconds = 102.0
    assert not gate.is_open()
    seconds = 102.1
    assert not gate.is_open(), "a look that found it closed is none to be trusted"


@pytest.mark.parametrize(("seconds", "is_open"), [(50.0, True), (70.0, False)])
def test_a_gate_is_closed_to_a_worker_that_slept_while_it_looked(
    gate: Gate, writer: ObjectWriter, clocks: Clocks, seconds: float, is_open: bool
) -> None:
    look(writer, True)
    times = iter((100.0, 100.0, 100.0 + seconds))
    clocks.running = lambda: next(times)
    assert gate.is_open() is is_open


@pytest.mark.parametrize(("slept", "is_open"), [(50.0, True), (70.0, False)])
def test_a_gate_is_closed_to_a_worker_that_slept_before_the_stores_time_reached_it(
    gate: Gate, writer: ObjectWriter, clocks: Clocks, slept: float, is_open: bool
) -> None:
    look(writer, True)
    seconds = 100.0

    def answered(*asked: Any) -> datetime:
        nonlocal seconds
        told, seconds = store_clock(*asked), seconds + slept
        return told

    clocks.running, clocks.store = (lambda: seconds), answered
    assert gate.is_open() is is_open


def test_a_worker_asks_for_the_time_after_it_has_read_what_the_driver_saw(
    gate: Gate, writer: ObjectWriter, clocks: Clocks, stand_in: Any
) -> None:
    look(writer, True)
    halted = timedelta()

    def slowly(honest: Any, reader: object, key: str) -> Any:
        nonlocal halted
        found = honest(reader, key)
        halted = timedelta(seconds=70) if key == WATCH else halted
        return found

    stand_in(MemoryReader.get, slowly)
    clocks.store = lambda *asked: store_clock(*asked) + halted
    assert not gate.is_open()


class Slow:
    def __init__(self, writer: ObjectWriter, meanwhile: Callable[[], None]) -> None:
        self._writer = writer
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def put(self, key: str, data: bytes) -> str | None:
        self._meanwhile()
        return self._writer.put(key, data)


@pytest.mark.parametrize(("seconds", "is_open"), [(50, True), (70, False)])
@pytest.mark.parametrize("when", ["while it looked", "while it wrote"])
def test_a_look_is_as_old_as_its_beginning(
    gate: Gate, writer: ObjectWriter, clocks: Clocks, seconds: int, is_open: bool, when: str
) -> None:
    late = timedelta()

    def sleep() -> None:
        nonlocal late
        late = timedelta(seconds=seconds)

    def seen() -> None:
        return sleep() if when == "while it looked" else None

    clocks.store = lambda *asked: store_clock(*asked) + late
    slow: Any = Slow(writer, sleep if when == "while it wrote" else lambda: None)
    Watch(RunFolder(slow, "r"), writer, WATCH, seen).look()
    assert gate.is_open() is is_open


def test_a_look_that_arrives_after_the_one_that_closed_the_gate_opens_nothing(
    gate: Gate, writer: ObjectWriter
) -> None:
    look(writer, True)
    first = writer.get(WATCH)
    look(writer, False)
    writer.put(WATCH, first)
    assert not gate.is_open()


@pytest.mark.parametrize("refused", [WATCH, f"{WATCH}.shut"])
def test_a_gate_is_closed_when_the_store_took_one_of_the_two_words_for_it(
    gate: Gate, writer: ObjectWriter, refused: str
) -> None:
    class Refusing(Slow):
        def put(self, key: str, data: bytes) -> str | None:
            if key == refused:
                raise UnavailableError("slow down")
            return writer.put(key, data)

    look(writer, True)
    moody: Any = Refusing(writer, lambda: None)
    watch = Watch(RunFolder(moody, "r"), writer, WATCH, lambda: "main moved")
    assert not watch.look()
    assert not gate.is_open()


def test_nothing_is_deleted_outside_a_try(writer: ObjectWriter, lease: Lease) -> None:
    config = GateConfig(lease=lease.acquire("run r"), watch=WATCH, trusted_seconds=0, silence_seconds_max=60)
    with pytest.raises(FormatError):
        Gate(RunFolder(writer, "r"), writer, config)


PUBLISHED = "bulk_delete/_published/1"


@pytest.fixture
def reading(writer: ObjectWriter, gate: Gate) -> Gate:
    grant = gate._config.lease
    config = GateConfig(
        lease=grant, watch=WATCH, trusted_seconds=0, silence_seconds_max=60, published=PUBLISHED
    )
    return Gate(RunFolder(writer, "r", gate.attempt), writer, config)


def look_with(writer: ObjectWriter, published: int) -> None:
    write_look(RunFolder(writer, "r"), WATCH, True, "", store_clock(writer, ""), published)


def put_out(writer: ObjectWriter, number: int) -> list[PartInfo]:
    parts = [PartInfo(f"{item}.u64", item, 8 * item, f"{item:064x}") for item in range(number)]
    publish(RunFolder(writer, "r"), PUBLISHED, number, parts)
    return parts


def test_a_worker_reads_the_publication_that_a_look_names_together_with_the_look(
    reading: Gate, writer: ObjectWriter
) -> None:
    look_with(writer, 0)
    assert reading.is_open()
    assert (reading.number, reading.published) == (0, ())
    put_out(writer, 1)
    parts = put_out(writer, 2)
    look_with(writer, 2)
    assert reading.is_open()
    assert (reading.number, list(reading.published)) == (2, parts)


def test_a_look_that_arrives_late_hides_no_newer_publication(reading: Gate, writer: ObjectWriter) -> None:
    put_out(writer, 1)
    parts = put_out(writer, 2)
    look_with(writer, 1)
    assert reading.is_open()
    assert (reading.number, list(reading.published)) == (2, parts)
    look_with(writer, 0)
    assert reading.is_open()
    assert (reading.number, list(reading.published)) == (2, parts)


def test_a_gate_is_closed_where_what_a_look_names_is_missing(reading: Gate, writer: ObjectWriter) -> None:
    look_with(writer, 3)
    assert not reading.lets_through()
    assert reading.has_shut


def test_a_request_that_was_prepared_before_a_publication_is_not_sent(
    reading: Gate, writer: ObjectWriter
) -> None:
    look_with(writer, 0)
    assert reading.is_open()
    before = reading.permission()
    assert before()
    put_out(writer, 1)
    look_with(writer, 1)
    assert not before()
    assert not before()
    assert not reading.has_shut, "the task goes on with what is left"
    assert reading.permission()()
    look(writer, False)
    assert not reading.permission()()
    assert reading.has_shut


KEY = "s/_watch/1.json"
MINUTE = timedelta(minutes=1)


@pytest.fixture
def folder() -> RunFolder:
    memory_store("watch-test").objects.clear()
    return RunFolder(open_writer("memory://watch-test/run"), "run")


def _written(folder: RunFolder) -> dict[str, Any]:
    found = folder.read_json(KEY)
    assert timedelta() <= store_clock(folder.writer, "") - datetime.fromisoformat(found.pop("at")) < MINUTE
    return found


def test_a_reason_to_stop_closes_the_gate(folder: RunFolder) -> None:
    watch = Watch(folder, folder.writer, KEY, lambda: "main moved")
    assert not watch.look()
    assert _written(folder) == {"open": False, "reason": "main moved", "published": 0}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(UnavailableError("503"), "503"), (KeyError(), "KeyError"), (UnavailableError(""), "UnavailableError")],
)
def test_a_look_that_fails_closes_the_gate_also_without_a_word(
    folder: RunFolder, error: Exception, reason: str
) -> None:
    def look() -> str | None:
        raise error

    watch = Watch(folder, folder.writer, KEY, look)
    assert not watch.look()
    assert watch.error is error
    assert _written(folder) == {"open": False, "reason": reason, "published": 0}


def test_a_driver_that_cannot_ask_for_the_time_closes_the_gate(folder: RunFolder, clocks: Clocks) -> None:
    def no_clock(*_: object) -> datetime:
        raise UnavailableError("503")

    clocks.store = no_clock
    assert not Watch(folder, folder.writer, KEY, lambda: None).look()
    assert folder.read_json(KEY) == {"open": False, "reason": "503", "at": None, "published": 0}


@pytest.mark.parametrize("looks", [UnavailableError("heads: 503"), None])
def test_a_look_that_cannot_be_written_down_stops_the_driver_too(
    folder: RunFolder, looks: Exception | None
) -> None:
    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(folder.writer, name)

        def put(self, key: str, data: bytes) -> None:
            raise ConfigError("the disk is full")

    def look() -> str | None:
        if looks is not None:
            raise looks
        return None

    full: Any = Full()
    watch = Watch(RunFolder(full, "run"), folder.writer, KEY, look)
    assert not watch.look()
    assert isinstance(watch.error, ConfigError if looks is None else UnavailableError)


def test_the_driver_looks_again_and_again_until_it_finds_a_reason_to_stop(folder: RunFolder) -> None:
    looks, last = 0, threading.Event()

    def look() -> str | None:
        nonlocal looks
        looks += 1
        if looks < 3:
            return None
        last.set()
        return "main moved"

    with watching(folder, folder.writer, KEY, look, 0.001) as watch:
        assert last.wait(60)
    assert (looks, watch.found) == (3, "main moved"), "and not once more, when the reason might be gone"
    assert _written(folder) == {"open": False, "reason": "main moved", "published": 0}


def test_nobody_looks_when_the_deleting_is_over(folder: RunFolder) -> None:
    with watching(folder, folder.writer, KEY, lambda: None, 3600):
        watcher = next(thread for thread in threading.enumerate() if thread.name == "watch")
        assert watcher.is_alive()
    assert not watcher.is_alive()
