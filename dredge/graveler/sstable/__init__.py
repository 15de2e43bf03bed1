"""Table files of lakeFS: the strict reader, the writer, and ids. Columns for collectors are in `columns`."""

from __future__ import annotations

from dredge.graveler.sstable.envelope import METARANGES, RANGES
from dredge.graveler.sstable.reader import Record, Table, read_table
from dredge.graveler.sstable.seeking import SeekableTable
from dredge.graveler.sstable.table_id import table_id
from dredge.graveler.sstable.writer import BlockSizes, TableWriter, WrittenTable, write_table

__all__ = [
    "METARANGES",
    "RANGES",
    "BlockSizes",
    "Record",
    "SeekableTable",
    "Table",
    "TableWriter",
    "WrittenTable",
    "read_table",
    "table_id",
    "write_table",
]
