"""Restores single objects under their keys, if the key is free; for a restore, and for collections with live objects
among earlier deletions.

    key in use?                same object → there        other → taken, unchanged
    deleted by a marker        markers above the deleted version are removed
    deleted after a copy       the copy is copied back, if the key is free

Removing a marker writes no object, so it replaces none: an object written meanwhile stays the current version. A copy
is conditional in stores with conditional writes, and follows a check in others.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError
from dredge.runs.payload import PartInfo, StepOutput
from dredge.sets.hashes import unite, write_hashes
from dredge.sets.live import LocatedSet, ShardedSet
from dredge.storage import (
    ObjectInfo,
    ObjectVersion,
    ObjectWriter,
    StorageOptions,
    open_copier,
    open_marker_remover,
    open_reader,
    open_versions,
)
from dredge.storage.parallel import ordered_map
from dredge.undo import alarms
from dredge.undo.pins import Pin, narrow_pin, pin_folder, slices_of, write_pin
from dredge.undo.ways import KEEP_DAYS, QUARANTINE, VERSIONS, quarantine_uri
from dredge.xid import new_descending_xid

RESTORED, THERE, TAKEN, GONE, FAILED, UNSENT = "restored", "there", "taken", "gone", "failed", "not_sent"
REFUSED = "refused"
# Outcomes of objects, in words after a number.
OUTCOMES = {
    RESTORED: "were restored",
    THERE: "are already in place, unchanged",
    TAKEN: "have another object under their key, left unchanged",
    GONE: "have neither a copy nor a version to restore",
    FAILED: "could not be restored",
    REFUSED: "are refused by the store, also on a retry",
    UNSENT: "were left for a later try",
}


class RestoreOutput(StepOutput):
    """The result of a restore."""

    STEP = "restore"

    @property
    def ledger(self) -> list[PartInfo]:
        """Rows of address, size, reason, outcome, way and message."""
        return self.parts("")


# The tag of an object uploaded in one request.
_PLAIN = re.compile(r"[0-9a-f]{32}")
# Limit of markers removed for one key; each deletion of an absent key adds one.
_MARKERS_MAX = 100


class Restored(Struct, frozen=True):
    """The outcome of an object."""

    outcome: str
    way: str = ""  # "versions" or "quarantine"; "" for neither
    message: str = ""  # of the store, or the description of another object under the key


class PuttingBack:
    """Restores the deletions of a run. `way`: undo way of its plan; the other way is tried after it."""

    def __init__(self, namespace: str, run_uri: str, way: str) -> None:
        self._namespace = namespace
        self._reader = open_reader(namespace)
        self._copier = open_copier(quarantine_uri(run_uri), namespace)
        self._versions = open_versions(namespace)
        self._by_versions = way == VERSIONS
        self._keeps_tags = self._by_versions and not self._versions.brings_back_copies()
        ways = [self._copied_back, self._uncovered]
        self._ways = ways[::-1] if self._by_versions else ways

    def put_back(self, row: Mapping[str, Any]) -> Restored:
        """Restore an object, a row of `swept_rows`. Errors of the object become outcomes."""
        try:
            there = self._look(row)
            if there is not None:
                return there
            first, second = self._ways
            found = first(row)
            return second(row) if found.outcome == GONE and not found.message else found
        except ConfigError as error:  # missing rights, or a key refused by the store: a retry fails again
            return Restored(REFUSED, "", str(error))
        except DredgeError as error:
            return Restored(FAILED, "", str(error))

    def _look(self, row: Mapping[str, Any], way: str = "") -> Restored | None:
        """The outcome for the object under the key; None for a free key."""
        try:
            found = self._reader.stat(row["address"])
        except NotFoundError:
            return None
        if found.size != row["size"] or self._is_another(found, row):
            return Restored(TAKEN, "", f"{found.size} bytes of {found.last_modified:%Y-%m-%d %H:%M:%S} UTC")
        return Restored(RESTORED if way else THERE, way)

    def _is_another(self, found: ObjectInfo, row: Mapping[str, Any]) -> bool:
        """Whether an object of the listed size differs by its tag: a restored version keeps its tag except for a copy;
        a copy may have another tag."""
        if row["etag"] is None or found.etag == row["etag"] or not found.size:
            return False
        tags = (found.etag or "", row["etag"])
        return self._keeps_tags or all(_PLAIN.fullmatch(tag) for tag in tags)

    def _copied_back(self, row: Mapping[str, Any]) -> Restored:
        try:
            self._copier.copy(row["address"], if_absent=True, size=row["size"])
        except NotFoundError:
            return Restored(GONE)
        except ConflictError:
            # Another writer was first, or an earlier request of ours with a lost response.
            return self._look(row) or Restored(FAILED, QUARANTINE, "the key was in use and is free again")
        return Restored(RESTORED, QUARANTINE)

    def _uncovered(self, row: Mapping[str, Any]) -> Restored:
        address = row["address"]
        found = self._versions.versions(address)
        newest = next((version for version in found if not version.is_marker), None)
        if newest is None:
            return Restored(GONE)
        if not _is_the_one(newest, row):
            return Restored(GONE, "", "the newest version belongs to another object, deleted later")
        remover = open_marker_remover(self._namespace)
        for _ in range(_MARKERS_MAX):
            marker = next((version for version in found if version.is_latest), None)
            if marker is None or not marker.is_marker:
                break
            outcome = remover.remove(address, marker)
            if outcome.outcome == "failed":
                return Restored(FAILED, VERSIONS, f"{outcome.code}: {outcome.message or ''}")
            found = self._versions.versions(address)
        return self._look(row, VERSIONS) or Restored(FAILED, VERSIONS, "the version did not become current")


def _is_the_one(version: ObjectVersion, row: Mapping[str, Any]) -> bool:
    """Whether a version matches the listed object; the store's tag of the same bytes never changes. A run without a
    listing has no tag: names of such objects are never reused."""
    return bool(version.size == row["size"] and row["etag"] in (None, version.etag))


_AT_ONCE = 16
_BACK = (RESTORED, THERE)


class Source(Struct, frozen=True, kw_only=True):
    """A part of a run's deletions."""

    run_id: str
    run_uri: str
    way: str
    rows: pa.Table


