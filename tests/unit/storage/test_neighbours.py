"""What a listing says of names that lie close: every name is answered for, and only what is there is found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from dredge.storage import open_writer
from dredge.storage.lookup import find_neighbours


class Paged:
    """A reader whose listings come in batches of so many rows."""

    def __init__(self, inner: Any, rows: int) -> None:
        self._inner = inner
        self._rows = rows

    def list(self, *bounds: str) -> Iterator[pa.RecordBatch]:
        for batch in self._inner.list(*bounds):
            for first in range(0, batch.num_rows, self._rows):
                yield batch.slice(first, self._rows)


@pytest.mark.parametrize("seed", range(20))
def test_every_name_is_in_one_stretch_and_found_only_when_it_is_there(seed: int) -> None:
    chance = random.Random(seed)
    every = [
        f"data/{folder}{name}"
        for folder in ("", "s/", "s/t/", "é/")
        for name in ["a", "ab", "b", "b\x00", "ü", "😀"]
    ]
    there = set(chance.sample(every, chance.randrange(len(every))))
    names = sorted(chance.sample(every, chance.randrange(1, len(every))))
    writer = open_writer(f"memory://neighbours-{seed}/lake")
    for name in there:
        writer.put(name, b"x")
    stretches = list(find_neighbours(Paged(writer, chance.choice((1, 2, 100))), "data/", names))  # type: ignore[arg-type]
    assert [name for stretch in stretches for name in stretch.names] == names
    for stretch in stretches:
        assert stretch.found["key"].to_pylist() == [name for name in stretch.names if name in there]
    between = [name for name in there if names[0][:-1] < name <= names[-1]]
    assert sum(stretch.listed for stretch in stretches) == len(between)
