"""Ranges: what metaranges say of them, as rows, and in shares for tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.namespaces import METADATA
from dredge.lakefs.files.ranges import is_table_id
from dredge.lakefs.files.sstable import RANGES
from dredge.lakefs.files.sstable.envelope import read_envelope
from dredge.lakefs.files.sstable.layout import FOOTER_SIZE, MAGIC
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import in_chunks
from dredge.storage import ObjectReader

SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("head", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class RangeFacts:
    """What metaranges say of a range.

    Attributes:
        count: number of records.
        min_key: its first key; only a hint where it belongs among others.
        max_key: its last key.
        head: whether it is in the head of some branch.
    """

    count: int
    min_key: bytes
    max_key: bytes
    head: bool = False


type Ranges = dict[str, RangeFacts]
"""By range id."""


def unite_ranges(ranges: Ranges, found: Iterable[tuple[str, RangeFacts]]) -> None:
    """Add ranges to others; raises FormatError when two metaranges disagree about one."""
    for range_id, facts in found:
        there = ranges.setdefault(range_id, facts)
        if (there.count, there.max_key) != (facts.count, facts.max_key):
            raise FormatError(
                f"range {range_id} has {there.count} records in one metarange and {facts.count} in another."
                " Nothing was deleted."
            )
        if facts.head and not there.head:
            ranges[range_id] = replace(there, head=True)


def table_of(ranges: Ranges) -> pa.Table:
    """Ranges as rows (`SCHEMA`), in the order of their keys: neighbours share blocks, which are then decoded once."""
    ordered = sorted(ranges.items(), key=lambda item: (item[1].min_key, item[0]))
    return pa.table(
        {
            "range_id": [range_id for range_id, _ in ordered],
            "count": [facts.count for _, facts in ordered],
            "min_key": [facts.min_key for _, facts in ordered],
            "max_key": [facts.max_key for _, facts in ordered],
            "head": [facts.head for _, facts in ordered],
        },
        schema=SCHEMA,
    )


def facts_of(table: pa.Table) -> Iterator[tuple[str, RangeFacts]]:
    """Ranges from the rows that `table_of` made."""
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    for range_id, *facts in zip(*columns, strict=True):
        yield range_id, RangeFacts(*facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeShare:
    """Neighbouring rows of a table of ranges: those that one task works on.

    Attributes:
        table: rows (`SCHEMA`).
        first: index of the first row.
        stop: index after the last row.
    """

    table: PartInfo
    first: int
    stop: int

    def read(self, folder: RunFolder) -> Ranges:
        """The ranges, in the order of their keys."""
        rows = folder.read_part(self.table).slice(self.first, self.stop - self.first)
        return dict(facts_of(rows))


def share_ranges(table: PartInfo, num_tasks: int) -> list[RangeShare]:
    """Split a table of ranges into at most so many shares, none empty."""
    chunks = in_chunks(range(table.rows), num_tasks)
    return [RangeShare(table=table, first=chunk[0], stop=chunk[-1] + 1) for chunk in chunks]


def find_range_files(reader: ObjectReader, read_before: Iterable[str]) -> tuple[Ranges, list[str]]:
    """Find range files of the namespace, whatever names them.

    They are needed where every commit counts as active.

    Files are told apart by their content: metaranges and refs dumps are left out, and so is everything that is not
    a table. A file whose name is a table's id but which cannot be read as one stops the run.

    Args:
        reader: on the storage namespace.
        read_before: names of files below `_lakefs/` that need not be read: ranges and metaranges that were read
            already, and what an earlier run looked at (files there never change).

    Returns:
        The other ranges, and the names of the files that were looked at.

    Raises:
        FormatError: a damaged table.
    """
    have = set(read_before)
    files = reader.list_level(METADATA).objects
    names = [info.key for info in files]
    unread = [name for name in names if name.removeprefix(METADATA) not in have]
    tables = [name for name in unread if _is_table(reader, name)]
    ranges: Ranges = {}
    for name, data in reader.get_many(tables):
        envelope = read_envelope(data, name, None, None)
        if envelope.kind == RANGES and envelope.entity is None and envelope.records:
            ranges[name.removeprefix(METADATA)] = RangeFacts(envelope.records, b"", envelope.max_key)
    return ranges, [name.removeprefix(METADATA) for name in unread]


def _is_table(reader: ObjectReader, name: str) -> bool:
    if is_table_id(name.removeprefix(METADATA)):
        return True
    size = reader.stat(name).size
    return size >= FOOTER_SIZE and reader.get_range(name, size - len(MAGIC), len(MAGIC)) == MAGIC
