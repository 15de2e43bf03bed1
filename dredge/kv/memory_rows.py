"""Raw rows of a store in memory, and of rows that were read from a file: for tests, trials and dumps."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from dredge.kv.memory import MemoryKV
from dredge.kv.model import Entry, PredicateFailedError
from dredge.kv.rows import Guard, GuardFailedError, Row, show_key


class MemoryRows:
    """Raw access to the rows of a `MemoryKV`; works on its inside, under its lock."""

    location = "memory://"
    guards_max = 1000

    def __init__(self, store: MemoryKV) -> None:
        self._store = store

    @contextlib.contextmanager
    def view(self) -> Iterator[FrozenView]:
        """See the store as of one moment: a copy."""
        with self._store._lock:
            rows = [
                Row(name, k, v)
                for name, part in self._store._partitions.items()
                for k, v in part.values.items()
            ]
        yield FrozenView(rows)

    def clock(self) -> None:
        """Memory has no clock of its own."""

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        """Delete rows that still have their value, all under one lock (see `RowCleaner`)."""
        with self._store._lock:
            for guard in guards:
                if self._value(guard.partition, guard.key) != guard.value:
                    raise GuardFailedError(f"{show_key(guard.partition, guard.key)} changed")
            return [self._delete(row) for row in rows]

    def insert_row(self, row: Row) -> bool:
        """Write a row if its key does not exist."""
        try:
            self._store.set_if(row.partition, row.key, row.value, None)
        except PredicateFailedError:
            return False
        return True

    def close(self) -> None:
        """Nothing is kept open."""

    def _delete(self, row: Row) -> bool:
        if self._value(row.partition, row.key) != row.value:
            return False
        found = self._store._partitions[row.partition]
        del found.values[row.key]
        del found.order[bisect_left(found.order, row.key)]
        if not found.order:
            del self._store._partitions[row.partition]
        return True

    def _value(self, partition: bytes, key: bytes) -> bytes | None:
        found = self._store._partitions.get(partition)
        return found.values.get(key) if found else None


class FrozenView:
    """Rows that do not change.

    Args:
        rows: in any order, each key once.
    """

    consistent = True

    def __init__(self, rows: Iterable[Row]) -> None:
        self._partitions: dict[bytes, list[Entry]] = {}
        for row in sorted(rows):
            self._partitions.setdefault(row.partition, []).append(Entry(row.key, row.value))

    def partitions(self) -> Iterator[bytes]:
        """Every partition, in byte order."""
        return iter(self._partitions)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """The rows of a partition."""
        entries = self._partitions.get(partition, [])
        return iter(entries[bisect_left(entries, start, key=lambda entry: entry.key) :])
