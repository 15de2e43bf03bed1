"""Files of rows, in a form that takes less time: within a history nobody else reads what a run writes for itself.

The product writes parquet. While a history runs it writes Arrow's own form instead, and reads both: what servers write
is parquet all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dredge.errors import FormatError
from dredge.runs import folder

_MAGIC = b"ARROW1"
_read_parquet = folder.read_parquet


def table_bytes(table: pa.Table) -> bytes:
    """Stands in for `parquet_bytes`."""
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
