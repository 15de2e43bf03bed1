"""Replaces whole folders of a commit's content, for imports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dredge.lakefs.files.ranges import MetaRange, RangeInfo, Value
from lakefs_embedded.committed.cursor import Cursor
from lakefs_embedded.committed.store import RangeStore
from lakefs_embedded.committed.writing import SERVER_RULE, MetaRangeWriter, SplitRule


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
