"""Parts: files with the rows of steps. A cache of parts in this process, and parquet files.

The key of a part is written once, and a reader compares the digest. So cached bytes are equal to those in the store, or
will be before another process reads them (`PartCache.settle`). Tasks in the driver's process share its cache.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dredge.errors import FormatError, NotFoundError
from dredge.runs.payload import PartInfo
from dredge.storage import ObjectReader, ObjectWriter

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 16
_PART_BYTES_MAX = 1 << 20
# Rows of a run with millions of objects must not stay in memory.
_BYTES_MAX = 32 << 20


class PartCache:
    """A cache of bytes by key: pending writes, and recently used small parts, up to `bytes_max` of them."""

    def __init__(self, bytes_max: int = _BYTES_MAX) -> None:
        self.users = 0
        self._bytes_max = bytes_max
        self._found: OrderedDict[str, bytes] = OrderedDict()
        self._found_bytes = 0
        # the object at the end differs for each write of a key
        self._writes: dict[str, tuple[Future[Any], bytes, object]] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="dredge-parts")
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """Return a part; None if it is not cached."""
        with self._lock:
            if key in self._writes:
                return self._writes[key][1]
            if (data := self._found.get(key)) is not None:
                self._found.move_to_end(key)
            return data

    def put(self, key: str, data: bytes) -> None:
        """Cache a part, unless it is large."""
        if len(data) > _PART_BYTES_MAX:
            return
        with self._lock:
            self._found_bytes += len(data) - len(self._found.pop(key, b""))
            self._found[key] = data
            while self._found_bytes > self._bytes_max:
                self._found_bytes -= len(self._found.popitem(last=False)[1])

    def write(self, writer: ObjectWriter, key: str, data: bytes) -> None:
        """Start to write a part; waits for other writes if too many bytes are pending."""
        with self._lock:
            running = [(name, *item) for name, item in self._writes.items()]
            too_much = sum(len(item) for _, _, item, _ in running) + len(data) - _BYTES_MAX
        for name, future, waiting, _ in running:
            if too_much > 0 or name == key:
                future.exception()  # wait only; `settle` raises the error
                too_much -= len(waiting)
        self._begin(key, lambda: writer.put(key, data), data)
        self.put(key, data)

    def start(self, key: str, write: Callable[[], object]) -> None:
        """Start to write an object that is not read through the cache."""
        self._begin(key, write, b"")

    def _begin(self, key: str, write: Callable[[], object], data: bytes) -> None:
        this = object()

        def write_and_forget() -> None:
            write()
            with self._lock:
                if key in self._writes and self._writes[key][2] is this:
                    del self._writes[key]

        future = self._pool.submit(write_and_forget)
        with self._lock:
            self._writes[key] = future, data, this
            self._writes = {
                name: item
                for name, item in self._writes.items()
                if not item[0].done() or item[0].exception() is not None
            }

    def settle(self) -> None:
        """Wait for all writes; raises the first error."""
        with self._lock:
            writes = dict(self._writes)
        failed = [error for future, *_ in writes.values() if (error := future.exception()) is not None]
        with self._lock:  # not locked while it waits: other threads read pending parts, and settle too
            self._writes = {key: item for key, item in self._writes.items() if writes.get(key) is not item}
        if failed:
            raise failed[0]

    def close(self) -> None:
        """Wait for all writes, and ignore their errors."""
        self._pool.shutdown()


_KEPT: dict[str, PartCache] = {}

_LOCK = threading.Lock()


def get_part_cache(uri: str) -> PartCache | None:
    """Return the cache of a run folder's URI; None outside of `cache_parts`."""
    return _KEPT.get(uri)


BY_DIGEST = "by digest"  # instead of a URI: the cache of parts of other folders, by SHA-256


@contextmanager
def cache_parts(uri: str, bytes_max: int = _BYTES_MAX) -> Iterator[None]:
    """Cache parts of a run folder's URI within the block. At the end of the outermost block all parts are written, or
    an error is raised."""
    with _LOCK:
        kept = _KEPT.setdefault(uri, PartCache(bytes_max))
        kept.users += 1
    try:
        yield
        if kept.users == 1:
            kept.settle()
    finally:
        with _LOCK:
            kept.users -= 1
            if not kept.users:
                del _KEPT[uri]
        if not kept.users:
            kept.close()


GROUP_ROWS = 10_000
# Columns with few different texts, for dictionaries.
_FEW_WORDS = ("reason", "hold", "outcome", "code")


def grouped_bytes(table: pa.Table) -> bytes:
    """Write rows as parquet with row groups. Groups help most if rows are sorted by the column of the queries."""
    return parquet_bytes(
        table,
        row_group_size=GROUP_ROWS,
        use_dictionary=_FEW_WORDS,
        write_statistics=True,
        write_page_checksum=True,
    )


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    """Write a table as parquet. Hashes do not compress, and texts do not repeat: no dictionaries, no statistics."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    codecs = {field.name: "NONE" if pa.types.is_uint64(field.type) else "ZSTD" for field in table.schema}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression=codecs, **{"use_dictionary": False, "write_statistics": False, **options}
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_parquet(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a parquet file from memory, in this thread. Raises FormatError if not a parquet file, or without one of the
    columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = None if columns is None else list(columns)
    try:
        # Six times as fast as `pq.read_table` where files are small, and most are.
        table = pq.ParquetFile(pa.BufferReader(data)).read(wanted, use_threads=False)
        return table if wanted is None else table.select(wanted)  # `read` skips missing columns
    except (pa.ArrowException, OSError, KeyError) as error:
        raise FormatError(f"a parquet file cannot be read: {error}") from None


def read_cached(reader: ObjectReader, part: PartInfo, cache: PartCache | None, key: str, whose: str) -> bytes:
    """Read a part's bytes, from a cache if it has them. Raises FormatError if missing, or not the bytes that were
    written. `key`: of the part in the cache. `whose`: for messages."""
    kept = None if cache is None else cache.get(key)
    try:
        data = reader.get(part.key) if kept is None else kept
    except NotFoundError:
        raise FormatError(f"{whose}: {part.name} is missing. Start a new run.") from None
    check_digest(part, data, whose)
    if cache is not None and kept is None:
        cache.put(key, data)
    return data


def check_digest(part: PartInfo, data: bytes, whose: str) -> None:
    """Compare a part's bytes with its digest. Raises FormatError if they differ."""
    if len(data) != part.size_bytes or hashlib.sha256(data).hexdigest() != part.sha256:
        raise FormatError(
            f"{whose}: the bytes of {part.name} are not those that were written. Start a new run."
        )
