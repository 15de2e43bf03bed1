"""Labels of hashes: a few small values for each address, combined from the labels of all rows with this address.

    rows      a small table of labels: one row for each source of addresses (a range, a file of staged addresses)
    columns   of labels; each has a rule to combine two values: all bits, the least, the greatest
    shards    a shard is a range of hashes; one is in memory, the others are in a temporary folder

So the rules for an address, its branches or its newest commit are found for hundreds of millions of addresses in the
memory of one shard.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from dredge.sets.hashes import NONE, Hashes, locate, shard_of

# Names (not distinct addresses) in one shard; combining them needs about 50 bytes each.
SHARD_VALUES = 8 << 20
_BUFFER_VALUES = 4 << 20

type Column = npt.NDArray[Any]


class Labels(Struct, frozen=True):
    """The labels of every row."""

    columns: tuple[Column, ...]  # each has a value for each row
    # for each column the rule to combine values: `np.bitwise_or`, `np.minimum`, `np.maximum`
    combine: tuple[np.ufunc, ...]


class Labelled(Struct, frozen=True):
    """Hashes with their labels."""

    hashes: Hashes
    columns: tuple[Column, ...]

    def find(self, wanted: Hashes) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Look up hashes; returns whether each is in the set, and its index (0 for a missing hash)."""
        return locate(self.hashes, wanted)


def combine(pieces: Sequence[Labelled], how: Sequence[np.ufunc]) -> Labelled:
    """Combine the labels of equal hashes."""
    hashes = np.concatenate([piece.hashes for piece in pieces])
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    columns = (np.concatenate(column) for column in zip(*(piece.columns for piece in pieces), strict=True))
    if not len(hashes):
        return Labelled(hashes, tuple(columns))
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    found = (ufunc.reduceat(column[order], starts) for column, ufunc in zip(columns, how, strict=True))
    return Labelled(hashes[starts], tuple(found))


class LabelledSets:
    """Collects the addresses of rows, and returns them shard by shard. A context manager for its temporary folder.
    `values`: upper limit of added hashes; determines the number of shards. `bits`: for 2**bits shards."""

    def __init__(self, labels: Labels, values: int, shard_values: int = SHARD_VALUES) -> None:
        self.bits = max(0, math.ceil(math.log2(max(1, values) / shard_values)))
        self._labels = labels
        self._waiting: list[tuple[int, Hashes]] = []
        self._length = 0
        self._whole: Labelled | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._files = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, row: int, hashes: Hashes) -> None:
        """Add the addresses of a row; hashes in any order."""
        self._waiting.append((row, hashes))
        self._length += len(hashes)
        whole = 0 if self._whole is None else len(self._whole.hashes)
        if self._length > max(_BUFFER_VALUES, whole // 2):
            self._flush()

    def shards(self) -> Iterator[tuple[int, Labelled]]:
        """Yield every shard with its number, in order, including empty shards."""
        self._flush()
        for shard in range(1 << self.bits):
            yield shard, self._shard(shard)

    def _shard(self, shard: int) -> Labelled:
        if self.bits == 0:
            return self._whole or self._empty()
        pieces = [self._load(path) for path in sorted(self._path.glob(f"{shard:04d}-*.npz"))]
        return combine(pieces, self._labels.combine) if pieces else self._empty()

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = np.repeat(
            np.array([row for row, _ in self._waiting], np.int64), [len(found) for _, found in self._waiting]
        )
        hashes = np.concatenate([found for _, found in self._waiting])
        self._waiting, self._length = [], 0
        found = Labelled(hashes, tuple(column[rows] for column in self._labels.columns))
        pieces = [found] if self._whole is None else [self._whole, found]
        united = combine(pieces, self._labels.combine)
        if self.bits == 0:
            self._whole = united
        else:
            self._spill(united)

    def _spill(self, found: Labelled) -> None:
        bounds = np.searchsorted(shard_of(found.hashes, self.bits), np.arange(1, 1 << self.bits))
        pieces = zip(*(np.split(array, bounds) for array in (found.hashes, *found.columns)), strict=True)
        for shard, arrays in enumerate(pieces):
            if len(arrays[0]):
                np.savez(self._path / f"{shard:04d}-{self._files:06d}.npz", *arrays)
        self._files += 1

    @property
    def _path(self) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="dredge-labels-")
        return Path(self._folder.name)

    @staticmethod
    def _load(path: Path) -> Labelled:
        with np.load(path) as arrays:
            hashes, *columns = (arrays[name] for name in arrays.files)
        return Labelled(hashes, tuple(columns))

    def _empty(self) -> Labelled:
        return Labelled(NONE, tuple(column[:0] for column in self._labels.columns))
