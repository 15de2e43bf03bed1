"""Ref tips that earlier marks knew and nothing reaches now, and which snapshots were released.

Released: the record of an expiration by Dredge names it, or an earlier mark saw it as an ancestor of a snapshot that is
still reached, so an expiration took it out of that history. Every other tip that is not reached was lost: its ref was
deleted or reset, or an earlier state of the refs was put back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection.witness.record import Known, LostTip, Parents
from dredge.icechunk.format.envelope import FileType, open_file
from dredge.icechunk.format.flatbuffer import Buffer
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.history import MAIN, History
from dredge.icechunk.ids import NODE_ID_BYTES, encode_id
from dredge.icechunk.repository import SNAPSHOTS, TRANSACTIONS
from dredge.storage import ObjectReader

MAIN_LABEL = f"branch:{MAIN}"
_NEW, _DELETED = (1, 2), (3, 4)
"""Slots of a transaction log: groups and arrays."""


def find_released(known: Known, named: Collection[str], more: Parents) -> frozenset[str]:
    """Give the snapshots that are not reached and were released.

    Args:
        known: what earlier marks saw.
        named: snapshots that are reached (spec 2: listed).
        more: further parents that were seen before an expiration.
    """
    found: set[str] = set()
    waiting = list(named)
    while waiting:
        node = waiting.pop()
        for links in (known.parents, more):
            parents = links.get(node, frozenset()) - found
            found |= parents
            waiting += parents
    return (known.released | found) - frozenset(named)


def find_lost(
    known: Known, named: Collection[str], released: Collection[str], now: datetime
) -> dict[str, LostTip]:
    """Give the tips that were lost, each with the time of the first mark that missed it.

    Args:
        known: what earlier marks saw.
        named: snapshots that are reached (spec 2: listed).
        released: snapshots that were released.
        now: the store's time.
    """
    found = {tip: LostTip(label, now) for label, tip in known.tips.items()} | dict(known.lost)
    return {node: tip for node, tip in found.items() if node not in named and node not in released}


def find_unnamed(
    known: Known,
    files: Mapping[str, datetime],
    named: Collection[str],
    released: Collection[str],
    now: datetime,
    keep: timedelta,
) -> dict[str, datetime]:
    """Give the snapshot files that nothing names and that were not released, each with the time of the first mark that
    missed it.

    A mark misses one that was written in the time `keep`, or since the last complete mark where that is longer: a
    commit that no mark saw.

    Args:
        known: what earlier marks saw.
        files: time of each snapshot file.
        named: snapshots that are reached (spec 2: listed).
        released: snapshots that were released.
        now: the store's time.
        keep: how young a file is that nothing has named yet.
    """
    found = {
        node: now
        for node, time in files.items()
        if now - time < keep or (known.at is not None and time >= known.at)
    } | dict(known.unnamed)
    return {
        node: missed
        for node, missed in found.items()
        if node in files and node not in named and node not in released
    }


def lost_main(known: Known, named: Collection[str], released: Collection[str]) -> str | None:
    """Give the tip that main had at the last mark where it is not reached and was not released; None else."""
    tip = known.tips.get(MAIN_LABEL)
    return None if tip is None or tip in named or tip in released else tip


def cut_after(reader: ObjectReader, history: History, lost: str) -> bool:
    """Whether an expiration by the library may have released what was main's tip (spec 1).

    Main's history then begins with a snapshot that is newer than the lost one, and that was written on top of another
    snapshot than the root which its file names now: its transaction log lists fewer nodes as new than it has.

    Args:
        reader: on the repository.
        history: as it is now.
        lost: the tip that main had.
    """
    path = history.ancestry(history.branches[MAIN])
    if len(path) < 2:
        return False
    oldest = path[-2]
    try:
        before = parse_snapshot(reader.get(SNAPSHOTS + lost), lost).flushed_at
        nodes = {node.id for node in parse_snapshot(reader.get(SNAPSHOTS + oldest), oldest, nodes=True).nodes}
        new, deleted = _logged(reader, oldest)
    except (NotFoundError, FormatError):
        return False
    return history.snapshots[oldest].flushed_at > before and (deleted or not nodes <= new)


def _logged(reader: ObjectReader, snapshot: str) -> tuple[set[str], bool]:
    """Nodes that a snapshot's transaction log calls new, and whether it deletes any."""
    key = TRANSACTIONS + snapshot
    root = Buffer(open_file(reader.get(key), key, FileType.TRANSACTION_LOG).view, key).root()
    new = {encode_id(raw) for slot in _NEW for raw in root.structs(slot, NODE_ID_BYTES)}
    return new, any(True for slot in _DELETED for _ in root.structs(slot, NODE_ID_BYTES))


def first_of_main(history: History) -> tuple[str, int]:
    """Id and time of main's first snapshot: the life of the repository."""
    *_, first = history.path(history.branches[MAIN])
    return first.id, first.flushed_at


def labels_of(history: History) -> Mapping[str, str]:
    """Tip by label of the ref."""
    return {ref.label: ref.tip for ref in history.refs}
