"""Apply changes to a commit's content: a commit of staged entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dredge.lakefs.files.ranges import MetaRange, Value
from lakefs_embedded.committed.cursor import Cursor
from lakefs_embedded.committed.store import RangeStore
from lakefs_embedded.committed.writing import SERVER_RULE, MetaRangeWriter, SplitRule


@dataclass(frozen=True, slots=True)
class Change:
    """A path's new value, or None to remove the path."""

    key: bytes
    value: Value | None


@dataclass(frozen=True, slots=True)
class Applied:
    """The new content (the base's id when nothing changed), and the number of new paths."""

    metarange_id: str
    added: int = 0
    changed: int = 0
    removed: int = 0

    @property
    def anything(self) -> bool:
        """Whether the content differs from before."""
        return bool(self.added or self.changed or self.removed)


def apply(
    store: RangeStore, base_id: str, changes: Iterable[Change], rule: SplitRule = SERVER_RULE
) -> Applied:
    """Write a base's content with changes applied, in key order, at most one per key.

    A value with the base's identity is not a change: the base's value stays, with its old address. Nor is a removal
    of a missing path. Ranges without a change are reused: neither read nor written.

    Source: lakeFS pkg/graveler/committed/apply.go (behaviour)
    """
    base = store.get_metarange(base_id)
    writer = MetaRangeWriter(store, rule)
    cursor = Cursor(store, base)
    added = changed = removed = 0
    for change in _effective(store, base, changes):
        _copy_until(writer, cursor, change.key)
        found = not cursor.done and not cursor.before_range and cursor.key == change.key
        if found:
            cursor.next()
        if change.value is None:
            removed += 1
            continue
        writer.add(change.key, change.value)
        if found:
            changed += 1
        else:
            added += 1
    if not (added or changed or removed):
        return Applied(base_id)
    _copy_until(writer, cursor, None)
    return Applied(writer.finish().id, added, changed, removed)


def _effective(store: RangeStore, base: MetaRange, changes: Iterable[Change]) -> Iterator[Change]:
    last: bytes | None = None
    for change in changes:
        if last is not None and change.key <= last:
            raise ValueError(f"change of {change.key!r} does not come after {last!r}")
        last = change.key
        present = store.get_entry(base.id, change.key)
        before = None if present is None else present.identity
        after = None if change.value is None else change.value.identity
        if before != after:
            yield change


def _copy_until(writer: MetaRangeWriter, cursor: Cursor, key: bytes | None) -> None:
    while not cursor.done:
        if cursor.before_range:
            if key is None or cursor.info.max_key < key:
                writer.add_range(cursor.info)
                cursor.skip_range()
            else:
                cursor.enter()
        elif key is None or cursor.key < key:
            writer.add_encoded(cursor.key, cursor.raw)
            cursor.next()
        else:
            return
