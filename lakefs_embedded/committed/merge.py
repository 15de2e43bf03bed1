"""Differences between contents of commits, and three-way merges. Shared ranges are skipped without being read.

A merge takes a whole range without reading it if both sides have it, if only one side has it and the base has no keys
there, or if it replaces a range of the base left unchanged on the other side. Other records are merged one by one.

Source: lakeFS pkg/graveler/committed/merge.go (behaviour)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dredge.errors import ConflictError
from dredge.lakefs.files.ranges import RangeInfo, Value
from lakefs_embedded.committed.store import Cursor, MetaRange, RangeReader, RangeStore, position_of
from lakefs_embedded.committed.writing import SERVER_RULE, MetaRangeWriter, SplitRule


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


class Strategy(StrEnum):
    """The preferred side of a conflict; the value is recorded in a merge commit's metadata."""

    DEFAULT = "default"
    DESTINATION_WINS = "dest-wins"
    SOURCE_WINS = "source-wins"


class MergeConflictError(ConflictError):
    """Both sides changed a path, and the strategy prefers neither."""

    kind = "merge_conflict"

    def __init__(self, key: bytes) -> None:
        super().__init__(
            f"both sides changed {key.decode(errors='replace')!r}: choose a side, or merge it by hand"
        )
        self.key = key


def merge(
    store: RangeStore,
    base_id: str,
    source_id: str,
    destination_id: str,
    strategy: Strategy = Strategy.DEFAULT,
    rule: SplitRule = SERVER_RULE,
) -> str:
    """Write the content of a merge of a source into a destination; `base_id` may be empty.

    Returns the metarange id: the destination's own when the source changes nothing. After a MergeConflictError no
    metarange refers to the written ranges.
    """
    if source_id in (base_id, destination_id):
        return destination_id
    if destination_id == base_id:
        return source_id
    merger = _Merger(store, base_id, source_id, destination_id, strategy, rule)
    return merger.run().id


class _Merger:
    def __init__(
        self,
        store: RangeStore,
        base_id: str,
        source_id: str,
        destination_id: str,
        strategy: Strategy,
        rule: SplitRule,
    ) -> None:
        self._store = store
        self._base = store.get_metarange(base_id)
        self._source = Cursor(store, store.get_metarange(source_id))
        self._destination = Cursor(store, store.get_metarange(destination_id))
        self._strategy = strategy
        self._writer = MetaRangeWriter(store, rule)

    def run(self) -> MetaRange:
        source, destination = self._source, self._destination
        while not (source.done and destination.done):
            if source.before_range and destination.before_range and self._both_ranges():
                continue
            for cursor, other in ((source, destination), (destination, source)):
                if cursor.before_range and (other.done or cursor.key <= other.key):
                    if not self._lone_range(cursor, other):
                        cursor.enter()
                    break
            else:
                self._records()
        return self._writer.finish()

    def _both_ranges(self) -> bool:
        source, destination = self._source.info, self._destination.info
        chosen: RangeInfo | None = None
        if source.id == destination.id:
            chosen = source
        elif (source.min_key, source.max_key) == (destination.min_key, destination.max_key):
            base = self._base_range(source)
            if base is not None and base.id == source.id:
                chosen = destination
            elif base is not None and base.id == destination.id:
                chosen = source
        if chosen is None:
            return False
        self._writer.add_range(chosen)
        self._source.skip_range()
        self._destination.skip_range()
        return True

    def _lone_range(self, cursor: Cursor, other: Cursor) -> bool:
        info = cursor.info
        if not other.done and other.key <= info.max_key:
            return False
        base = self._base_range(info)
        if base is None:
            self._writer.add_range(info)
        elif base.id != info.id:
            return False
        cursor.skip_range()  # unchanged here, so the other side removed it
        return True

    def _base_range(self, info: RangeInfo) -> RangeInfo | None:
        position = position_of(self._base, info.min_key)
        if position == len(self._base.ranges) or self._base.ranges[position].min_key > info.max_key:
            return None
        return self._base.ranges[position]

    def _records(self) -> None:
        source, destination = self._source, self._destination
        has_source = not source.done and (destination.done or source.key <= destination.key)
        has_destination = not destination.done and (source.done or destination.key <= source.key)
        key = source.key if has_source else destination.key
        source_raw = source.raw if has_source else None
        destination_raw = destination.raw if has_destination else None
        source_identity = source.value.identity if has_source else None
        destination_identity = destination.value.identity if has_destination else None
        # Where both sides added the same content the source's address is kept, as on a server.
        chosen = source_raw if has_source and has_destination else destination_raw
        if source_identity != destination_identity:
            present = self._store.get_entry(self._base.id, key)
            base = None if present is None else present.identity
            from_source = destination_identity == base or (source_identity != base and self._source_wins(key))
            chosen = source_raw if from_source else destination_raw
        if chosen is not None:
            self._writer.add_encoded(key, chosen)
        if has_source:
            source.next()
        if has_destination:
            destination.next()

    def _source_wins(self, key: bytes) -> bool:
        if self._strategy is Strategy.DEFAULT:
            raise MergeConflictError(key)
        return self._strategy is Strategy.SOURCE_WINS
