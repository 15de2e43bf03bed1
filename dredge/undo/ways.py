"""Which way a run's deletions can be taken back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dredge.errors import ConfigError, NotFoundError
from dredge.runs.words import size_text
from dredge.storage import StorageOptions, VersionReader, open_copier, open_reader, open_versions
from dredge.storage.undo import ExpiresOldVersions, Expiry, KeepsDeletedBytes

OFF, VERSIONS, QUARANTINE = "off", "versions", "quarantine"
AUTO = "auto"
"""Versions where the bucket keeps them, else off."""
FIRST_OBJECTS_MAX = 1_000
"""Where nothing can be taken back, the first run that deletes asks a person before it deletes more."""
QUARANTINE_FOLDER = "quarantine"
"""Below the folder of a run."""
WORDS = {
    OFF: "what is deleted is gone for good",
    VERSIONS: "the bucket keeps what is deleted as an older version",
    QUARANTINE: "what is deleted is copied below the run's folder first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoWay:
    """How a run's deletions can be taken back.

    Attributes:
        way: "off", "versions" or "quarantine"; never "auto", which the user may ask for.
        why: half a sentence.
        expire_days: days after which a lifecycle rule of the bucket removes old versions; None when none does, or
            nobody knows.
    """

    way: str = OFF
    why: str = ""
    expire_days: int | None = None

    def until(self, deleted_at: datetime, purge_days: float | None) -> datetime | None:
        """Until when a deletion can be taken back for certain; None where only a purge by hand ends that, or nothing
        can be taken back.

        Args:
            deleted_at: when it was made.
            purge_days: days after which runs purge; None where they do not.
        """
        days = [item for item in (purge_days, self.expire_days) if item is not None]
        return deleted_at + timedelta(days=min(days)) if days and self.way != OFF else None


def quarantine_uri(run_uri: str) -> str:
    """URI of the folder with the copies of what a run deleted; below it keys are those of the namespace."""
    return f"{run_uri.rstrip('/')}/{QUARANTINE_FOLDER}"


def choose_way(asked: str, namespace: str, run_uri: str, options: StorageOptions | None = None) -> UndoWay:
    """Choose the way of a run.

    Args:
        asked: "auto", "off", "versions" or "quarantine".
        namespace: URI of what is collected.
        run_uri: URI of the run folder.
        options: None reads the environment.

    Raises:
        ConfigError: the store cannot do what was asked for.
    """
    versions = open_versions(namespace, options)
    chosen = _choose(asked, namespace, run_uri, versions, options)
    if chosen.way == VERSIONS and isinstance(versions, ExpiresOldVersions):
        chosen = _with_expiry(chosen, versions.expiry("data/"))
    kept = versions.kept_seconds() if isinstance(versions, KeepsDeletedBytes) else 0
    return replace(chosen, why=f"{chosen.why}; {_kept_words(kept)}") if kept else chosen


def _with_expiry(chosen: UndoWay, expiry: Expiry) -> UndoWay:
    """Add the time after which the bucket itself removes what was deleted."""
    if not expiry.known:
        return replace(
            chosen,
            why=f"{chosen.why}; the credentials may not read the bucket's lifecycle rules"
            " (s3:GetLifecycleConfiguration), so a rule may remove old versions earlier",
        )
    if expiry.days is None:
        return chosen
    why = f"{chosen.why}; a lifecycle rule of the bucket removes old versions after {expiry.days} days"
    return replace(chosen, why=why, expire_days=expiry.days)


def _kept_words(seconds: int) -> str:
    """That deleting frees nothing yet."""
    return (
        f"by the bucket's soft delete policy the bytes of what is deleted stay, and are paid for, {seconds / 86400:g}"
        " days more"
    )


def _choose(
    asked: str, namespace: str, run_uri: str, versions: VersionReader, options: StorageOptions | None
) -> UndoWay:
    if asked == OFF:
        return UndoWay(way=OFF, why="asked for")
    if asked == QUARANTINE:
        open_copier(namespace, quarantine_uri(run_uri), options)
        return UndoWay(way=QUARANTINE, why="asked for")
    found = versions.versioning(run_uri)
    if found == "enabled":
        return UndoWay(way=VERSIONS, why="asked for" if asked == VERSIONS else "the bucket keeps versions")
    problem = {
        "off": "the store keeps no versions",
        "suspended": "the versioning of the bucket is suspended",
        "unknown": "the credentials may not ask whether the bucket keeps versions (s3:GetBucketVersioning,"
        " storage.buckets.get; on Azure the run's folder must be in the same account, and the right to write there)",
    }[found]
    if asked == AUTO:
        return UndoWay(way=OFF, why=problem)
    raise ConfigError(
        f"undo is {asked!r}, but {problem}: {namespace}. Nothing was deleted. Turn versioning on, or set undo to"
        " quarantine."
    )


def way_back(
    namespace: str,
    run_uri: str,
    address: str,
    marker_id: str,
    options: StorageOptions | None = None,
    by_versions: bool = False,
) -> str:
    """Tell by which way an object that a run deleted can be brought back; "" by none.

    Args:
        namespace: URI of what was collected.
        run_uri: URI of the folder of the run that deleted.
        address: of the object.
        marker_id: of the delete marker that the ledger names; "" for none.
        options: None reads the environment.
        by_versions: whether the run counted on versions, so that there is one also where no marker is known.
    """
    try:
        open_reader(quarantine_uri(run_uri), options).stat(address)
    except NotFoundError:
        if not marker_id and not by_versions:
            return ""
        found = open_versions(namespace, options).versions(address)
        return VERSIONS if any(not version.is_marker for version in found) else ""
    return QUARANTINE


_REQUESTS_OF_COPY = 3
"""A look at the object, the copy, a look at the copy; objects above 5 GiB take one more for each GiB."""
_PART_BYTES = 1 << 30
_LIMIT_BYTES = 5 << 30
COPIES_PER_SECOND = 150.0
"""Of one task, with 16 copies under way and about a tenth of a second for each object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoCost:
    """What a way costs.

    Attributes:
        way: "off", "versions" or "quarantine".
        requests: beyond those that delete.
        size_bytes: that stay in the store until they are purged.
        seconds: beyond those of deleting, in one task.
    """

    way: str
    requests: int
    size_bytes: int
    seconds: float

    @property
    def text(self) -> str:
        """In words: "6 requests and about 1 s for copies; 1.2 GiB stay …"."""
        if self.way == QUARANTINE:
            return (
                f"{self.requests:,} requests and about {self.seconds:,.0f} s for copies;"
                f" {size_text(self.size_bytes)} stay in the store until they are purged"
            )
        if self.way == VERSIONS:
            return (
                f"no further requests; {size_text(self.size_bytes)} stay in the store until they are purged"
            )
        return "nothing"


def cost_of_undo(way: str, objects: int, size_bytes: int) -> UndoCost:
    """Tell what it costs to be able to take deletions back.

    Args:
        way: "off", "versions" or "quarantine".
        objects: that are to be deleted.
        size_bytes: their sizes together.
    """
    if way == QUARANTINE:
        # The sizes of single objects are not known here: at most so many parts can there be.
        parts = size_bytes // _PART_BYTES if size_bytes > _LIMIT_BYTES else 0
        requests = _REQUESTS_OF_COPY * objects + parts
        return UndoCost(
            way=way, requests=requests, size_bytes=size_bytes, seconds=objects / COPIES_PER_SECOND
        )
    return UndoCost(way=way, requests=0, size_bytes=size_bytes if way == VERSIONS else 0, seconds=0.0)
