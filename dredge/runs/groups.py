"""Parts that can be read a row group at a time, for who wants a few of many rows.

    parquet file:  group 0 | group 1 | … | footer: where each group lies, and its least and greatest values

Each page of bytes has a checksum, so a damaged one is noticed without reading the others. That is enough for people
to look at rows; whoever decides by them reads the part whole, by `RunFolder.read_part`, which compares its digest.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dredge.errors import FormatError, NotFoundError
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectReader

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
