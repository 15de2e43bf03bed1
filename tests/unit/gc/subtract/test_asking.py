"""Listing a folder and asking for each object give the same answers; what costs a store less is done."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.gc.subtract import ask_store, by_folder
from dredge.gc.subtract.earlier_runs import Answer
from dredge.storage import ObjectInfo, ObjectReader, open_writer
from dredge.storage.model import LOOKS_PER_PAGE

PAGE = 1000


def ask(reader: ObjectReader, names: Sequence[str], threads: int) -> list[Answer]:
    return list(ask_store(reader, by_folder(names), threads).values())


class CountingReader:
    """A reader that counts its requests (pages of a listing too), and cuts listings into batches of some pages."""

    is_remote = True

    def __init__(self, inner: ObjectReader, batch_rows: int = 8 * PAGE, is_exact: bool = True) -> None:
        self.requests = 0
        self._inner = inner
        self._batch_rows = batch_rows
        self._is_exact = is_exact

    def stat(self, key: str) -> ObjectInfo:
        self.requests += 1
        return self._inner.stat(key)

    def list(self, *bounds: str) -> Iterator[pa.RecordBatch]:
        if not self._is_exact:  # what such a listing shows or omits before it fails does not count
            for batch in self._inner.list(*bounds):
                yield batch.take(pa.array(range(1, batch.num_rows, 2), pa.int64()))
            raise FormatError("keys are not in strict order")
        for batch in self._inner.list(*bounds):
            for first in range(0, batch.num_rows, self._batch_rows):
                piece = batch.slice(first, self._batch_rows)
                self.requests += -(-piece.num_rows // PAGE)
                yield piece


def filled(place: str, names: set[str]) -> Any:
    writer = open_writer(f"memory://{place}/lake")
    for name in names:
        writer.put(name, b"x" * (len(name) % 7))
    return writer


@pytest.mark.parametrize("seed", range(20))
def test_answers_do_not_depend_on_how_they_were_got(seed: int) -> None:
    chance = random.Random(seed)
    every = [
        f"data/{folder}/{name}"
        for folder in ("s", "s/t", "é", "s0")
        for name in ("", "a", "ab", "b", "b\0", "ü", "😀")
    ] + ["data/a", "data/b", "data/s"]
    names = {name for name in every if not name.endswith("/")}
    inner = filled(f"asked-{seed}", set(chance.sample(sorted(names), chance.randrange(len(names)))))
    asked = sorted(chance.sample(sorted(names), chance.randrange(1, len(names))))

    def answers(reader: Any) -> list[ObjectInfo]:
        found = ask(reader, asked, 2)
        assert len(found) == len(asked)
        return sorted((item for item in found if isinstance(item, ObjectInfo)), key=lambda info: info.key)

    expected = [inner.stat(name) for name in asked if name in set(inner_keys(inner))]
    for reader in (
        CountingReader(inner),
        CountingReader(inner, batch_rows=1),
        CountingReader(inner, is_exact=False),
    ):
        assert answers(reader) == sorted(expected, key=lambda info: info.key)


def inner_keys(inner: ObjectReader) -> list[str]:
    return [key for batch in inner.list("") for key in batch["key"].to_pylist()]


def test_close_objects_take_a_page_and_far_ones_a_request_each() -> None:
    names = {f"data/close/{number:04d}" for number in range(2000)}
    reader = CountingReader(filled("close", names))
    found = ask(reader, [*sorted(names)[::100], "data/far/1", "data/far/2"], 2)
    assert len(found) == 22
    assert reader.requests == 2 + 2


def test_nothing_counts_that_a_listing_showed_before_it_failed() -> None:
    names = sorted(f"data/s/{number:03d}" for number in range(LOOKS_PER_PAGE + 1))
    reader: Any = CountingReader(filled("inexact", set(names)), is_exact=False)
    assert sorted(info.key for info in ask(reader, names, 2) if isinstance(info, ObjectInfo)) == names


class Denying(CountingReader):
    """A store that describes no single object to us, as a policy may want it."""

    error: Exception = ConfigError("AccessDenied")

    def stat(self, key: str) -> ObjectInfo:
        raise self.error


@pytest.mark.parametrize(("count", "are_listed"), [(3, False), (4, True)])
def test_few_refused_objects_of_a_folder_are_odd_and_many_are_a_policy(count: int, are_listed: bool) -> None:
    """Few are held; for many the folder is listed."""
    asked = [f"data/s/{number}" for number in range(count)]
    found = ask(Denying(filled(f"refused-{count}", set(asked))), asked, 2)  # type: ignore[arg-type]
    assert [isinstance(item, ObjectInfo) for item in found] == [are_listed] * count


def test_single_objects_that_are_not_described_are_neither_there_nor_gone() -> None:
    inner = filled("odd", {"data/s/0", "data/t/0"})
    found = ask(Denying(inner), ["data/s/0", "data/s/1", "data/t/0"], 2)  # type: ignore[arg-type]
    assert not any(item is None or isinstance(item, ObjectInfo) for item in found)


def test_objects_that_can_be_neither_described_nor_listed_are_neither_there_nor_gone() -> None:
    class Mute(Denying):
        def list(self, *bounds: str) -> Iterator[pa.RecordBatch]:
            raise ConfigError("AccessDenied")

    asked = [f"data/s/{number}" for number in range(5)]
    found = ask(Mute(filled("mute", set(asked[:2]))), asked, 2)  # type: ignore[arg-type]
    assert len(found) == 5
    assert not any(item is None or isinstance(item, ObjectInfo) for item in found)


@pytest.mark.parametrize(
    "modified", [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 5, 5, tzinfo=UTC)]
)
def test_an_object_without_a_time_stops_the_run(modified: Any) -> None:
    """Some stores give the epoch where they know nothing; an object of that age would be garbage at once."""

    class Timeless(CountingReader):
        def stat(self, key: str) -> ObjectInfo:
            return ObjectInfo(key, 3, modified, "e")

    with pytest.raises(RefusedError, match="data/f/a"):
        ask(Timeless(filled("no-time", set())), ["data/f/a"], 2)  # type: ignore[arg-type]


def test_an_object_without_a_time_in_a_listing_is_no_answer() -> None:
    names = {f"data/s/{number:02d}" for number in range(LOOKS_PER_PAGE)}

    class Timeless(CountingReader):
        def list(self, *bounds: str) -> Iterator[pa.RecordBatch]:
            for batch in super().list(*bounds):
                times = pa.array([0] * batch.num_rows, batch.schema.field("last_modified").type)
                yield batch.set_column(2, batch.schema.field("last_modified"), times)

    with pytest.raises(RefusedError, match="data/s/"):
        ask(Timeless(filled("timeless", names)), sorted(names), 2)  # type: ignore[arg-type]
