"""Raw rows of a store in memory, or of a list."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from dredge.kv.rows import Guard, GuardFailedError, Row, show_key
from lakefs_embedded.kv import Entry, MemoryKV, PredicateFailedError


class MemoryRows:
    """Raw access to the rows of a `MemoryKV`; uses its internals, under its lock."""

    location = "memory://"
    guards_max = 1000

    def __init__(self, store: MemoryKV) -> None:
        self._store = store

    @contextlib.contextmanager
    def view(self) -> Iterator[FrozenView]:
        """Open a view of the store at one point in time: a copy."""
        with self._store._lock:
            rows = [
                Row(name, k, v)
                for name, part in self._store._partitions.items()
                for k, v in part.values.items()
            ]
        yield FrozenView(rows)

    def clock(self) -> None:
        """Return None: memory has no clock."""

    def own_id(self) -> str:
        """Return "": a memory store has no identity."""
        return ""

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        """Delete rows whose value is unchanged, all under one lock (see `RowCleaner`)."""
        with self._store._lock:
            for guard in guards:
                if self._value(guard.partition, guard.key) != guard.value:
                    raise GuardFailedError(f"{show_key(guard.partition, guard.key)} changed")
            return [self._delete(row) for row in rows]

    def insert_row(self, row: Row) -> bool:
        """Write a row if its key does not exist; returns whether it was written."""
        try:
            self._store.set_if(row.partition, row.key, row.value, None)
        except PredicateFailedError:
            return False
        return True

    def close(self) -> None:
        """Do nothing: no connection stays open."""

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
    consistent = True

    def __init__(self, rows: Iterable[Row]) -> None:
        self._partitions: dict[bytes, list[Entry]] = {}
        for row in sorted(rows):
            self._partitions.setdefault(row.partition, []).append(Entry(row.key, row.value))

    def partitions(self) -> Iterator[bytes]:
        return iter(self._partitions)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Return the rows of a partition from `start` (inclusive), in byte order of the keys."""
        entries = self._partitions.get(partition, [])
        return iter(entries[bisect_left(entries, start, key=lambda entry: entry.key) :])
