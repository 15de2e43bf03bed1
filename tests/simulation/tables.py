"""Files of rows, in a faster form: within a history a run's files are only read by itself.

The product writes parquet. During a history it writes Arrow's form instead, and reads both: servers still write
parquet.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dredge.errors import FormatError
from dredge.runs import folder

_MAGIC = b"ARROW1"
_read_parquet, _parquet_bytes = folder.read_parquet, folder.parquet_bytes


def table_bytes(table: pa.Table, **settings: Any) -> bytes:
    """Stands in for `parquet_bytes`. Tables with settings stay parquet: their row groups are read alone."""
    if settings:
        return _parquet_bytes(table, **settings)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_table(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Stands in for `read_parquet`."""
    if not data.startswith(_MAGIC):
        return _read_parquet(data, columns)
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        return table if columns is None else table.select(list(columns))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise FormatError(f"a table cannot be read: {error}") from None
