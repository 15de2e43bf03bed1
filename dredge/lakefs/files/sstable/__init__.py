"""Table files of lakeFS: the strict reader, the writer, and ids. Columns for collectors are in `columns`."""

from __future__ import annotations

from dredge.lakefs.files.ident import table_id
from dredge.lakefs.files.sstable.envelope import METARANGES, RANGES
from dredge.lakefs.files.sstable.reader import Record, SeekableTable, Table, read_table
from dredge.lakefs.files.sstable.writer import BlockSizes, TableWriter, WrittenTable, write_table

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
