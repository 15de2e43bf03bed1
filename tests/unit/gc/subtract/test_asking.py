"""Listing a folder and asking for each object give the same answers; listing takes fewer requests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.subtract.store_lookup import ask
from dredge.storage import ObjectInfo, ObjectReader, open_writer

PAGE = 1000


class CountingReader:
    """A reader that counts its requests, and cuts listings into batches of so many pages.

    Attributes:
        requests: made so far; a page of a listing is one.
    """

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
        if not self._is_exact:
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


def test_a_long_folder_with_few_of_the_objects_is_not_listed_to_its_end() -> None:
    names = {f"data/long/{number:05d}" for number in range(12_000)}
    reader = CountingReader(filled("long", names), batch_rows=4 * PAGE)
    asked = sorted(names)[::3000]
    found = ask(reader, asked, 2)
    assert sorted(info.key for info in found if isinstance(info, ObjectInfo)) == asked
    assert reader.requests == 4 + 2


def test_an_object_without_a_time_in_a_listing_is_no_answer() -> None:
    names = {f"data/s/{number}" for number in range(5)}

    class Timeless(CountingReader):
        def list(self, *bounds: str) -> Iterator[pa.RecordBatch]:
            for batch in super().list(*bounds):
                times = pa.array([0] * batch.num_rows, batch.schema.field("last_modified").type)
                yield batch.set_column(2, batch.schema.field("last_modified"), times)

    with pytest.raises(RefusedError, match="no time"):
        ask(Timeless(filled("timeless", names)), sorted(names), 2)  # type: ignore[arg-type]
