"""A made-up store of millions of objects: deletions are bytes in a file, all else follows from numbers.

In a process that called `install`, a namespace below a local folder with a file `virtual.json` has the
objects of that description below `data/`, and range files without contents; other keys are normal files.

Each process counts its requests in a file (one for each 1,000 names of a listing or a deletion), and the processor
time and bytes of all made-up data. With `LATENCY` in the environment each request first waits so long.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.latency import LATENCY
from benchmarks.scale_objects import (
    ALPHABET,
    DATA,
    DESCRIPTION,
    PER_SLICE,
    RANK,
    Bytes,
    Numbers,
    Virtual,
    etags,
    sizes,
    strings,
)
from benchmarks.scale_ranges import MARK, make
from dredge.errors import NotFoundError
from dredge.storage.keys import in_range
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.storage.local import store as local
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, Level, MaySend, ObjectInfo, SkippedName, always
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import get_ahead, ordered_map
from dredge.storage.remote import OpenObject

DELETED, COUNTERS = "deleted", "requests"
KINDS = ("get", "head", "put", "list", "bulk_delete")
MADE_UP = ("made_up_ns", "made_up_bytes")
PAGE = 1000
_BATCH = 10_000
UNCOUNTED = "DREDGE_BENCH_UNCOUNTED"
"""Environment variable of a server, whose requests are not counted, and which takes a range by its mark."""


def restore(folder: Path) -> None:
    """Restore all deleted objects of a store, and forget its requests."""
    with (folder / DELETED).open("wb") as file:
        file.truncate(Virtual.read(folder).objects)
    for place in (folder / COUNTERS).glob("*"):
        place.unlink()


def deleted(folder: Path) -> Bytes:
    """Return a byte for each object of a store: 1 for a deleted one."""
    return np.memmap(folder / DELETED, np.uint8, "r+")


def requests(folder: Path) -> Counter[str]:
    """Return the requests of all processes to a store by kind, with the figures of made-up data."""
    total: Counter[str] = Counter()
    for place in (folder / COUNTERS).glob("*"):
        total.update(dict(zip((*KINDS, *MADE_UP), np.fromfile(place, np.int64).tolist(), strict=True)))
    return total


@lru_cache(maxsize=256)
def _folder(root: Path) -> tuple[Path, Virtual] | None:
    """Return the folder of a made-up store by the root of one of its readers."""
    found = next((place for place in (root, *root.parents) if (place / DESCRIPTION).exists()), None)
    return None if found is None else (found, Virtual.read(found))


_lock = threading.Lock()
_one = threading.Lock()  # one range at a time is made up, whose arrays are large


@lru_cache(maxsize=4)
def _counters(folder: Path, process: int) -> npt.NDArray[np.int64]:
    place = folder / COUNTERS / str(process)
    place.parent.mkdir(exist_ok=True)
    if not place.exists():
        place.write_bytes(bytes(8 * len((*KINDS, *MADE_UP))))
    return np.memmap(place, np.int64, "r+")


class _MadeUp:
    """Counts requests and made-up data."""

    _location: Location

    @property
    def _found(self) -> tuple[Path, Virtual] | None:
        return _folder(Path(self._location.root))

    def _count(self, kind: str, number: int = 1) -> None:
        """Count requests, and wait for them."""
        self._add(kind, number)
        if number and (delay := float(os.environ.get(LATENCY, 0))):
            time.sleep(number * delay / 1000)

    def _add(self, kind: str, number: int) -> None:
        if (found := self._found) is not None and UNCOUNTED not in os.environ:
            with _lock:
                _counters(found[0], os.getpid())[(*KINDS, *MADE_UP).index(kind)] += number

    @contextmanager
    def _making(self) -> Iterator[None]:
        """Count the processor time of a block."""
        begun = time.thread_time_ns()
        yield
        self._add("made_up_ns", time.thread_time_ns() - begun)


class VirtualReader(_MadeUp, local.LocalReader):
    """Reads such a store."""

    is_remote = True

    def stat(self, key: str) -> ObjectInfo:
        """Return one object; raises NotFoundError."""
        self._count("head")
        if not (key.startswith(DATA) and self._found):
            return super().stat(key)
        folder, virtual = self._found
        with self._making():
            one = virtual.numbers([key])
            if deleted(folder)[one[0]]:
                raise NotFoundError(f"no object {key!r}")
            etag, size = etags(one).tobytes().decode(), int(sizes(one)[0])
            return ObjectInfo(key, size, virtual.modified(int(one[0]) // PER_SLICE), etag)

    def get(self, key: str) -> bytes:
        """Read one file; raises NotFoundError."""
        self._count("get")
        data = super().get(key)
        if not (data.startswith(MARK) and self._found) or UNCOUNTED in os.environ:
            return data
        with _one, self._making():
            data = make(self._found[1], data)
        self._add("made_up_bytes", len(data))
        return data

    def get_many(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Read many files in order, some at once, as a remote store does."""
        return get_ahead(self.get, keys)

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
        rest = 0
        for batch in self._batches(prefix, start_after, stop_before):
            rest += batch.num_rows
            self._count("list", rest // PAGE)
            rest %= PAGE
            yield batch
        self._count("list")

    def _batches(self, prefix: str, after: str, before: str) -> Iterator[pa.RecordBatch]:
        assert self._found
        folder, virtual = self._found
        for slice_ in range(len(virtual.slices)):
            name = virtual.folder(slice_)
            if not (name.startswith(prefix) or prefix.startswith(name)):
                continue
            # Names outside the bounds are not made up.
            if after > f"{name}~" or (before and before <= name):
                continue
            with self._making():
                first = _rank(after, name, 0) if after.startswith(name) else 0
                stop = _rank(before, name, len(ALPHABET) - 1) + 1 if before.startswith(name) else PER_SLICE
                numbers = virtual.in_slice(slice_)[first:stop]
                numbers = numbers[deleted(folder)[numbers] == 0]
            is_whole = name.startswith(prefix) and not (after or before)
            for at in range(0, len(numbers), _BATCH):
                with self._making():
                    batch = _batch(virtual, slice_, numbers[at : at + _BATCH])
                    if not is_whole:
                        keys = batch["key"].to_pylist()
                        kept = [key.startswith(prefix) and in_range(key, after, before) for key in keys]
                        batch = batch.filter(pa.array(kept))
                if batch.num_rows:
                    yield batch

    def list_level(self, prefix: str = "") -> Level:
        """List one level."""
        self._count("list")
        if prefix != DATA or self._found is None:
            return super().list_level(prefix)
        virtual = self._found[1]
        return Level([virtual.folder(slice_) for slice_ in range(len(virtual.slices))], [])


def _batch(virtual: Virtual, slice_: int, numbers: Numbers) -> pa.RecordBatch:
    times = pa.scalar(virtual.modified(slice_), LISTING_SCHEMA.field("last_modified").type)
    columns = [
        virtual.keys(slice_, numbers),
        pa.array(sizes(numbers)),
        pa.repeat(times, len(numbers)),
        strings("", etags(numbers)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)


def _rank(bound: str, folder: str, unknown: int) -> int:
    """Return the position in a slice from the first characters of a name; `unknown` for an invalid one."""
    digits = bound.removeprefix(folder)[:RANK].ljust(RANK, "?")
    places = [ALPHABET.find(digit) for digit in digits]
    return sum((unknown if at < 0 else at) << 5 * (RANK - 1 - turn) for turn, at in enumerate(places))


def _counted[**P, R](method: Callable[P, R]) -> Callable[P, R]:
    """A method of a writer, with its requests counted."""

    @wraps(method)
    def count(*args: P.args, **kwargs: P.kwargs) -> R:
        cast(_MadeUp, args[0])._count("put")
        return method(*args, **kwargs)

    return count


class VirtualWriter(VirtualReader, local.LocalWriter):
    """Writes files of such a store."""

    put = _counted(local.LocalWriter.put)
    put_if_absent = _counted(local.LocalWriter.put_if_absent)
    put_if_match = _counted(local.LocalWriter.put_if_match)
    put_stream = _counted(local.LocalWriter.put_stream)


class VirtualDeleter(_MadeUp, local.LocalDeleter):
    """Deletes objects of such a store."""

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Mark objects as deleted; other keys are files."""
        found = self._found
        if found is None or not all(key.startswith(DATA) for key in keys):
            return super().delete(keys, may_send)
        folder, virtual = found

        def send(page: Sequence[str]) -> list[DeleteOutcome]:
            if not may_send():
                return [DeleteOutcome(key, "failed", NOT_SENT) for key in page]
            self._count("bulk_delete")
            with self._making():
                deleted(folder)[virtual.numbers(page)] = 1
            return [DeleteOutcome(key, "deleted") for key in page]

        pages = [keys[at : at + PAGE] for at in range(0, len(keys), PAGE)]
        return list(chain.from_iterable(ordered_map(send, pages, StorageOptions().delete_requests)))


def install() -> None:
    """Replace the storage functions of this process."""
    places = {"LocalReader": VirtualReader, "LocalWriter": VirtualWriter, "LocalDeleter": VirtualDeleter}
    for name, virtual in places.items():
        setattr(local, name, virtual)


@dataclass(frozen=True)
class Installed:
    """A task function that installs the store first, for the workers of a cluster."""

    body: Callable[[Any, Any], Any]

    def __call__(self, config: Any, task: Any) -> Any:
        """Call the function."""
        install()
        return self.body(config, task)
