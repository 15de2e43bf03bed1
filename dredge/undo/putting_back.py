"""What a restore leaves: what became of each object that was asked for.

Puts one object back under its key, where nothing is there.

    there?                     as it was → there          other → taken, left alone
    deleted by a version       markers above the version that the run deleted are taken away
    deleted after a copy       copied back, under the condition that the key is free

Taking a marker away writes nothing, so it can replace nothing: what somebody put under the key meanwhile stays the
current version. A copy is made under a condition where the store has one, and after a look where it has none.

Brings back single objects under a run's own lease: pinned, put back, and only what came back stays pinned.

A restore by hand (`restore.step`) is a run of its own; this is for a collection that finds live objects among what
earlier runs deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError
from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo
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
from dredge.storage.undo import BringsBackCopies
from dredge.undo.config import KEEP_DAYS
from dredge.undo.pins import Pin, narrow_pin, pin_folder, slices_of, write_pin
from dredge.undo.ways import QUARANTINE, VERSIONS, quarantine_uri
from dredge.xid import new_descending_xid

RESTORED, THERE, TAKEN, GONE, FAILED, UNSENT = "restored", "there", "taken", "gone", "failed", "not_sent"
REFUSED = "refused"
OUTCOMES = {
    RESTORED: "came back",
    THERE: "are there already, as they were",
    TAKEN: "have another object under their key, which was left alone",
    GONE: "have neither a copy nor a version that could be brought back",
    FAILED: "could not be brought back",
    REFUSED: "are refused by the store, and would be again",
    UNSENT: "were left to a later try",
}
"""What became of objects, in words that follow a number."""


class RestoreOutput(StepOutput):
    """What became of each object."""

    STEP = "restore"

    @property
    def ledger(self) -> list[PartInfo]:
        """Rows of address, size, reason, outcome, way and message, one for each object."""
        return self.parts("")


_PLAIN = re.compile(r"[0-9a-f]{32}")
"""A tag that an object gets which is uploaded in one piece."""
_MARKERS_MAX = 100
"""Markers of one key that are taken away; each deletion of an absent key leaves one more."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of an object.

    Attributes:
        outcome: one of `OUTCOMES`.
        way: "versions" or "quarantine"; "" for neither.
        message: the store's words, or what is there instead.
    """

    outcome: str
    way: str = ""
    message: str = ""


class PuttingBack:
    """Puts back what one run deleted.

    Args:
        namespace: URI of what was collected.
        run_uri: URI of the folder of the run that deleted.
        way: that its plan took; the other one is tried after it.
    """

    def __init__(self, namespace: str, run_uri: str, way: str) -> None:
        self._namespace = namespace
        self._reader = open_reader(namespace)
        self._copier = open_copier(quarantine_uri(run_uri), namespace)
        self._versions = open_versions(namespace)
        self._by_versions = way == VERSIONS
        copies = isinstance(self._versions, BringsBackCopies) and self._versions.brings_back_copies()
        self._keeps_tags = self._by_versions and not copies
        ways = [self._copied_back, self._uncovered]
        self._ways = ways[::-1] if self._by_versions else ways

    def put_back(self, row: Mapping[str, Any]) -> Restored:
        """Put one object back; never raises for it.

        Args:
            row: of `swept_rows`.
        """
        try:
            there = self._look(row)
            if there is not None:
                return there
            first, second = self._ways
            found = first(row)
            return second(row) if found.outcome == GONE and not found.message else found
        except ConfigError as error:  # rights, or a key that the store does not take: a retry ends the same
            return Restored(REFUSED, "", str(error))
        except DredgeError as error:
            return Restored(FAILED, "", str(error))

    def _look(self, row: Mapping[str, Any], way: str = "") -> Restored | None:
        """What is under the key; None when nothing is."""
        try:
            found = self._reader.stat(row["address"])
        except NotFoundError:
            return None
        if found.size != row["size"] or self._is_another(found, row):
            return Restored(TAKEN, "", f"{found.size} bytes of {found.last_modified:%Y-%m-%d %H:%M:%S} UTC")
        return Restored(RESTORED if way else THERE, way)

    def _is_another(self, found: ObjectInfo, row: Mapping[str, Any]) -> bool:
        """Whether an object as long as the one that the run listed is another one, as far as its tag tells: a version
        that comes back keeps its tag where it is no copy; a copy need not."""
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
            # Somebody, perhaps an earlier request of ours whose answer was lost, was first.
            return self._look(row) or Restored(FAILED, QUARANTINE, "the key was taken and is free again")
        return Restored(RESTORED, QUARANTINE)

    def _uncovered(self, row: Mapping[str, Any]) -> Restored:
        """Take away the markers above the version that the run deleted."""
        address = row["address"]
        found = self._versions.versions(address)
        newest = next((version for version in found if not version.is_marker), None)
        if newest is None:
            return Restored(GONE)
        if not _is_the_one(newest, row):
            return Restored(GONE, "", "the newest version is of another object, deleted since")
        remover = open_marker_remover(self._namespace)
        for _ in range(_MARKERS_MAX):
            marker = next((version for version in found if version.is_latest), None)
            if marker is None or not marker.is_marker:
                break
            outcome = remover.remove(address, marker)
            if outcome.outcome == "failed":
                return Restored(FAILED, VERSIONS, f"{outcome.code}: {outcome.message or ''}")
            found = self._versions.versions(address)
        return self._look(row, VERSIONS) or Restored(FAILED, VERSIONS, "the version did not come back")


def _is_the_one(version: ObjectVersion, row: Mapping[str, Any]) -> bool:
    """Whether a version is what the run listed; the store's tag of the same bytes never changes. A run that did not
    list the object knows no tag: names of such objects are never used again."""
    return bool(version.size == row["size"] and row["etag"] in (None, version.etag))


_AT_ONCE = 16
_BACK = (RESTORED, THERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Some of a run's deletions.

    Attributes:
        run_id: the run that deleted.
        run_uri: URI of its folder.
        way: how its deletions can be taken back.
        rows: as `swept_rows` gives them.
    """

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
    """Bring back some objects that a run deleted, and pin what came back. The caller holds the lease.

    Args:
        namespace: URI of what was collected.
        state: on the folder of lease and index.
        source: which objects.
        reason: for the pin.
        now: gives the store's time.
        options: None reads the environment.

    Returns:
        What became of each row, in their order.
    """
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


def outcomes_of(rows: Sequence[Restored]) -> tuple[pa.Array, pa.Array]:
    """Outcomes and messages as columns."""
    return pa.array([item.outcome for item in rows], pa.string()), pa.array(
        [item.message for item in rows], pa.string()
    )
