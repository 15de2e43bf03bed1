"""Differences between the contents of commits. Shared ranges are skipped without being read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dredge.lakefs.files.ranges import Value
from lakefs_embedded.committed.cursor import Cursor
from lakefs_embedded.committed.store import RangeReader


class DiffKind(StrEnum):
    """The change of a path."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Difference:
    """A path with different identities on two sides; a missing value is None."""

    kind: DiffKind
    key: bytes
    left: Value | None
    right: Value | None


def diff(store: RangeReader, left_id: str, right_id: str) -> Iterator[Difference]:
    """The differences from one content to another, in key order; an empty id is the empty content."""
    left = Cursor(store, store.get_metarange(left_id))
    right = Cursor(store, store.get_metarange(right_id))
    while not (left.done and right.done):
        if left.before_range and right.before_range and left.info.id == right.info.id:
            left.skip_range()
            right.skip_range()
        elif left.before_range and (right.done or left.key <= right.key):
            left.enter()
        elif right.before_range and (left.done or right.key <= left.key):
            right.enter()
        elif right.done or (not left.done and left.key < right.key):
            yield Difference(DiffKind.REMOVED, left.key, left.value, None)
            left.next()
        elif left.done or right.key < left.key:
            yield Difference(DiffKind.ADDED, right.key, None, right.value)
            right.next()
        else:
            if left.raw != right.raw and left.value.identity != right.value.identity:
                yield Difference(DiffKind.CHANGED, left.key, left.value, right.value)
            left.next()
            right.next()


def compare(store: RangeReader, base_id: str, source_id: str, destination_id: str) -> Iterator[Difference]:
    """The changes of a merge of a source into a destination, in key order; left is the destination.

    A path is a conflict if both sides changed it since the base, in different ways.
    """
    for difference in diff(store, destination_id, source_id):
        destination, source = _identity(difference.left), _identity(difference.right)
        base = _identity(store.get_entry(base_id, difference.key))
        if source == base:
            continue  # only the destination changed it
        kind = difference.kind if destination == base else DiffKind.CONFLICT
        yield Difference(kind, difference.key, difference.left, difference.right)


def _identity(value: Value | None) -> bytes | None:
    return None if value is None else value.identity
