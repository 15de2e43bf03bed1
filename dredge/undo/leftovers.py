"""The leftovers of a run's deletions (old versions, copies), and the selection of a purge.

Only leftovers named in the run's ledger are selected:

    quarantine   the copy under a key with outcome deleted, with the size of the object, older than the cutoff
    versions     the version right below the delete marker in the ledger, not the current one, with the tag listed by
                 the run, its deletion older than the cutoff; then the marker, if no other version is below it.
                 Without a marker in the ledger (a lost response, or a store without marker ids), the only version with
                 the size and tag listed by the run, below the newest marker

Pinned leftovers stay, and so does every leftover not exactly as described.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dredge.errors import DredgeError, NotFoundError
from dredge.runs.payload import PartInfo, StepOutput
from dredge.storage import (
    NOT_SENT,
    DeleteOutcome,
    ObjectVersion,
    open_deleter,
    open_old_version_deleter,
    open_reader,
    open_versions,
)
from dredge.storage.model import MaySend
from dredge.undo.ways import QUARANTINE, VERSIONS, quarantine_uri

PURGED, WOULD_GO, FAILED, UNSENT = "purged", "would_go", "failed", "not_sent"
PINNED, LIVE, YOUNG, CURRENT, OTHER = "pinned", "live", "young", "current", "other"
# Outcomes of copies and versions, in words after a number.
OUTCOMES = {
    PURGED: "were purged",
    WOULD_GO: "would be purged",
    PINNED: "stay: they were restored, and are pinned",
    LIVE: "stay: they are live, or may be live",
    YOUNG: "stay: they are not old enough",
    CURRENT: "stay: the deleted version is current again",
    OTHER: "stay: they differ from the listed objects",
    FAILED: "could not be deleted",
    UNSENT: "were left to a later purge",
}


class PurgeOutput(StepOutput):
    """The result of a purge."""

    STEP = "purge"

    @property
    def ledger(self) -> list[PartInfo]:
        """Rows of run, address, size, way, version id, outcome and message."""
        return self.parts("")


class Leftover(Struct, frozen=True):
    """A leftover of a deletion, and its selection."""

    row: Mapping[str, Any]
    outcome: str  # `WOULD_GO`, or the reason to keep it
    way: str
    version: ObjectVersion | None = None
    marker: ObjectVersion | None = None  # to purge after the version; None with other versions below it
    message: str = ""

    @property
    def size_bytes(self) -> int:
        """Its size in the store; 0 for a marker alone."""
        return 0 if self.way == VERSIONS and self.version is None else int(self.row["size"])


class Choosing:
    """Selects the leftovers of a run. `cutoff`: by the store's clock; younger leftovers stay."""

    def __init__(self, namespace: str, run_uri: str, way: str, cutoff: datetime) -> None:
        self._has_copies = way == QUARANTINE
        self._by_versions = way == VERSIONS
        self._copies = open_reader(quarantine_uri(run_uri))
        self._versions = open_versions(namespace)
        self._cutoff = cutoff

    def look(self, row: Mapping[str, Any]) -> list[Leftover]:
        """The leftovers of a deleted object, a row of `swept_rows`. Errors of the object become outcomes."""
        looks = {QUARANTINE: self._copy} if self._has_copies else {}
        if row["version_id"] or self._by_versions:
            looks[VERSIONS] = self._version
        found: list[Leftover] = []
        for way, look in looks.items():
            try:
                left = look(row)
            except DredgeError as error:
                left = Leftover(row, FAILED, way, message=str(error))
            found += [] if left is None else [left]
        return found

    def _copy(self, row: Mapping[str, Any]) -> Leftover | None:
        try:
            found = self._copies.stat(row["address"])
        except NotFoundError:
            return None
        if found.size != row["size"]:
            return Leftover(row, OTHER, QUARANTINE, message=f"the copy has {found.size} bytes")
        return Leftover(row, WOULD_GO if found.last_modified < self._cutoff else YOUNG, QUARANTINE)

    def _version(self, row: Mapping[str, Any]) -> Leftover | None:
        found = self._versions.versions(row["address"])
        at = next((i for i, item in enumerate(found) if _is_marker_of(item, row)), None)
        if at is None:
            return self._without_marker(row, found)
        if row["version_id"] is None and sum(_is_of(item, row) for item in found) > 1:
            return Leftover(row, OTHER, VERSIONS, message="several versions match the listed object")
        marker, below = found[at], found[at + 1 :]
        if not marker.is_marker:
            return Leftover(row, OTHER, VERSIONS, message="the ledger's version is no delete marker")
        if max(marker.last_modified, row["done_by"] or marker.last_modified) >= self._cutoff:
            return Leftover(row, YOUNG, VERSIONS)
        version = next((item for item in below if not item.is_marker), None)
        if version is None:
            # An earlier purge deleted the version, and was killed before the marker.
            only_markers = all(item.is_marker for item in found)
            return Leftover(row, WOULD_GO, VERSIONS, marker=marker) if only_markers else None
        if version.is_latest:
            return Leftover(row, CURRENT, VERSIONS)
        if version.size != row["size"] or row["etag"] not in (None, version.etag):
            return Leftover(
                row, OTHER, VERSIONS, message=f"version {version.version_id} is of another object"
            )
        alone = sum(not item.is_marker for item in found) == 1
        return Leftover(row, WOULD_GO, VERSIONS, version, marker if alone else None)

    def _without_marker(self, row: Mapping[str, Any], found: list[ObjectVersion]) -> Leftover | None:
        if any(item.is_latest and not item.is_marker for item in found):
            return Leftover(row, CURRENT, VERSIONS)
        words = "its delete marker was removed" if row["version_id"] else "its marker and tag are unknown"
        return Leftover(row, OTHER, VERSIONS, message=words) if found else None


def _is_of(version: ObjectVersion, row: Mapping[str, Any]) -> bool:
    return not version.is_marker and version.size == row["size"] and version.etag == row["etag"]


def _is_marker_of(version: ObjectVersion, row: Mapping[str, Any]) -> bool:
    """Whether a marker is from the deletion; without an id in the ledger it is the newest marker, and tags decide."""
    if row["version_id"] is None:
        return version.is_marker and version.is_latest and row["etag"] is not None
    return version.version_id == str(row["version_id"])


def delete_leftovers(
    namespace: str, run_uri: str, chosen: Sequence[Leftover], may_send: MaySend
) -> list[Leftover]:
    """Delete the leftovers with outcome `WOULD_GO`, and return all of them with their outcomes. `chosen`: from
    `Choosing`."""
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
