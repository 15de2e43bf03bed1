"""Writes the content of a commit: records into ranges, ranges into a metarange; new, or another content changed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.lakefs.files.ranges import RangeInfo, Value
from dredge.lakefs.files.sstable import METARANGES, RANGES
from lakefs_embedded.committed.store import Cursor, MetaRange, RangeStore
from lakefs_embedded.committed.tables import TableWriter, WrittenTable, put_range, put_value, write_table

_FNV_START = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SplitRule:
    """When a range is closed after a key.

    Attributes:
        min_size: estimated bytes below which a range is never closed.
        max_size: estimated bytes from which on it is always closed.
        raggedness: between the two, a key in this many closes the range. The key's hash decides, so equal
            keys make equal ranges independent of earlier writes.

    Source: lakeFS configuration committed.permanent.*
    """

    min_size: int = 0
    max_size: int = 20 << 20
    raggedness: int = 50_000

    def closes_after(self, key: bytes, estimated_size: int) -> bool:
        """Whether a range of this size ends with this key."""
        if estimated_size < self.min_size:
            return False
        return estimated_size >= self.max_size or fnv1a_64(key) % self.raggedness == 0


SERVER_RULE = SplitRule()


class MetaRangeWriter:
    """Takes records and whole ranges in key order, and writes each range as soon as it is full.

    The metarange is written last: after a crash the ranges are unreferenced.
    """

    def __init__(self, store: RangeStore, rule: SplitRule = SERVER_RULE) -> None:
        self._store = store
        self._rule = rule
        self._open: TableWriter | None = None
        self._ranges: list[RangeInfo] = []
        self._last: bytes | None = None

    def add(self, key: bytes, value: Value) -> None:
        """Append a record. Raises ValueError unless the key is the greatest."""
        self.add_encoded(key, put_value(value))

    def add_encoded(self, key: bytes, raw: bytes) -> None:
        """Append an encoded record. Raises ValueError unless the key is the greatest."""
        if self._last is not None and key <= self._last:
            raise ValueError(f"key {key!r} does not come after {self._last!r}")
        if self._open is None:
            self._open = TableWriter(RANGES)
        self._open.add(key, raw)
        self._last = key
        if self._rule.closes_after(key, self._open.estimated_size()):
            self._close_range()

    def add_range(self, info: RangeInfo) -> None:
        """Append a stored range, unchanged. Raises FormatError if it overlaps an earlier one."""
        if self._last is not None and info.min_key <= self._last:
            raise FormatError(f"range {info.id} begins at {info.min_key!r}, not after {self._last!r}")
        self._close_range()
        self._ranges.append(info)
        self._last = info.max_key

    def finish(self) -> MetaRange:
        """Write the metarange. The writer cannot be used afterwards."""
        self._close_range()
        table = write_metarange(self._ranges)
        self._store.put(table)
        return MetaRange(table.id, tuple(self._ranges))

    def _close_range(self) -> None:
        if self._open is not None:
            table = self._open.finish()
            self._store.put(table)
            self._ranges.append(table.info)
            self._open = None


def write_metarange(ranges: list[RangeInfo]) -> WrittenTable:
    """Write a metarange file. `ranges`: sorted by key, disjoint. Raises ValueError if not sorted."""
    return write_table(((item.max_key, put_range(item)) for item in ranges), METARANGES)


def fnv1a_64(key: bytes) -> int:
    """The 64-bit FNV-1a hash."""
    state = _FNV_START
    for byte in key:
        state = ((state ^ byte) * _FNV_PRIME) & _64_BITS
    return state


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


def replace_below(
    store: RangeStore,
    base_id: str,
    prefixes: Sequence[bytes],
    records: Iterable[tuple[bytes, Value]],
    rule: SplitRule = SERVER_RULE,
) -> MetaRange:
    """Write the content of a base without the keys below `prefixes`, and with new records in key order.

    A record replaces the base's even when both have the same identity: the new address is kept. Ranges without such
    keys are reused: neither read nor written.

    Source: lakeFS pkg/graveler/committed/manager.go (Import; behaviour)
    """
    writer = MetaRangeWriter(store, rule)
    cursor = Cursor(store, store.get_metarange(base_id))
    starts = tuple(prefixes)

    def copy_until(key: bytes | None) -> None:
        while not cursor.done:
            if cursor.before_range:
                info = cursor.info
                if any(info.min_key.startswith(each) and info.max_key.startswith(each) for each in starts):
                    cursor.skip_range()
                elif key is not None and info.min_key > key:
                    return
                elif (key is None or info.max_key < key) and not _may_hold(info, starts):
                    writer.add_range(info)
                    cursor.skip_range()
                else:
                    cursor.enter()
            elif key is None or cursor.key < key:
                if not cursor.key.startswith(starts):
                    writer.add_encoded(cursor.key, cursor.raw)
                cursor.next()
            else:
                return

    for key, value in records:
        copy_until(key)
        if not cursor.done and not cursor.before_range and cursor.key == key:
            cursor.next()
        writer.add(key, value)
    copy_until(None)
    return writer.finish()


def _may_hold(info: RangeInfo, prefixes: Sequence[bytes]) -> bool:
    return any(info.min_key.startswith(each) or info.min_key <= each <= info.max_key for each in prefixes)
