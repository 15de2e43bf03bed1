"""Parts: the files of rows that steps write, how they are kept in memory, and how groups of their rows are read.

    parquet file:  group 0 | group 1 | … | footer: where each group lies, and its least and greatest values

Nobody writes under the key of a part twice, and a reader compares its digest, so bytes from `KeptParts` are those that
the store has, or will have before anybody else is told of them (`KeptParts.settle`). Tasks that run in the process of
their driver find what the driver keeps, and the driver what they wrote.

Each page of a grouped part has a checksum, so a damaged one is noticed without reading the others. That is enough for
people to look at rows; whoever decides by them reads the part whole, by `RunFolder.read_part`, which compares its
digest.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dredge.errors import FormatError, NotFoundError
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectReader, ObjectWriter

_AT_ONCE = 16
_PART_BYTES_MAX = 1 << 20
_BYTES_MAX = 64 << 20
"""What a run of millions of objects reads and writes must not stay in memory."""


class KeptParts:
    """Bytes by key: those that are being written, and small ones that were used last."""

    def __init__(self) -> None:
        self.users = 0
        self._found: OrderedDict[str, bytes] = OrderedDict()
        self._found_bytes = 0
        self._writes: dict[str, tuple[Future[str | None], bytes]] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="dredge-parts")
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """Give a part; None when it is not kept."""
        with self._lock:
            if key in self._writes:
                return self._writes[key][1]
            if (data := self._found.get(key)) is not None:
                self._found.move_to_end(key)
            return data

    def put(self, key: str, data: bytes) -> None:
        """Keep a part that was read or written, unless it is long."""
        if len(data) > _PART_BYTES_MAX:
            return
        with self._lock:
            self._found_bytes += len(data) - len(self._found.pop(key, b""))
            self._found[key] = data
            while self._found_bytes > _BYTES_MAX:
                self._found_bytes -= len(self._found.popitem(last=False)[1])

    def write(self, writer: ObjectWriter, key: str, data: bytes) -> None:
        """Begin to write a part, and wait for others when too much waits to be written.

        Args:
            writer: of the folder.
            key: in it.
            data: the part.
        """
        with self._lock:
            running = [(name, *item) for name, item in self._writes.items()]
            too_much = sum(len(item) for _, _, item in running) + len(data) - _BYTES_MAX
        for name, future, waiting in running:
            if too_much > 0 or name == key:
                future.exception()  # it has ended; `settle` raises what it is
                too_much -= len(waiting)
        with self._lock:
            self._writes = {
                name: item
                for name, item in self._writes.items()
                if not item[0].done() or item[0].exception() is not None
            }
            self._writes[key] = self._pool.submit(writer.put, key, data), data
        self.put(key, data)

    def settle(self) -> None:
        """Wait until all that is being written is there; raises the first error."""
        with self._lock:
            writes, self._writes = self._writes, {}
        failed = [error for future, _ in writes.values() if (error := future.exception()) is not None]
        if failed:
            raise failed[0]

    def close(self) -> None:
        """Wait until all has ended, however it has."""
        self._pool.shutdown()


_KEPT: dict[str, KeptParts] = {}

_LOCK = threading.Lock()


def kept_parts(uri: str) -> KeptParts | None:
    """What this process keeps of a folder now; None outside of `keeping_parts`.

    Args:
        uri: of the run folder.
    """
    return _KEPT.get(uri)


@contextmanager
def keeping_parts(uri: str) -> Iterator[None]:
    """Keep parts of a folder within the block. At the end of the outermost one all are there that were written, or an
    error is raised.

    Args:
        uri: of the run folder.
    """
    with _LOCK:
        kept = _KEPT.setdefault(uri, KeptParts())
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


type Bounds = Mapping[str, tuple[Any, Any]]
"""Least and greatest value by column."""

GROUP_ROWS = 10_000
_FEW_WORDS = ("reason", "hold", "outcome", "code")
"""Columns with the same few texts again and again, where a table has them."""


def grouped_bytes(table: pa.Table) -> bytes:
    """Write rows as parquet that can be read a group at a time.

    Args:
        table: the rows; groups help most where they are in the order in which people ask for them.
    """
    codecs = {item.name: "NONE" if pa.types.is_uint64(item.type) else "ZSTD" for item in table.schema}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=GROUP_ROWS,
        compression=codecs,
        use_dictionary=_FEW_WORDS,
        write_statistics=True,
        write_page_checksum=True,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


@dataclass(frozen=True, slots=True)
class Group:
    """Some rows of a part that lie together.

    Attributes:
        number: of the group in its part.
        first: the row of the part that it begins with.
        rows: how many it has.
        bounds: of the columns of which the file says them.
    """

    number: int
    first: int
    rows: int
    bounds: Bounds


class GroupedPart:
    """Reads groups of a part.

    Args:
        reader: on the run folder.
        part: which.
        metadata: its footer, where somebody has read it.

    Raises:
        FormatError: (all methods) the part is gone or damaged, or not as long as it was written.
    """

    def __init__(self, reader: ObjectReader, part: PartInfo, metadata: pq.FileMetaData | None = None) -> None:
        self._reader = reader
        self._part = part
        self._metadata = metadata

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        if self._metadata is not None:
            return self._metadata
        with self._opened() as file:
            if file.metadata.num_rows != self._part.rows:
                raise FormatError(
                    f"{self._part.name} has {file.metadata.num_rows} rows, {self._part.rows} were written."
                )
            return file.metadata

    @property
    def groups(self) -> Iterator[Group]:
        """The groups, in the order of their rows."""
        first = 0
        for number in range(self.metadata.num_row_groups):
            found = self.metadata.row_group(number)
            yield Group(number, first, found.num_rows, _bounds(found))
            first += found.num_rows

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Read some columns of some groups, in that order.

        Args:
            numbers: of the groups.
            columns: names; those that the part lacks are left out.
        """
        with self._opened(self.metadata) as file:
            return file.read_row_groups(list(numbers), columns=list(columns), use_threads=False)

    @contextmanager
    def _opened(self, metadata: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
        try:
            yield pq.ParquetFile(
                pa.PythonFile(_RangeFile(self._reader, self._part), mode="r"),
                metadata=metadata,
                pre_buffer=True,
                page_checksum_verification=True,
            )
        except NotFoundError:
            raise FormatError(f"{self._part.name} is gone. Start a new run.") from None
        except (pa.ArrowException, OSError) as error:
            raise FormatError(
                f"the bytes of {self._part.name} are not those that were written ({error}). Start a new run."
            ) from None


class _RangeFile:
    """A part as a file, as Arrow asks for one, of which only what is asked for is read."""

    closed = False

    def __init__(self, reader: ObjectReader, part: PartInfo) -> None:
        self._reader = reader
        self._part = part
        self._at = 0

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._part.size_bytes}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read so many bytes, or to the end."""
        left = max(0, self._part.size_bytes - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._reader.get_range(self._part.key, self._at, wanted) if wanted else b""
        self._at += len(data)
        return data


def _bounds(group: pq.RowGroupMetaData) -> dict[str, tuple[Any, Any]]:
    columns = (group.column(number) for number in range(group.num_columns))
    found = ((item.path_in_schema, item.statistics) for item in columns)
    return {name: (item.min, item.max) for name, item in found if item is not None and item.has_min_max}


def parquet_bytes(table: pa.Table) -> bytes:
    """Write a table as parquet. Hashes do not compress, texts do not repeat: no dictionaries, no
    statistics."""
    codecs = {field.name: "NONE" if pa.types.is_uint64(field.type) else "ZSTD" for field in table.schema}
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=codecs, use_dictionary=False, write_statistics=False)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_parquet(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a parquet file from memory, in this thread.

    Raises:
        FormatError: not such a file, or without one of the columns.
    """
    wanted = None if columns is None else list(columns)
    try:
        # Six times as fast as `pq.read_table` where files are small, and most are.
        table = pq.ParquetFile(pa.BufferReader(data)).read(wanted, use_threads=False)
        return table if wanted is None else table.select(wanted)  # it leaves out what is not there
    except (pa.ArrowException, OSError, KeyError) as error:
        raise FormatError(f"a parquet file cannot be read: {error}") from None


def check_digest(part: PartInfo, data: bytes, whose: str) -> None:
    """Compare a part's bytes with what its writer recorded.

    Raises:
        FormatError: they differ.
    """
    if len(data) != part.size_bytes or hashlib.sha256(data).hexdigest() != part.sha256:
        raise FormatError(
            f"{whose}: the bytes of {part.name} are not those that were written. Start a new run."
        )
