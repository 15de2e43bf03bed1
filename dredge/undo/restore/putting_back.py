"""Puts one object back under its key, where nothing is there.

    there?                     as it was → there          other → taken, left alone
    deleted by a version       markers above the version that the run deleted are taken away
    deleted after a copy       copied back, under the condition that the key is free

Taking a marker away writes nothing, so it can replace nothing: what somebody put under the key meanwhile stays the
current version. A copy is made under a condition where the store has one, and after a look where it has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError
from dredge.storage import (
    ObjectInfo,
    ObjectVersion,
    open_copier,
    open_marker_remover,
    open_reader,
    open_versions,
)
from dredge.storage.undo import BringsBackCopies
from dredge.undo.restore.output import FAILED, GONE, REFUSED, RESTORED, TAKEN, THERE
from dredge.undo.ways import QUARANTINE, VERSIONS, quarantine_uri

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
