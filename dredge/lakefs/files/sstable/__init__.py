"""Table files of lakeFS: the strict reader, and ids. Columns for collectors are in `columns`."""

from dredge.lakefs.files.ident import table_id
from dredge.lakefs.files.sstable.layout import METARANGES, RANGES
from dredge.lakefs.files.sstable.reader import Record, SeekableTable, Table, read_table

__all__ = [
    "METARANGES",
    "RANGES",
    "Record",
    "SeekableTable",
    "Table",
    "read_table",
    "table_id",
]
