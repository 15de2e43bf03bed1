"""Deletes old versions and copies after a run's deletions. The only module with a deleter of versions, or of copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dredge.storage import NOT_SENT, DeleteOutcome, open_deleter, open_old_version_deleter
from dredge.storage.model import MaySend
from dredge.undo.leftovers import FAILED, PURGED, UNSENT, WOULD_GO, Leftover
from dredge.undo.ways import QUARANTINE, VERSIONS, quarantine_uri


def delete_leftovers(
    namespace: str, run_uri: str, chosen: Sequence[Leftover], may_send: MaySend
) -> list[Leftover]:
    """Delete the leftovers with outcome `WOULD_GO`, and return all of them with their outcomes.

    Args:
        chosen: from `Choosing`.
    """
    found = list(chosen)
    copies = [i for i, item in enumerate(found) if item.outcome == WOULD_GO and item.way == QUARANTINE]
    if copies:
        # This deleter has no key outside the folder with the copies.
        deleter = open_deleter(quarantine_uri(run_uri))
        outcomes = deleter.delete([found[i].row["address"] for i in copies], may_send)
        for i, outcome in zip(copies, outcomes, strict=True):
            found[i] = _told(found[i], outcome)
    versions = [i for i, item in enumerate(found) if item.outcome == WOULD_GO and item.way == VERSIONS]
    if versions:
        for i, item in zip(
            versions, _delete_versions(namespace, [found[i] for i in versions], may_send), strict=True
        ):
            found[i] = item
    return found


def _delete_versions(namespace: str, chosen: Sequence[Leftover], may_send: MaySend) -> list[Leftover]:
    """Delete versions before markers: without its marker, a version would become current again."""
    deleter = open_old_version_deleter(namespace)
    wanted = [(item.row["address"], item.version) for item in chosen if item.version is not None]
    outcomes = iter(deleter.delete(wanted, may_send) if wanted else [])
    after = [item if item.version is None else _told(item, next(outcomes)) for item in chosen]
    uncovered = [
        i for i, item in enumerate(after) if item.marker is not None and item.outcome in (PURGED, WOULD_GO)
    ]
    markers = [
        (after[i].row["address"], marker) for i in uncovered if (marker := after[i].marker) is not None
    ]
    for i, outcome in zip(uncovered, deleter.delete(markers, may_send) if markers else [], strict=True):
        after[i] = _told(after[i], outcome)
    return after


def _told(item: Leftover, outcome: DeleteOutcome) -> Leftover:
    if outcome.outcome in ("deleted", "missing"):
        return replace(item, outcome=PURGED)
    if outcome.code == NOT_SENT:
        return replace(item, outcome=UNSENT)
    return replace(item, outcome=FAILED, message=f"{outcome.code}: {outcome.message or ''}")
