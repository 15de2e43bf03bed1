"""Refs kept by an expiration although their tip is expired."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from dredge.icechunk.collection.witness.operations import OperationsLog
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.plan import ExpirationPlan, plan_expiration
from dredge.icechunk.format.refs import REFS_FOLDER, live_refs
from dredge.icechunk.format.snapshots import micros
from dredge.icechunk.history import History
from dredge.icechunk.repository import read_repo_info
from dredge.storage import ObjectReader


def plan_for(reader: ObjectReader, history: History, expiration: Expiration, now: datetime) -> ExpirationPlan:
    """Plan an expiration of a history; changes nothing.

    Args:
        now: ages of refs count back from here; aware.

    Raises:
        ConfigError: a naive threshold, or an unknown rule.
        FormatError: parents are missing or form a cycle.
        RefusedError: a snapshot is not strictly newer than its parent.
    """
    return plan_expiration(
        history,
        expiration.instant,
        rule=expiration.rule,
        delete_expired_branches=expiration.delete_expired_branches,
        delete_expired_tags=expiration.delete_expired_tags,
        kept_refs=kept_refs(reader, history, expiration, now),
    )


def kept_refs(
    reader: ObjectReader, history: History, expiration: Expiration, now: datetime
) -> frozenset[str]:
    """Return the labels of refs in `keep_refs` or younger than `keep_refs_younger_hours`; of unknown age, all refs."""
    if not (expiration.delete_expired_branches or expiration.delete_expired_tags):
        return frozenset()
    globs = [glob.strip() for glob in (expiration.keep_refs or "").split(",") if glob.strip()]
    named = {
        ref.label
        for ref in history.refs
        # A name may hold characters of globs itself.
        if any(name == glob or fnmatchcase(name, glob) for glob in globs for name in (ref.name, ref.label))
    }
    if not expiration.keep_refs_younger_hours:
        return frozenset(named)
    since = micros(now - timedelta(hours=expiration.keep_refs_younger_hours))
    if history.spec_version == 1:
        return frozenset(named | {label for label, at in _ref_files(reader) if at >= since})
    moved = _moved_since(reader, since)
    return frozenset(named | ({ref.label for ref in history.refs} if moved is None else moved))


def _moved_since(reader: ObjectReader, since: int) -> set[str] | None:
    """Spec 2: return the labels of refs that were created or moved since a time (microseconds); None if unknown.

    The whole chain of the log counts: the repo info has only the newest operations.
    """
    found: set[str] = set()
    for update in OperationsLog(reader, read_repo_info(reader)):
        if update.updated_at < since:
            return found
        if update.kind == "repository migrated":
            return None  # entries before it have the times of snapshots, not of refs
        if update.label is not None:
            found.add(update.label)
        if update.kind == "repository initialised":
            return found
    return None


def _ref_files(reader: ObjectReader) -> Iterator[tuple[str, int]]:
    written: dict[str, int] = {}
    for batch in reader.list(REFS_FOLDER):
        times = batch.column("last_modified").cast("int64").to_pylist()
        written.update(zip(batch.column("key").to_pylist(), times, strict=True))
    for (kind, name), key in live_refs([key for key in written if not key.endswith("/")]).items():
        yield f"{kind}:{name}", written[key]
