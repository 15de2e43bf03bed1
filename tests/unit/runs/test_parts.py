"""What a process has read or written is not read again, and what another one changed is seen where it counts."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.parts import cache_parts, get_part_cache
from dredge.runs.run import PLAN, StepRecord, perform
from dredge.runs.tries import StepTry
from dredge.storage import ObjectStream, open_writer
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URI = "memory://kept-test/r1"
ROWS = pa.table({"x": [1, 2]})


class Told:
    def __init__(self) -> None:
        self._writer = open_writer(URI)
        self.keys: list[str] = []
        self.before: Callable[[str], None] = lambda _: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def get(self, key: str) -> bytes:
        self.keys.append(key)
        return self._writer.get(key)

    def open_read(self, key: str) -> ObjectStream:
        self.keys.append(key)
        return self._writer.open_read(key)

    def put(self, key: str, data: bytes) -> str | None:
        self.before(key)
        return self._writer.put(key, data)


@pytest.fixture
def told() -> Iterator[Told]:
    yield Told()
    forget_memory_store("kept-test")


@pytest.fixture
def folder(told: Told) -> RunFolder:
    return RunFolder(told, "r1")  # type: ignore[arg-type]


@pytest.fixture
def reads(told: Told) -> list[str]:
    return told.keys


def other() -> RunFolder:
    return RunFolder(open_writer(URI), "r1")


def clock() -> datetime:
    return NOW


def do(folder: RunFolder, step: str, *inputs: str) -> None:
    def body(record: StepRecord) -> None:
        record.parts.append(folder.write_table(step, 0, ROWS))

    perform(folder, step, inputs, body, clock, roots={} if inputs else {PLAN: "p"})


def test_a_step_that_was_begun_again_elsewhere_is_not_built_on(folder: RunFolder) -> None:
    with folder.keeping(goes_on=True):
        do(folder, "first")
        StepTry.claim(other().writer, "first")
        with pytest.raises(RefusedError):
            do(folder, "second", "first")


def test_long_parts_and_the_oldest_ones_are_not_kept() -> None:
    with cache_parts(URI):
        parts = get_part_cache(URI)
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
    folder: RunFolder, told: Told
) -> None:
    together = threading.Barrier(3)

    def slow(key: str) -> None:
        if "bad" in key:
            raise UnavailableError("no")
        if "part" in key:
            together.wait(10)

    def body(record: StepRecord) -> None:
        record.parts += [folder.write_table("s", number, ROWS) for number in range(3)]
        # Whoever reads them meanwhile, from this object or another one in this process, gets what will be there.
        for reader in (folder, other()):
            assert reader.read_part(record.parts[2]).equals(ROWS)

    def failing(_: StepRecord) -> None:
        folder.write_bytes("t/bad", b"", 0)

    told.before = slow
    with folder.keeping():
        done = perform(folder, "s", [], body, clock)
        assert [other().writer.stat(part.key).size for part in done.parts] == [
            part.size_bytes for part in done.parts
        ]
        with pytest.raises(UnavailableError):
            perform(folder, "t", [], failing, clock)
        assert folder.read_summary("t") is None
        perform(folder, "u", [], lambda _: None, clock)  # the failure was that of its step alone


def test_a_long_part_is_read_while_another_thread_waits_until_it_is_written(
    folder: RunFolder, told: Told
) -> None:
    written = threading.Event()
    told.before = lambda _: cast(None, written.wait(10))
    data = bytes((1 << 20) + 1)  # too long to be kept after it is written
    with folder.keeping(), ThreadPoolExecutor() as pool:
        try:
            part = folder.write_bytes("s/long", data, 0)
            waiting = [pool.submit(folder.settle) for _ in range(2)]
            for _ in range(50):
                time.sleep(0.001)  # until both wait
                assert other().read_bytes(part) == data
            assert not any(item.done() for item in waiting)
        finally:
            written.set()
    assert other().read_bytes(part) == data
