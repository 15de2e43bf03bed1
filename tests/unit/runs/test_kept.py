"""What a process has read or written is not read again, and what another one changed is seen where it counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.runs import clock as clocks
from dredge.runs import kept
from dredge.runs.chain import PLAN, check_chain, plan_digest
from dredge.runs.clock import StoreClock
from dredge.runs.folder import RunFolder
from dredge.runs.kept import keeping_parts, kept_parts
from dredge.runs.perform import StepRecord, perform
from dredge.runs.tries import StepTry
from dredge.storage import open_writer
from tests.support.memory_store import MemoryReader, MemoryWriter, forget_memory_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URI = "memory://kept-test/r1"
ROWS = pa.table({"x": [1, 2]})


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    yield RunFolder(open_writer(URI), "r1")
    forget_memory_store("kept-test")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that are read."""
    keys: list[str] = []
    for name in ("get", "open_read"):
        honest = getattr(MemoryReader, name)

        def read(self: MemoryReader, key: str, *more: int, honest=honest) -> object:  # type: ignore[no-untyped-def]
            keys.append(key)
            return honest(self, key, *more)

        monkeypatch.setattr(MemoryReader, name, read)
    return keys


def other() -> RunFolder:
    """The folder as another process sees it."""
    return RunFolder(open_writer(URI), "r1")


def clock() -> datetime:
    return NOW


def do(folder: RunFolder, step: str, *inputs: str) -> None:
    def body(record: StepRecord) -> None:
        record.parts.append(folder.write_table(step, 0, ROWS))

    perform(folder, step, inputs, body, clock, roots={} if inputs else {PLAN: "p"})


def test_parts_and_summaries_are_read_once_and_only_within_the_block(
    folder: RunFolder, reads: list[str]
) -> None:
    do(folder, "first")
    summary = folder.read_summary("first")
    assert summary is not None
    with folder.keeping():
        for _ in range(2):
            assert folder.read_summary("first") == summary
            assert folder.read_part(summary.parts[0]).equals(ROWS)
        del reads[:]
        assert folder.read_summary("first") == summary
        assert folder.read_part(summary.parts[0]).equals(ROWS)
        # A task in this process finds them, too.
        assert RunFolder.of_task(URI, "r1", None).read_part(summary.parts[0]).equals(ROWS)
        assert reads == []
    folder.read_summary("first")
    folder.read_part(summary.parts[0])
    assert [key for key in reads if key.startswith("first/t001/")] == [summary.parts[0].key]
    assert kept_parts(URI) is None


def test_a_step_that_goes_on_reads_the_numbers_of_its_inputs_alone(
    folder: RunFolder, reads: list[str]
) -> None:
    with folder.keeping(goes_on=True):
        do(folder, "first")
        del reads[:]
        do(folder, "second", "first")
    assert reads == ["first/_try.json"]


def test_a_run_that_goes_on_elsewhere_does_no_step_again_that_is_done(folder: RunFolder) -> None:
    with folder.keeping(goes_on=True):
        do(folder, "first")
        do(folder, "second", "first")
    StepTry.claim(folder.writer, "third")  # its process ended
    again = other()
    with again.keeping(goes_on=True):
        for step, inputs in {"first": (), "second": ("first",), "third": ("second",)}.items():
            do(again, step, *inputs)
    done = other().read_summaries(["first", "second", "third"])
    assert [summary.try_number for summary in done.values() if summary is not None] == [1, 1, 2]


def test_a_step_that_was_begun_again_elsewhere_is_not_built_on(folder: RunFolder) -> None:
    with folder.keeping(goes_on=True):
        do(folder, "first")
        StepTry.claim(other().writer, "first")
        with pytest.raises(RefusedError):
            do(folder, "second", "first")


