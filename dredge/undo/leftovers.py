"""What a purge leaves: what became of each copy and version that a run's deletion had left.

What of one run's leftovers may go for good.

Only what the run's own ledger names:

    quarantine   the copy under a key that the ledger calls deleted, as long as the object was, older than the cutoff
    versions     the version right below the delete marker that the ledger names, not the current one, with the tag that
                 the run listed, its deletion older than the cutoff; then the marker, when nothing is left below it.
                 Where the ledger knows no marker (the answer was lost, or the store tells none), the only version that
                 has the size and tag that the run listed, below a marker that nothing newer lies under

Whatever somebody pinned stays, and so does everything that is not exactly as described.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dredge.errors import DredgeError, NotFoundError
from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectVersion, open_reader, open_versions
from dredge.undo.ways import QUARANTINE, VERSIONS, quarantine_uri

PURGED, WOULD_GO, FAILED, UNSENT = "purged", "would_go", "failed", "not_sent"
PINNED, LIVE, YOUNG, CURRENT, OTHER = "pinned", "live", "young", "current", "other"
OUTCOMES = {
    PURGED: "are gone for good",
    WOULD_GO: "would go",
    PINNED: "stay: they were brought back, and are pinned",
    LIVE: "stay: something live names them, or may",
    YOUNG: "stay: they are not old enough",
    CURRENT: "stay: what the run deleted is the current version again",
    OTHER: "stay: they are not what the run listed",
    FAILED: "could not be deleted",
    UNSENT: "were left to a later purge",
}
"""What became of copies and versions, in words that follow a number."""


class PurgeOutput(StepOutput):
    """What became of each."""

    STEP = "purge"

    @property
    def ledger(self) -> list[PartInfo]:
        """Rows of run, address, size, way, version id, outcome and message."""
        return self.parts("")


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a deletion left, and whether it may go.

    Attributes:
        row: of the run's ledger.
        outcome: `WOULD_GO`, or why it stays.
        way: "versions" or "quarantine".
        version: that goes.
        marker: that goes after it; None when something else is below it, too.
        message: the store's words.
    """

    row: Mapping[str, Any]
    outcome: str
    way: str
    version: ObjectVersion | None = None
    marker: ObjectVersion | None = None
    message: str = ""

    @property
    def size_bytes(self) -> int:
        """What it takes in the store; a marker alone takes nothing."""
        return 0 if self.way == VERSIONS and self.version is None else int(self.row["size"])


class Choosing:
    """Looks at what one run's deletions left.

    Args:
        namespace: URI of what was collected.
        run_uri: URI of the folder of the run that deleted.
        way: that its plan took.
        cutoff: by the store's clock; only what is older goes.
    """

    def __init__(self, namespace: str, run_uri: str, way: str, cutoff: datetime) -> None:
        self._has_copies = way == QUARANTINE
        self._by_versions = way == VERSIONS
        self._copies = open_reader(quarantine_uri(run_uri))
        self._versions = open_versions(namespace)
        self._cutoff = cutoff

    def look(self, row: Mapping[str, Any]) -> list[Leftover]:
        """Look at what the deletion of one object left. Never raises for the object.

        Args:
            row: of `swept_rows`.
        """
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
            return Leftover(row, OTHER, VERSIONS, message="several versions are like what the run listed")
        marker, below = found[at], found[at + 1 :]
        if not marker.is_marker:
            return Leftover(row, OTHER, VERSIONS, message="the ledger's version is no delete marker")
        if max(marker.last_modified, row["done_by"] or marker.last_modified) >= self._cutoff:
            return Leftover(row, YOUNG, VERSIONS)
        version = next((item for item in below if not item.is_marker), None)
        if version is None:
            # The version is gone, and the purge before died in between.
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
        """Somebody took the marker away, as a restore does."""
        if any(item.is_latest and not item.is_marker for item in found):
            return Leftover(row, CURRENT, VERSIONS)
        words = "its delete marker is gone" if row["version_id"] else "no marker and no tag of it is known"
        return Leftover(row, OTHER, VERSIONS, message=words) if found else None


def _is_of(version: ObjectVersion, row: Mapping[str, Any]) -> bool:
    """Whether a version is what the run listed."""
    return not version.is_marker and version.size == row["size"] and version.etag == row["etag"]


def _is_marker_of(version: ObjectVersion, row: Mapping[str, Any]) -> bool:
    """Whether this marker is the deletion's; of one that the ledger has no id of it is the newest, and tags decide."""
    if row["version_id"] is None:
        return version.is_marker and version.is_latest and row["etag"] is not None
    return version.version_id == str(row["version_id"])
