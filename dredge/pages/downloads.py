"""Rows of objects as a file: CSV as it streams, parquet once all rows are in it."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from dredge.errors import NotFoundError
from dredge.pages.object_rows import SCHEMA

CSV, PARQUET = "csv", "parquet"
_PIECE = 1 << 20
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def body(tables: Iterator[pa.Table], form: str) -> tuple[Iterator[bytes], str]:
    """Give a file's bytes, and its media type.

    Args:
        tables: of `object_rows.SCHEMA`.
        form: "csv" or "parquet".

    Raises:
        NotFoundError: any other form.
    """
    if form == CSV:
        return _csv(tables), "text/csv; charset=utf-8"
    if form == PARQUET:
        return _parquet(tables), "application/vnd.apache.parquet"
    raise NotFoundError(f"objects come as csv or parquet, not as {form!r}")


def _csv(tables: Iterator[pa.Table]) -> Iterator[bytes]:
    yield _lines([SCHEMA.names])
    for table in tables:
        for batch in table.to_batches(10_000):
            columns = [column.to_pylist() for column in batch.columns]
            yield _lines([[_cell(value) for value in row] for row in zip(*columns, strict=True)])


def _cell(value: object) -> object:
    """A spreadsheet would run a text that begins as a formula does, and addresses are strangers' texts."""
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
