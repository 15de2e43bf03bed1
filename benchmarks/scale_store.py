"""A virtual store of millions of objects: addresses follow from a number, deletions are bits in a file.

In a process that called `install`, a namespace below a local folder with a file `virtual.json` has the
objects of that description below `data/`; other keys are normal files. An object has a name, a size and an
entity tag, and no content.

Requests are counted: one for each 1,000 names of a listing or a deletion.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache, wraps
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import NotFoundError
from dredge.storage.keys import in_range
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.storage.local import store as local
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, Level, MaySend, ObjectInfo, SkippedName, always
from dredge.storage.remote import OpenObject
from dredge.xid import new_descending_xid

DESCRIPTION, DELETED, COUNTERS = "virtual.json", "deleted.bits", "requests"
KINDS = ("get", "head", "put", "list", "bulk_delete")
DATA = "data/"
PER_SLICE = 50_000
"""Names in a slice, as of a server."""
PAGE = 1000
_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_DIGITS = np.frombuffer(_ALPHABET.encode(), np.uint8)
_NAME = 20
_RANK = 4  # digits of a name for its position in the slice; the others are random
_BATCH = 10_000


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
        """Write a folder's description, with nothing deleted."""
        (folder / DESCRIPTION).write_text(json.dumps(asdict(self)))
        (folder / DELETED).write_bytes(bytes(self.objects))

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

    def in_slice(self, slice_: int) -> npt.NDArray[np.int64]:
        """Return the numbers of a slice's objects, in the order of their names."""
        return np.arange(slice_ * PER_SLICE, min(self.objects, (slice_ + 1) * PER_SLICE))

    def addresses(self, numbers: npt.NDArray[np.int64]) -> list[str]:
        """Return the addresses of objects, `data/<slice>/<name>`."""
        names = _names(numbers)
        return [
            f"{DATA}{self.slices[n // PER_SLICE]}/{name}"
            for n, name in zip(numbers.tolist(), names, strict=True)
        ]

    def numbers(self, addresses: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the numbers of objects; raises NotFoundError for an unknown address."""
        found = np.array([self._guess(address) for address in addresses], np.int64)
        names = _names(found)
        for address, number, name in zip(addresses, found.tolist(), names, strict=True):
            if number < 0 or not address.endswith(name):
                raise NotFoundError(f"no object {address!r}")
        return found

    def _guess(self, address: str) -> int:
        """Return the possible number of an address; -1 for none."""
        slice_, _, name = address.removeprefix(DATA).partition("/")
        place = self._numbers.get(slice_)
        if place is None or len(name) != _NAME:
            return -1
        rank = sum(_ALPHABET.find(digit) << 5 * (_RANK - 1 - at) for at, digit in enumerate(name[:_RANK]))
        number = place * PER_SLICE + rank
        return number if 0 <= rank < PER_SLICE and number < self.objects else -1


def sizes(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return sizes of objects in bytes, nearly all different."""
    return 1000 + (numbers * 2654435761) % (1 << 27)


def etags(numbers: npt.NDArray[np.int64]) -> list[str]:
    """Return entity tags of objects."""
    return [
        f"{number:032x}" for number in (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).tolist()
    ]


def _names(numbers: npt.NDArray[np.int64]) -> list[str]:
    ranks, chance = (
        numbers % PER_SLICE,
        (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15),
    )
    digits = np.empty((len(numbers), _NAME), np.uint8)
    for at in range(_RANK):
        digits[:, at] = ranks >> 5 * (_RANK - 1 - at) & 31
    for at in range(_RANK, _NAME):
        chance = (chance ^ chance >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
        digits[:, at] = (chance >> np.uint64(59)).astype(np.uint8)
    return _DIGITS[digits].view(f"S{_NAME}").ravel().astype(str).tolist()


@lru_cache(maxsize=256)
def _virtual(folder: Path) -> tuple[Virtual, npt.NDArray[np.uint8]] | None:
    if not (folder / DESCRIPTION).exists():
        return None
    return Virtual.read(folder), np.memmap(folder / DELETED, np.uint8, "r+")


class _Counting:
    """Counts requests of this process in a file beside the objects."""

    _location: Location

    @property
    def _root(self) -> Path:
        return Path(self._location.root)

    @property
    def _found(self) -> tuple[Virtual, npt.NDArray[np.uint8]] | None:
        return next(
            (found for folder in (self._root, *self._root.parents) if (found := _virtual(folder))), None
        )

    def _count(self, kind: str, number: int = 1) -> None:
        for folder in (self._root, *self._root.parents):
            if _virtual(folder):
                with _lock:
                    _own(folder)[KINDS.index(kind)] += number
                return


_lock = threading.Lock()


@lru_cache(maxsize=4)
def _own(folder: Path) -> npt.NDArray[np.int64]:
    place = folder / COUNTERS / str(os.getpid())
    place.parent.mkdir(exist_ok=True)
    if not place.exists():
        place.write_bytes(bytes(8 * len(KINDS)))
    return np.memmap(place, np.int64, "r+")


def requests(folder: Path) -> Counter[str]:
    """Return the requests of all processes to a store."""
    total: Counter[str] = Counter()
    for place in (folder / COUNTERS).glob("*"):
        total.update(dict(zip(KINDS, np.fromfile(place, np.int64).tolist(), strict=True)))
    return total


class VirtualReader(_Counting, local.LocalReader):
    """Reads such a store."""

    is_remote = True

    def stat(self, key: str) -> ObjectInfo:
        """Return one object; raises NotFoundError."""
        self._count("head")
        if not (key.startswith(DATA) and self._found):
            return super().stat(key)
        virtual, deleted = self._found
        number = int(virtual.numbers([key])[0])
        if deleted[number]:
            raise NotFoundError(f"no object {key!r}")
        one = np.array([number])
        return ObjectInfo(key, int(sizes(one)[0]), virtual.modified(number // PER_SLICE), etags(one)[0])

    def get(self, key: str) -> bytes:
        """Read one file; raises NotFoundError."""
        self._count("get")
        return super().get(key)

    def get_many(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Read many files in order."""
        return ((key, self.get(key)) for key in keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of a file."""
        self._count("get")
        return super().get_range(key, start, length)

    def open_read(self, key: str, start: int = 0, length: int | None = None) -> OpenObject:
        """Open a file for reading."""
        self._count("get")
        return super().open_read(key, start, length)

    def list(
        self,
        prefix: str = "",
        start_after: str = "",
        stop_before: str = "",
        on_skipped: SkippedName | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """List in key order; see `ObjectReader.list`."""
        if not (prefix.startswith(DATA) and self._found):
            self._count("list")
            yield from super().list(prefix, start_after, stop_before, on_skipped)
            return
        virtual, deleted = self._found
        rest = 0
        for slice_, name in enumerate(virtual.slices):
            folder = f"{DATA}{name}/"
            if not (folder.startswith(prefix) or prefix.startswith(folder)):
                continue
            for batch in _batches(virtual, deleted, slice_, prefix, start_after, stop_before):
                rest += batch.num_rows
                self._count("list", rest // PAGE)
                rest %= PAGE
                yield batch
        self._count("list")

    def list_level(self, prefix: str = "") -> Level:
        """List one level."""
        self._count("list")
        found = self._found
        if prefix != DATA or found is None:
            return super().list_level(prefix)
        return Level([f"{DATA}{name}/" for name in found[0].slices], [])


def _batches(
    virtual: Virtual, deleted: npt.NDArray[np.uint8], slice_: int, prefix: str, after: str, before: str
) -> Iterator[pa.RecordBatch]:
    """Yield the existing objects of one slice within the bounds."""
    numbers = virtual.in_slice(slice_)
    folder, modified = f"{DATA}{virtual.slices[slice_]}/", virtual.modified(slice_)
    whole = folder.startswith(prefix) and not (after or before)
    # Names outside the bounds are not generated.
    if after > f"{folder}~" or (before and before <= folder):
        return
    first = _rank(after, folder, 0) if after.startswith(folder) else 0
    stop = _rank(before, folder, len(_ALPHABET) - 1) + 1 if before.startswith(folder) else PER_SLICE
    numbers = numbers[first:stop]
    numbers = numbers[deleted[numbers] == 0]
    for at in range(0, len(numbers), _BATCH):
        chosen = numbers[at : at + _BATCH]
        keys = [folder + name for name in _names(chosen)]
        if not whole:
            kept = [key.startswith(prefix) and in_range(key, after, before) for key in keys]
            keys, chosen = [key for key, keep in zip(keys, kept, strict=True) if keep], chosen[kept]
        if keys:
            columns = [keys, sizes(chosen), [modified] * len(keys), etags(chosen)]
            arrays = [
                pa.array(values, kind.type) for values, kind in zip(columns, LISTING_SCHEMA, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=LISTING_SCHEMA)


def _rank(bound: str, folder: str, unknown: int) -> int:
    """Return the position in a slice from the first characters of a name; `unknown` for an invalid one."""
    digits = bound.removeprefix(folder)[:_RANK].ljust(_RANK, "?")
    places = [_ALPHABET.find(digit) for digit in digits]
    return sum((unknown if at < 0 else at) << 5 * (_RANK - 1 - turn) for turn, at in enumerate(places))


def _counted[**P, R](method: Callable[P, R]) -> Callable[P, R]:
    """A method of a writer, with its requests counted."""

    @wraps(method)
    def count(*args: P.args, **kwargs: P.kwargs) -> R:
        cast(_Counting, args[0])._count("put")
        return method(*args, **kwargs)

    return count


class VirtualWriter(VirtualReader, local.LocalWriter):
    """Writes files of such a store."""

    put = _counted(local.LocalWriter.put)
    put_if_absent = _counted(local.LocalWriter.put_if_absent)
    put_if_match = _counted(local.LocalWriter.put_if_match)
    put_stream = _counted(local.LocalWriter.put_stream)


class VirtualDeleter(_Counting, local.LocalDeleter):
    """Deletes objects of such a store."""

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Mark objects as deleted; other keys are files."""
        found = self._found
        if found is None or not all(key.startswith(DATA) for key in keys):
            return super().delete(keys, may_send)
        virtual, deleted = found
        outcomes = []
        for at in range(0, len(keys), PAGE):
            page = keys[at : at + PAGE]
            if not may_send():
                outcomes += [DeleteOutcome(key, "failed", NOT_SENT) for key in page]
                continue
            self._count("bulk_delete")
            deleted[virtual.numbers(page)] = 1
            outcomes += [DeleteOutcome(key, "deleted") for key in page]
        return outcomes


def install() -> None:
    """Replace the storage functions of this process."""
    places = {"LocalReader": VirtualReader, "LocalWriter": VirtualWriter, "LocalDeleter": VirtualDeleter}
    for name, virtual in places.items():
        setattr(local, name, virtual)
