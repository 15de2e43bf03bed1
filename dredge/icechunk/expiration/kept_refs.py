"""Refs kept by an expiration although their tip is expired."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.plan import ExpirationPlan, plan_expiration
from dredge.icechunk.format.refs import REFS_FOLDER, live_refs
from dredge.icechunk.format.snapshots import micros
from dredge.icechunk.history import History
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
    """Return the labels of refs in `keep_refs` or younger than `keep_refs_younger_hours`."""
    if not (expiration.delete_expired_branches or expiration.delete_expired_tags):
        return frozenset()
    globs = [glob.strip() for glob in (expiration.keep_refs or "").split(",") if glob.strip()]
    named = {
        ref.label
        for ref in history.refs
        if any(fnmatchcase(ref.name, glob) or fnmatchcase(ref.label, glob) for glob in globs)
    }
    if not expiration.keep_refs_younger_hours:
        return frozenset(named)
    since = micros(now - timedelta(hours=expiration.keep_refs_younger_hours))
    times = history.ref_times if history.spec_version == 2 else dict(_ref_files(reader))
    return frozenset(named | {label for label, at in times.items() if at >= since})


def _ref_files(reader: ObjectReader) -> Iterator[tuple[str, int]]:
    written: dict[str, int] = {}
    for batch in reader.list(REFS_FOLDER):
        times = batch.column("last_modified").cast("int64").to_pylist()
        written.update(zip(batch.column("key").to_pylist(), times, strict=True))
    for (kind, name), key in live_refs([key for key in written if not key.endswith("/")]).items():
        yield f"{kind}:{name}", written[key]
