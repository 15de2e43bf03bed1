"""Objects of a made-up store: names, sizes, times and entity tags follow from a number, and nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import NotFoundError
from dredge.xid import new_descending_xid

type Bytes = npt.NDArray[np.uint8]
type Numbers = npt.NDArray[np.int64]

DESCRIPTION = "virtual.json"
DATA = "data/"
PER_SLICE = 50_000
"""Names in a slice, as of a server."""
ALPHABET = "0123456789abcdefghijklmnopqrstuv"
RANK = 4
"""Digits of a name for its position in the slice; the others are random."""
_NAME = 20
_DIGITS, _HEX = (np.frombuffer(text.encode(), np.uint8) for text in (ALPHABET, "0123456789abcdef"))
_MIXING = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True)
class Virtual:
    """The objects of a store.

    Attributes:
        objects: number of objects.
        newest: creation time of the newest slice, ISO 8601; slices are an hour apart.
    """

    objects: int
    newest: str

    @classmethod
    def read(cls, folder: Path) -> Virtual:
        """Read a folder's description."""
        return cls(**json.loads((folder / DESCRIPTION).read_text()))

    def write(self, folder: Path) -> None:
        """Write a folder's description."""
        (folder / DESCRIPTION).write_text(json.dumps(asdict(self)))

    @cached_property
    def slices(self) -> list[str]:
        """Return the names of the slices in order, newest first."""
        newest = datetime.fromisoformat(self.newest)
        count = -(-self.objects // PER_SLICE)
        # Six characters are the time; the others depend on the process, and must be constant here.
        return [
            new_descending_xid(newest - timedelta(hours=number))[:6] + f"{number:013d}0"
            for number in range(count)
        ]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.slices)}

    def modified(self, slice_: int) -> datetime:
        """Return the time of a slice's objects."""
        return datetime.fromisoformat(self.newest) - timedelta(hours=slice_)

    def folder(self, slice_: int) -> str:
        """Return the prefix of a slice's addresses."""
        return f"{DATA}{self.slices[slice_]}/"

    def in_slice(self, slice_: int) -> Numbers:
        """Return the numbers of a slice's objects, in the order of their names."""
        return np.arange(slice_ * PER_SLICE, min(self.objects, (slice_ + 1) * PER_SLICE))

    def addresses(self, numbers: Numbers) -> list[str]:
        """Return the addresses of objects, `data/<slice>/<name>`."""
        found = zip(numbers.tolist(), _texts(names(numbers)), strict=True)
        return [self.folder(number // PER_SLICE) + name for number, name in found]

    def keys(self, slice_: int, numbers: Numbers) -> pa.StringArray:
        """Return the addresses of some objects of a slice."""
        return strings(self.folder(slice_), names(numbers))

    def numbers(self, addresses: Sequence[str]) -> Numbers:
        """Return the numbers of objects; raises NotFoundError for an unknown address."""
        found = np.array([self._guess(address) for address in addresses], np.int64)
        for address, number, name in zip(addresses, found.tolist(), _texts(names(found)), strict=True):
            if number < 0 or not address.endswith(name):
                raise NotFoundError(f"no object {address!r}")
        return found

    def _guess(self, address: str) -> int:
        """Return the possible number of an address; -1 for none."""
        slice_, _, name = address.removeprefix(DATA).partition("/")
        place = self._numbers.get(slice_)
        if place is None or len(name) != _NAME:
            return -1
        rank = sum(ALPHABET.find(digit) << 5 * (RANK - 1 - at) for at, digit in enumerate(name[:RANK]))
        number = place * PER_SLICE + rank
        return number if 0 <= rank < PER_SLICE and number < self.objects else -1


def names(numbers: Numbers) -> Bytes:
    """Return the names of objects in their slices, a row of characters each."""
    ranks, chance = numbers % PER_SLICE, _mixed(numbers + 1)
    digits = np.empty((len(numbers), _NAME), np.uint8)
    for at in range(RANK):
        digits[:, at] = ranks >> 5 * (RANK - 1 - at) & 31
    for at in range(RANK, _NAME):
        chance = (chance ^ chance >> np.uint64(29)) * _MIXING[1]
        digits[:, at] = (chance >> np.uint64(59)).astype(np.uint8)
    return _DIGITS[digits]


def sizes(numbers: Numbers) -> Numbers:
    """Return sizes of objects in bytes, nearly all different, from 2 MiB to 130 MiB."""
    return (1 << 21) + (numbers * 2654435761) % (1 << 27)


def etags(numbers: Numbers) -> Bytes:
    """Return entity tags of objects, a row of characters each."""
    mixed = _mixed(numbers)
    digits = [np.zeros(len(numbers), np.uint64)] * 16
    digits += [mixed >> np.uint64(60 - 4 * at) & np.uint64(15) for at in range(16)]
    return _HEX[np.stack(digits, 1).astype(np.uint8)]


def identities(numbers: Numbers) -> Bytes:
    """Return identities of entries, a row of 32 bytes each: random ones, since nothing compares them."""
    words = [_mixed(numbers ^ (at + 1) << 40) for at in range(4)]
    return np.stack([word ^ word >> np.uint64(31) for word in words], 1).view(np.uint8)


def strings(prefix: str, rows: Bytes) -> pa.StringArray:
    """Return a prefix followed by rows of characters, as strings."""
    width = len(prefix) + rows.shape[1]
    whole = np.empty((len(rows), width), np.uint8)
    whole[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    whole[:, len(prefix) :] = rows
    places = np.arange(0, (len(rows) + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(places), pa.py_buffer(whole))


def _mixed(numbers: Numbers) -> npt.NDArray[np.uint64]:
    return numbers.astype(np.uint64) * _MIXING[0]


def _texts(rows: Bytes) -> list[str]:
    return strings("", rows).to_pylist()  # type: ignore[no-any-return]
