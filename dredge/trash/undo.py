"""Undo files: every row, written and flushed before its deletion.

    <folder>/00001.jsonl …   {"partition": …, "key": …, "value": …}, base64, one row a line

The format is that of a dump of a whole store. A restore never overwrites an existing key.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from dredge.errors import FormatError
from dredge.kv.rows import Row, RowCleaner
from dredge.storage import ObjectReader, ObjectWriter


class UndoLog:
    """The undo files of one run."""

    def __init__(self, writer: ObjectWriter, folder: str) -> None:
        self.writer = writer
        self.folder = folder
        self.files = len(undo_files(writer, folder))

    def write(self, rows: Sequence[Row]) -> None:
        """Write the rows of the next deletion; they are on disk afterwards."""
        self.files += 1
        # Object stores and local folders acknowledge a write only when it is on disk.
        self.writer.put_if_absent(f"{self.folder}/{self.files:05d}.jsonl", encode_rows(rows))

    def read(self, wanted: Callable[[Row], bool] = lambda row: True) -> Iterator[Row]:
        """Read the rows; raises FormatError for a damaged file."""
        for key in undo_files(self.writer, self.folder):
            rows = decode_rows(self.writer.get(key), f"{self.writer.uri}/{key}")
            yield from filter(wanted, rows)


def encode_rows(rows: Iterable[Row]) -> bytes:
    """Encode rows as lines of JSON."""
    return b"".join(
        json.dumps({name: base64.b64encode(part).decode() for name, part in row._asdict().items()}).encode()
        + b"\n"
        for row in rows
    )


def decode_rows(data: bytes, name: str) -> Iterator[Row]:
    """Decode lines of JSON; raises FormatError."""
    for number, line in enumerate(data.splitlines(), 1):
        try:
            value = json.loads(line)
            yield Row(*(base64.b64decode(value[part], validate=True) for part in Row._fields))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{name}, line {number}: no row of an undo file: {error!r}") from error


def undo_files(reader: ObjectReader, folder: str) -> list[str]:
    """The undo files of a run, in order."""
    return sorted(
        found.key for found in reader.list_level(f"{folder}/").objects if found.key.endswith(".jsonl")
    )


def put_back(store: RowCleaner, rows: Iterable[Row]) -> tuple[int, int]:
    """Restore rows; returns the number of written rows and of keys that existed."""
    written = existing = 0
    for row in rows:
        if store.insert_row(row):
            written += 1
        else:
            existing += 1
    return written, existing
