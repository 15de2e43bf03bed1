"""Read rows of objects from the parts of a run, by row group and column; write them as files for download.

    parquet file:  group 0 | group 1 | … | footer: offset of each group, with its least and greatest values

Each page of a grouped part has a checksum, so a damaged page is detected without reading the others. That is enough to
show rows to people; a decision needs the whole part (`RunFolder.read_part`), with its digest.
"""

from __future__ import annotations

import csv
import io
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dredge.errors import FormatError, NotFoundError
from dredge.gc.check_limits import Holds
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.sets.hashes import NONE, Hashes, contains
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map


class Kept[V]:
    """A cache of the most recently used values by key. Parallel requests for a key compute its value once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Future[V]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return a value, computed on the first request. All waiting callers get an error, which is not cached."""
        with self._lock:
            found = self._values.get(key)
            mine: Future[V] = Future()
            if found is None:
                self._values[key] = mine
                while len(self._values) > self._most:
                    self._values.popitem(last=False)
            else:
                self._values.move_to_end(key)
        if found is not None:
            return found.result()
        try:
            mine.set_result(make())
        except BaseException as error:
            with self._lock:
                if self._values.get(key) is mine:
                    del self._values[key]
            mine.set_exception(error)
        return mine.result()


SCHEMA = pa.schema(
    [
        pa.field("address", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("code", pa.string()),
        pa.field("message", pa.string()),
    ]
)
# Outcomes of candidates before the sweep.
MAY_GO, HELD = "may go", "held"
_AT_ONCE = 8
_FOOTERS_KEPT = 500

type Numbers = npt.NDArray[np.int64]

_footers: Kept[pq.FileMetaData] = Kept(_FOOTERS_KEPT)


# Least and greatest value by column.
type Bounds = Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of a part."""

    number: int
    first: int  # number of its first row in the part
    rows: int
    bounds: Bounds  # of the columns with statistics


class GroupedPart:
    """Reads row groups of a part. `metadata`: its footer, if it was read before. All methods raise FormatError if
    the part is missing, damaged, or of another length."""

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
        """Read columns of groups, in that order; missing columns are left out."""
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
            raise FormatError(f"{self._part.name} is missing. Start a new run.") from None
        except (pa.ArrowException, OSError) as error:
            raise FormatError(
                f"the bytes of {self._part.name} are not those that were written ({error}). Start a new run."
            ) from None


class _RangeFile:
    """A part as a file for Arrow, read by ranges."""

    closed = False

    def __init__(self, reader: ObjectReader, part: PartInfo) -> None:
        self._reader = reader
        self._part = part
        self._at = 0

    def tell(self) -> int:
        """Offset of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the offset."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._part.size_bytes}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read bytes up to the end."""
        left = max(0, self._part.size_bytes - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._reader.get_range(self._part.key, self._at, wanted) if wanted else b""
        self._at += len(data)
        return data


def _bounds(group: pq.RowGroupMetaData) -> dict[str, tuple[Any, Any]]:
    columns = (group.column(number) for number in range(group.num_columns))
    found = ((item.path_in_schema, item.statistics) for item in columns)
    return {name: (item.min, item.max) for name, item in found if item is not None and item.has_min_max}


@dataclass(frozen=True, slots=True)
class Filter:
    """The selection of rows; "" and None select all."""

    prefix: str = ""
    reason: str = ""
    outcome: str = ""
    branch: str = ""  # of the newest expired commit
    size_min: int | None = None
    size_max: int | None = None

    @property
    def columns(self) -> list[str]:
        """Columns of `SCHEMA` with a condition."""
        asked = {
            "address": bool(self.prefix or self.branch),
            "reason": bool(self.reason),
            "outcome": bool(self.outcome),
        }
        asked["size"] = self.size_min is not None or self.size_max is not None
        return [name for name, wanted in asked.items() if wanted]

    def mask(self, rows: pa.Table, of_branch: Hashes) -> pa.Array:
        """Return a mask of the selected rows."""
        mask = pa.repeat(pa.scalar(True), rows.num_rows)
        if self.branch:
            mask = pa.array(contains(of_branch, hash64(rows["address"])))
        if self.prefix:
            mask = pc.and_(mask, pc.starts_with(rows["address"], pattern=self.prefix))
        for name, value in (("reason", self.reason), ("outcome", self.outcome)):
            if value:
                mask = pc.and_(mask, pc.equal(rows[name], value))
        if self.size_min is not None:
            mask = pc.and_(mask, pc.greater_equal(rows["size"], self.size_min))
        if self.size_max is not None:
            mask = pc.and_(mask, pc.less_equal(rows["size"], self.size_max))
        return pc.fill_null(mask, False)

    def may_be_among(self, bounds: Bounds) -> bool:
        """Return whether the filter may select rows within these bounds; a missing bound excludes nothing."""
        least, most = bounds.get("address", ("", None))
        if most is not None and not (least[: len(self.prefix)] <= self.prefix <= most):
            return False
        for name, value in (("reason", self.reason), ("outcome", self.outcome)):
            if value and name in bounds and not bounds[name][0] <= value <= bounds[name][1]:
                return False
        smallest, largest = bounds.get("size", (None, None))
        too_small = None not in (self.size_min, largest) and largest < self.size_min
        return not (too_small or (None not in (self.size_max, smallest) and smallest > self.size_max))


class Rows:
    """The rows of a run's parts, numbered consecutively. `parts`: of the ledger, or of the candidates. `holds`: further
    holds of candidates; None without them. `of_branch`: hashes of the addresses of the selected branch."""

    def __init__(
        self,
        folder: RunFolder,
        uri: str,
        parts: Sequence[PartInfo],
        is_settled: bool,
        holds: Holds | None,
        of_branch: Hashes = NONE,
    ) -> None:
        self.folder = folder
        self.uri = uri
        self._is_settled = is_settled
        self._holds = holds
        self.of_branch = of_branch
        ends = np.cumsum([0, *(part.rows for part in parts)]).tolist()
        self.parts = [PartRows(self, part, first) for part, first in zip(parts, ends, strict=False)]

    def take(self, rows: Numbers) -> pa.Table:
        """Read rows, in any order."""
        sorted_rows = np.sort(rows)
        wanted = [part for part in self.parts if np.any((rows >= part.first) & (rows < part.end))]
        tables = ordered_map(lambda part: part.take(_within(sorted_rows, part)), wanted, _AT_ONCE)
        found = pa.concat_tables([SCHEMA.empty_table(), *tables])
        return found.take(pa.array(np.searchsorted(sorted_rows, rows))).combine_chunks()

    def groups_by_address(self, wanted: Filter, after: str) -> list[Placed]:
        """Return the groups with possible selected addresses after an address, by their least possible address."""
        found = ordered_map(lambda part: part.placed(wanted, after), self.parts, _AT_ONCE)
        return sorted((item for items in found for item in items), key=lambda item: item.least)

    def needs(self, columns: Iterable[str]) -> list[str]:
        """Return the columns of the parts from which some columns of `SCHEMA` are made."""
        if self._is_settled:
            return list(columns)
        of_holds = ["hash", "size", "hold"] if self._holds is not None else ["hold"]
        needs = {"outcome": of_holds, "code": of_holds, "message": list[str]()}
        return list(dict.fromkeys(need for name in columns for need in needs.get(name, [name])))

    def shown(self, rows: pa.Table, columns: Sequence[str] = SCHEMA.names) -> pa.Table:
        """Make rows of `SCHEMA`, or of some of its columns, from rows of a part."""
        made = dict(zip(rows.column_names, rows.columns, strict=True))
        if not self._is_settled and {"outcome", "code"} & set(columns):
            made["code"] = self._codes(rows)
            made["outcome"] = pc.if_else(pc.is_null(made["code"]), MAY_GO, HELD)
        nothing = pa.nulls(rows.num_rows, pa.string())
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        return pa.table([made.get(name, nothing) for name in columns], names=schema.names).cast(schema)

    def _codes(self, rows: pa.Table) -> pa.Array:
        if self._holds is not None:
            return self._holds.codes_of(rows)
        return rows["hold"] if "hold" in rows.column_names else pa.nulls(rows.num_rows, pa.string())


class PartRows:
    """The rows of a part, numbered from `first` to `end` (exclusive)."""

    def __init__(self, rows: Rows, part: PartInfo, first: int) -> None:
        self._rows = rows
        self._part = part
        self.first = first
        self.end = first + part.rows

    @cached_property
    def groups(self) -> list[Group]:
        """The part's row groups."""
        return list(self._file.groups)

    def matching(self, wanted: Filter, start: int = 0) -> Numbers:
        """Return the numbers of the selected rows, in order."""
        first = max(start, self.first)
        if not wanted.columns:
            return np.arange(first, self.end)
        groups = [
            item
            for item in self.groups
            if self.first + item.first + item.rows > first and wanted.may_be_among(item.bounds)
        ]
        if not groups:
            return np.empty(0, np.int64)
        mask = wanted.mask(self._read(groups, wanted.columns), self._rows.of_branch).to_numpy(
            zero_copy_only=False
        )
        numbers = np.concatenate([np.arange(item.first, item.first + item.rows) for item in groups])
        found: Numbers = numbers[mask] + self.first
        return found[found >= first]

    def sizes(self, rows: Numbers) -> Numbers:
        """Return the sizes of rows, in bytes."""
        found: Numbers = self._column_of(rows, ["size"])["size"].to_numpy()
        return found

    def take(self, rows: Numbers) -> pa.Table:
        """Read rows, by their numbers in order."""
        return self._column_of(rows, SCHEMA.names)

    def rows_of(self, group: Group, wanted: Filter) -> pa.Table:
        """Read the selected rows of a group."""
        rows = self._read([group], SCHEMA.names)
        return rows.filter(wanted.mask(rows, self._rows.of_branch))

    def placed(self, wanted: Filter, after: str) -> list[Placed]:
        """Return the groups that may have selected addresses after an address."""
        found = []
        for item in self.groups:
            least, most = item.bounds.get("address", ("", None))
            if wanted.may_be_among(item.bounds) and (most is None or most > after):
                found.append(Placed(self, item, least))
        return found

    def _column_of(self, rows: Numbers, columns: Sequence[str]) -> pa.Table:
        numbers = rows - self.first
        starts = np.array([item.first for item in self.groups])
        groups = [self.groups[at] for at in np.unique(np.searchsorted(starts, numbers, "right") - 1)]
        table = self._read(groups, columns)
        before = np.cumsum([0, *(item.rows for item in groups)])[:-1]
        firsts = np.array([item.first for item in groups], np.int64)
        at = np.searchsorted(firsts, numbers, "right") - 1
        return table.take(pa.array(numbers - firsts[at] + before[at]))

    def _read(self, groups: Sequence[Group], columns: Sequence[str]) -> pa.Table:
        raw = self._file.read([item.number for item in groups], self._rows.needs(columns))
        return self._rows.shown(raw, columns)

    @cached_property
    def _file(self) -> GroupedPart:
        reader = self._rows.folder.writer
        key = (self._rows.uri, self._part.key, self._part.sha256)
        footer = _footers.get(key, lambda: GroupedPart(reader, self._part).metadata)
        return GroupedPart(reader, self._part, footer)


@dataclass(frozen=True, slots=True)
class Placed:
    """A row group, its part, and its least possible address."""

    part: PartRows
    group: Group
    least: str


def _within(rows: Numbers, part: PartRows) -> Numbers:
    return rows[np.searchsorted(rows, part.first) : np.searchsorted(rows, part.end)]


CSV, PARQUET = "csv", "parquet"
_PIECE = 1 << 20
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def file_body(tables: Iterator[pa.Table], form: str) -> tuple[Iterator[bytes], str]:
    """Return the bytes of a file of rows, and its media type. CSV is streamed, parquet is sent when complete."""
    if form == CSV:
        return _csv(tables), "text/csv; charset=utf-8"
    if form == PARQUET:
        return _parquet(tables), "application/vnd.apache.parquet"
    raise NotFoundError(f"objects can be downloaded as csv or parquet, not as {form!r}")


def _csv(tables: Iterator[pa.Table]) -> Iterator[bytes]:
    yield _lines([SCHEMA.names])
    for table in tables:
        for batch in table.to_batches(10_000):
            columns = [column.to_pylist() for column in batch.columns]
            yield _lines([[_cell(value) for value in row] for row in zip(*columns, strict=True)])


def _cell(value: object) -> object:
    """Quote text with the start of a formula: a spreadsheet would run it, and addresses come from strangers."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _lines(rows: list[list[object]] | list[list[str]]) -> bytes:
    sink = io.StringIO()
    csv.writer(sink).writerows(rows)
    return sink.getvalue().encode()


def _parquet(tables: Iterator[pa.Table]) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, SCHEMA) as writer:
            for table in tables:
                writer.write_table(table)
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece
