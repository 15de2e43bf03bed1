"""The embedded lakeFS over a made-up lake: `python -m benchmarks.scale_server serve --data FOLDER …`.

It takes the records of a made-up range from their numbers, where a real server reads a few blocks of the file. Its
requests are not counted.
"""

import os
import sys
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import scale_store
from benchmarks.scale_objects import Virtual
from benchmarks.scale_ranges import MARK, records
from dredge.lakefs.files.sstable.reader import Record
from lakefs_embedded.committed import store

_SIZE = 8 << 20  # of a range in the server's cache


@lru_cache(maxsize=16)
def _records(virtual: Virtual, mark: bytes) -> tuple[list[bytes], list[bytes]]:
    keys, values = records(virtual, mark)
    return [row.tobytes() for row in keys], [row.tobytes() for row in values]


class MadeUpTable:
    """A range in place of `SeekableTable`."""

    def __init__(self, virtual: Virtual, mark: bytes) -> None:
        self._keys, self._values = _records(virtual, mark)
        self.count, self.max_key, self.size = len(self._keys), self._keys[-1], _SIZE

    def records(self, start: bytes = b"") -> Iterator[Record]:
        """Yield records from a key on."""
        for at in range(bisect_left(self._keys, start), len(self._keys)):
            yield Record(self._keys[at], self._values[at])


def install(virtual: Virtual) -> None:
    """Replace the readers of ranges in the server."""
    seekable, whole = (getattr(store, name) for name in ("SeekableTable", "read_table"))

    def seek(data: bytes, *about: Any) -> Any:
        return MadeUpTable(virtual, data) if data.startswith(MARK) else seekable(data, *about)

    def read(data: bytes, *about: Any, **expected: Any) -> Any:
        if not data.startswith(MARK):
            return whole(data, *about, **expected)
        return SimpleNamespace(records=list(MadeUpTable(virtual, data).records()))

    for name, made_up in {"SeekableTable": seek, "read_table": read}.items():
        setattr(store, name, made_up)


if __name__ == "__main__":
    from dredge.cli import main

    os.environ[scale_store.UNCOUNTED] = "1"
    scale_store.install()
    install(Virtual.read(Path(sys.argv[sys.argv.index("--data") + 1])))
    main()