def bring_back(
    namespace: str,
    state: ObjectWriter,
    source: Source,
    reason: str,
    now: Callable[[], datetime],
    options: StorageOptions | None = None,
) -> list[Restored]:
    """Restore objects deleted by a run, and pin the restored ones. The caller holds the lease. Returns the outcome of
    each row, in their order."""
    at = now()
    pin_id = new_descending_xid(at)
    folder = pin_folder(state.uri, pin_id, options)

    def pinned(rows: pa.Table, name: str) -> tuple[LocatedSet, ...]:
        if not rows.num_rows:
            return ()
        part = write_hashes(folder, name, unite([rows["hash"].to_numpy()]))
        return (LocatedSet(folder.uri, ShardedSet(0, {0: part})),)

    rows = source.rows
    write_pin(
        state,
        Pin(
            pin_id=pin_id,
            run_id=source.run_id,
            reason=reason,
            created_at=at,
            until=at + timedelta(days=KEEP_DAYS),
            objects=rows.num_rows,
            size_bytes=pc.sum(rows["size"]).as_py() or 0,
            sets=pinned(rows, "hashes-all-0.u64"),
            slices=slices_of(rows["address"]),
        ),
    )
    putting = PuttingBack(namespace, source.run_uri, source.way)
    found = list(ordered_map(putting.put_back, rows.to_pylist(), _AT_ONCE))
    back = rows.filter(pa.array([item.outcome in _BACK for item in found], pa.bool_()))
    size_bytes = pc.sum(back["size"]).as_py() or 0
    narrow_pin(state, pin_id, pinned(back, "hashes-back-0.u64"), back.num_rows, size_bytes, now())
    return found


def alarm_rows(run_id: str, rows: pa.Table, became: Sequence[Restored]) -> pa.Table:
    """Rows of an alarm: live objects deleted by a run, with the outcome of each."""
    columns = {
        "address": rows["address"],
        "hash": rows["hash"].cast(pa.uint64()),
        "deleted_by": [run_id] * rows.num_rows,
        "outcome": [item.outcome for item in became],
        "message": [item.message for item in became],
    }
    return pa.table(columns, schema=alarms.SCHEMA)
