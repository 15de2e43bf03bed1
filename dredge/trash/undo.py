"""Undo files: every row, written and flushed before it is deleted.

    <folder>/00001.jsonl …   {"partition": …, "key": …, "value": …}, base64, one row a line

The same form as a dump of a whole store. Putting rows back never overwrites: a key that exists meanwhile
stays as it is.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from dredge.errors import FormatError
from dredge.kv.rows import Row, RowCleaner
from dredge.storage import ObjectReader, ObjectWriter


class UndoLog:
    """Writes the undo files of one run.

    Args:
        writer: the state folder.
        folder: key prefix of the files.
    """

    def __init__(self, writer: ObjectWriter, folder: str) -> None:
        self.writer = writer
        self.folder = folder
        self.files = len(undo_files(writer, folder))

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows that are about to be deleted; when this returns they are on disk."""
        self.files += 1
        key = f"{self.folder}/{self.files:05d}.jsonl"
        self.writer.put_if_absent(key, encode_rows(rows))
        flush_local(self.writer.uri, key)

    def read(self, wanted: Callable[[Row], bool] = lambda row: True) -> Iterator[Row]:
        """Read rows back."""
        return (row for row in read_undo(self.writer, self.folder) if wanted(row))


def encode_rows(rows: Iterable[Row]) -> bytes:
    """Write rows as lines of JSON."""
    return b"".join(
        json.dumps({name: base64.b64encode(part).decode() for name, part in row._asdict().items()}).encode()
        + b"\n"
        for row in rows
    )


def decode_rows(data: bytes, name: str) -> Iterator[Row]:
    """Read rows from lines of JSON.

    Raises:
        FormatError: a line is not such a row.
    """
    for number, line in enumerate(data.splitlines(), 1):
        try:
            value = json.loads(line)
            yield Row(*(base64.b64decode(value[part], validate=True) for part in Row._fields))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{name}, line {number}: not a row: {error!r}") from error


def undo_files(reader: ObjectReader, folder: str) -> list[str]:
    """List the undo files of a run, in order."""
    return sorted(
        found.key for found in reader.list_level(f"{folder}/").objects if found.key.endswith(".jsonl")
    )


def read_undo(reader: ObjectReader, folder: str) -> Iterator[Row]:
    """Read all rows of a run's undo files.

    Raises:
        FormatError: a file was damaged.
    """
    for key in undo_files(reader, folder):
        yield from decode_rows(reader.get(key), f"{reader.uri}/{key}")


def put_back(store: RowCleaner, rows: Iterable[Row]) -> tuple[int, int]:
    """Write rows where nothing is; returns how many were written, and how many keys existed."""
    written = existing = 0
    for row in rows:
        if store.insert_row(row):
            written += 1
        else:
            existing += 1
    return written, existing


def flush_local(uri: str, key: str) -> None:
    """Make sure that a file of a local folder survives a power cut; object stores promise it themselves."""
    if not uri.startswith("file://"):
        return
    path = os.path.join(uri.removeprefix("file://"), key)
    for name in (path, os.path.dirname(path)):
        handle = os.open(name, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