def test_the_chain_is_read_afresh(folder: RunFolder, reads: list[str]) -> None:
    folder.write_json(f"{PLAN}.json", {"lease": 1, "mode": "clean"})
    with folder.keeping(goes_on=True):
        perform(folder, "first", [], lambda _: None, clock, roots={PLAN: plan_digest(folder)})
        found = folder.read_summaries(["first"])
        seen = {name: summary for name, summary in found.items() if summary is not None}
        del reads[:]
        check_chain(folder, "last", {"first": [PLAN]}, seen)
        assert {*reads} == {"first/_SUCCESS.json", "first/_try.json", f"{PLAN}.json"}
        other().write_json(f"{PLAN}.json", {"lease": 2, "mode": "optimized"})
        with pytest.raises(RefusedError):
            check_chain(folder, "last", {"first": [PLAN]}, seen)


def test_long_parts_and_the_oldest_ones_are_not_kept() -> None:
    with keeping_parts(URI):
        parts = kept_parts(URI)
        assert parts is not None
        parts.put("long", b"x" * ((1 << 20) + 1))
        assert parts.get("long") is None
        for number in range(70):
            parts.put(str(number), bytes(1 << 20))
            parts.get("0")
        assert parts.get("0") is not None
        assert parts.get("1") is None
        assert parts.get("69") is not None


def test_parts_are_written_side_by_side_and_there_when_a_step_is_done_and_a_failure_is_the_steps(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, honest = threading.Barrier(3), MemoryWriter.put

    def slow(self: MemoryWriter, key: str, data: bytes) -> str | None:
        if "bad" in key:
            raise UnavailableError("no")
        if "part" in key:
            together.wait(10)
        return honest(self, key, data)

    def body(record: StepRecord) -> None:
        record.parts += [folder.write_table("s", number, ROWS) for number in range(3)]
        # Whoever reads them meanwhile, from this object or another one in this process, gets what will be there.
        for reader in (folder, other()):
            assert reader.read_part(record.parts[2]).equals(ROWS)

    def failing(_: StepRecord) -> None:
        folder.write_bytes("t/bad", b"", 0)

    monkeypatch.setattr(MemoryWriter, "put", slow)
    with folder.keeping():
        done = perform(folder, "s", [], body, clock)
        assert [other().writer.stat(part.key).size for part in done.parts] == [
            part.size_bytes for part in done.parts
        ]
        with pytest.raises(UnavailableError):
            perform(folder, "t", [], failing, clock)
        assert folder.read_summary("t") is None
        perform(folder, "u", [], lambda _: None, clock)  # the failure was that of its step alone


def test_too_much_is_not_in_memory_while_it_is_being_written(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    honest = MemoryWriter.put

    def put(self: MemoryWriter, key: str, data: bytes) -> str | None:
        written.append(key)
        return honest(self, key, data)

    monkeypatch.setattr(MemoryWriter, "put", put)
    monkeypatch.setattr(kept, "_BYTES_MAX", 20)
    with folder.keeping():
        for number in range(5):
            folder.write_bytes(f"s/{number}", b"x" * 10, 1)
            assert len(written) >= number - 1
        folder.write_bytes("s/0", b"y", 1)  # after the first one, whose key it has
    assert folder.writer.get("s/0") == b"y"


def test_the_stores_time_is_asked_once_a_minute_and_again_when_the_machines_clock_was_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[datetime] = []
    now, seconds = NOW, 0.0

    def ask(*_: object) -> datetime:
        asked.append(now + timedelta(hours=1))  # the store's clock is another one
        return asked[-1]

    monkeypatch.setattr(clocks, "store_clock", ask)
    monkeypatch.setattr(clocks, "running_seconds", lambda: seconds)
    store = StoreClock(open_writer(URI), lambda: now)
    assert store.now() == NOW + timedelta(hours=1)
    now, seconds = now + timedelta(seconds=59), 59.0
    assert store.now() == NOW + timedelta(hours=1, seconds=59)
    assert len(asked) == 1
    now, seconds = now + timedelta(seconds=2), 61.0
    assert store.now() == asked[-1]
    assert len(asked) == 2
    now += timedelta(seconds=5)  # set by hand
    assert store.now() == asked[-1]
    assert len(asked) == 3
    now -= timedelta(seconds=5)
    store.now()
    assert len(asked) == 4
