"""Looks are bounded, spread, and take one request for many names where names lie close."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError
from dredge.gc.verify import choose, look_for, looks_at
from dredge.storage import ObjectReader, open_writer


class CountingReader:
    """A reader that counts requests, and shows at most so many names in one answer of a listing."""

    is_remote = True

    def __init__(self, inner: ObjectReader, rows: int = 1000) -> None:
        self.stats = self.lists = 0
        self._inner = inner
        self._rows = rows

    def stat(self, key: str) -> Any:
        self.stats += 1
        return self._inner.stat(key)

    def list(self, *bounds: str) -> Iterator[pa.RecordBatch]:
        for batch in self._inner.list(*bounds):
            for first in range(0, batch.num_rows, self._rows):
                self.lists += 1
                yield batch.slice(first, self._rows)


def reader_of(place: str, names: set[str], rows: int = 1000) -> Any:
    writer = open_writer(f"memory://{place}/lake")
    for name in names:
        writer.put(name, b"x")
    return CountingReader(writer, rows)


@pytest.mark.parametrize("length", [1, 7])
def test_a_sample_has_at_least_the_looks_asked_for_and_comes_from_all_over(length: int) -> None:
    names = [f"data/s/{number:05d}" for number in range(10_000)]
    runs = choose(names, 500, length, random.Random(1))
    looked = [name for run in runs for name in run]
    assert 500 <= len(looked) == len(set(looked)) < 500 + 2 * length
    assert {int(name[-5:]) // 1000 for name in looked} == set(range(10))
    assert [name for run in choose(names, 20_000, length, random.Random(1)) for name in run] == names
    assert not choose(names, 0, length, random.Random(1))


def test_of_few_deleted_names_a_share_is_looked_for_and_never_less_than_some() -> None:
    assert [looks_at(deleted, 1000) for deleted in (10, 1_000, 1_150, 5_000, 25_000)] == [
        200,
        200,
        230,
        1_000,
        1_000,
    ]
    assert looks_at(1_000_000, 0) == 0


def test_names_beside_are_in_the_runs_and_do_not_count() -> None:
    names = [f"data/s/{number:03d}" for number in range(0, 100, 2)]
    beside = [f"data/s/{number:03d}" for number in range(1, 100, 2)] + ["data/t/1"]
    runs = choose(names, 10, 4, random.Random(1), beside)
    assert [len(run) for run in runs] == [4] * 5
    assert all(len({*run} & {*names}) == 2 for run in runs)
    everything = choose(names, 1000, 4, random.Random(1), beside)
    assert {name for run in everything for name in run} == {*names, *beside} - {"data/t/1"}, (
        "a run has something that was deleted"
    )


def test_an_object_that_the_store_will_not_describe_is_looked_for_in_a_listing() -> None:
    reader = reader_of("denied", {"data/a"})

    def denied(_key: str) -> Any:
        raise ConfigError("AccessDenied")

    reader.stat = denied
    assert look_for(reader, [["data/a"], ["data/b"]], 2).there == ["data/a"]
