"""Table files of lakeFS: the strict reader. Columns for collectors are in `columns`."""

from dredge.lakefs.files.sstable.layout import METARANGES, RANGES
from dredge.lakefs.files.sstable.reader import Block, Record, SeekableTable, Table, read_table

__all__ = [
    "METARANGES",
    "RANGES",
    "Block",
    "Record",
    "SeekableTable",
    "Table",
    "read_table",
]
