"""Staging areas: one partition of the key-value store per staging token, one record per changed path.

A record without an identity is a tombstone: it deletes the path of older tokens and of the commit. Several tokens and a
commit are read as one: the newest token with a change of a path decides; if no token has one, the commit does.

Source: design "lakeFS on KV", reading flow; lakeFS pkg/graveler/staging/manager.go, pkg/graveler/combined_iterator.go
(behaviour only).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dredge.lakefs.files import messages
from dredge.lakefs.files.ranges import Value
from lakefs_embedded.kv import KeyNotFoundError, Store


@dataclass(frozen=True, slots=True)
class Staged:
    """One staged change; a value of None is a tombstone."""

    path: bytes
    value: Value | None

    def encode(self) -> bytes:
        """Write the record as a server does."""
        if self.value is None:
            return messages.encode(messages.StagedEntryData(key=self.path))
        return messages.encode(
            messages.StagedEntryData(key=self.path, identity=self.value.identity, data=self.value.data)
        )

    @classmethod
    def decode(cls, path: bytes, data: bytes) -> Staged:
        """Read a record found at a path. Raises FormatError: not a StagedEntryData message."""
        record = messages.decode(messages.StagedEntryData, data, f"staged record of {path!r}")
        return cls(path, Value(record.identity, record.data) if record.identity else None)


class StagingAreas:
    """All staging areas of a key-value store."""

    def __init__(self, kv: Store) -> None:
        self._kv = kv

    def get(self, token: str, path: bytes) -> Staged | None:
        """Read a token's change of a path; None when it has none."""
        raw = self.get_raw(token, path)
        return None if raw is None else Staged.decode(path, raw)

    def get_raw(self, token: str, path: bytes) -> bytes | None:
        """Read a record's bytes, for `put_if` to compare with."""
        try:
            return self._kv.get(token.encode(), path)
        except KeyNotFoundError:
            return None

    def put(self, token: str, staged: Staged) -> None:
        """Write a change; idempotent."""
        self._kv.set(token.encode(), staged.path, staged.encode())

    def put_if(self, token: str, staged: Staged, expected: bytes | None) -> None:
        """Write a change if the record is unchanged. Raises PredicateFailedError: it has changed."""
        self._kv.set_if(token.encode(), staged.path, staged.encode(), expected)

    def remove(self, token: str, path: bytes) -> None:
        """Remove a token's change of a path."""
        self._kv.delete(token.encode(), path)

    def scan(self, token: str, start: bytes = b"") -> Iterator[Staged]:
        """Changes of one token in path order, from a path on."""
        for entry in self._kv.scan(token.encode(), start):
            yield Staged.decode(entry.key, entry.value)


def staged_value(areas: StagingAreas, tokens: Sequence[str], path: bytes) -> Staged | None:
    """The newest change of a path (`tokens` newest first); None when no token has one."""
    for token in tokens:
        staged = areas.get(token, path)
        if staged is not None:
            return staged
    return None


def staged_changes(areas: StagingAreas, tokens: Sequence[str], start: bytes = b"") -> Iterator[Staged]:
    """The newest change of every path in path order, including tombstones."""
    if len(tokens) == 1:
        yield from areas.scan(tokens[0], start)
        return
    ranked = [_rank(areas, token, age, start) for age, token in enumerate(tokens)]
    last: bytes | None = None
    for path, _, staged in heapq.merge(*ranked, key=lambda item: item[:2]):
        if path != last:
            last = path
            yield staged


def overlay(
    changes: Iterable[Staged], committed: Iterable[tuple[bytes, Value]]
) -> Iterator[tuple[bytes, Value]]:
    """Committed values with changes applied, both in path order; deleted paths are left out."""
    below = iter(committed)
    present = next(below, None)
    for change in changes:
        while present is not None and present[0] < change.path:
            yield present
            present = next(below, None)
        if present is not None and present[0] == change.path:
            present = next(below, None)
        if change.value is not None:
            yield change.path, change.value
    while present is not None:
        yield present
        present = next(below, None)


def _rank(areas: StagingAreas, token: str, age: int, start: bytes) -> Iterator[tuple[bytes, int, Staged]]:
    for staged in areas.scan(token, start):
        yield staged.path, age, staged
