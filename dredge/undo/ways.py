"""The undo way of a run, and its cost in requests, bytes and time."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from dredge.errors import ConfigError, NotFoundError
from dredge.runs.report import number_of, size_text
from dredge.settings import DAYS_MAX, Settings, check_settings, setting
from dredge.storage import StorageOptions, VersionReader, open_copier, open_reader, open_versions
from dredge.storage.undo import Expiry

OFF, VERSIONS, QUARANTINE = "off", "versions", "quarantine"
# Versions in a bucket with versions, else off.
AUTO = "auto"
# Below the folder of a run.
QUARANTINE_FOLDER = "quarantine"
# Of purges, below the folder with lease and pins.
PURGES_FOLDER = "purges"
WORDS = {
    OFF: "deletions are permanent",
    VERSIONS: "the bucket keeps deleted objects as older versions",
    QUARANTINE: "objects are copied below the run's folder before their deletion",
}


class UndoWay(Struct, frozen=True, kw_only=True):
    """The undo way of a run."""

    way: str = OFF  # "off", "versions" or "quarantine"; never the setting "auto"
    why: str = ""
    # days until a lifecycle rule of the bucket removes old versions; None without such a rule, or when
    # unknown
    expire_days: int | None = None

    def until(self, deleted_at: datetime, purge_days: float | None) -> datetime | None:
        """The guaranteed end of undo for a deletion; None without undo, or when only a manual purge ends it.
        `purge_days`: age of deletions purged by runs; None without such purges."""
        days = [item for item in (purge_days, self.expire_days) if item is not None]
        return deleted_at + timedelta(days=min(days)) if days and self.way != OFF else None


def quarantine_uri(run_uri: str) -> str:
    """URI of the folder with the copies of a run's deletions; keys below it equal those of the namespace."""
    return f"{run_uri.rstrip('/')}/{QUARANTINE_FOLDER}"


def choose_way(asked: str, namespace: str, run_uri: str, options: StorageOptions | None = None) -> UndoWay:
    """Choose the undo way of a run. `run_uri`: URI of the run folder."""
    versions = open_versions(namespace, options)
    chosen = _choose(asked, namespace, run_uri, versions, options)
    if chosen.way == VERSIONS and (expiry := versions.expiry("data/")) is not None:
        chosen = _with_expiry(chosen, expiry)
    kept = versions.kept_seconds()
    return replace(chosen, why=f"{chosen.why}; {_kept_words(kept)}") if kept else chosen


def _with_expiry(chosen: UndoWay, expiry: Expiry) -> UndoWay:
    if not expiry.known:
        return replace(
            chosen,
            why=f"{chosen.why}; the credentials may not read the bucket's lifecycle rules"
            " (s3:GetLifecycleConfiguration), so a rule may remove old versions earlier",
        )
    if expiry.days is None:
        return chosen
    why = f"{chosen.why}; a lifecycle rule of the bucket removes old versions after {number_of(expiry.days, 'day')}"
    return replace(chosen, why=why, expire_days=expiry.days)


def _kept_words(seconds: int) -> str:
    return (
        f"the bucket's soft delete policy keeps and charges deleted bytes for {seconds / 86400:g} days more"
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
        "unknown": "the credentials may not read the bucket's versioning (s3:GetBucketVersioning,"
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
    """The way to restore a deleted object; "" for none. `by_versions`: whether the undo way of the run was versions, so
    that a version exists even without a known marker."""
    try:
        open_reader(quarantine_uri(run_uri), options).stat(address)
    except NotFoundError:
        if not marker_id and not by_versions:
            return ""
        found = open_versions(namespace, options).versions(address)
        return VERSIONS if any(not version.is_marker for version in found) else ""
    return QUARANTINE


# A HEAD of the object, the copy, a HEAD of the copy; objects above 5 GiB need one more for each GiB.
_REQUESTS_OF_COPY = 3
_PART_BYTES = 1 << 30
_LIMIT_BYTES = 5 << 30
# Of one task, with 16 parallel copies and about a tenth of a second for each object.
COPIES_PER_SECOND = 150.0


class UndoCost(Struct, frozen=True, kw_only=True):
    """The cost of an undo way."""

    way: str
    requests: int
    size_bytes: int  # kept in the store until a purge
    seconds: float  # in addition to deleting, in one task

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
    """Estimate the cost of an undo way ("off", "versions" or "quarantine") for objects to delete."""
    if way == QUARANTINE:
        # The sizes of single objects are not known here: this is the largest possible number of parts.
        parts = size_bytes // _PART_BYTES if size_bytes > _LIMIT_BYTES else 0
        requests = _REQUESTS_OF_COPY * objects + parts
        return UndoCost(
            way=way, requests=requests, size_bytes=size_bytes, seconds=objects / COPIES_PER_SECOND
        )
    return UndoCost(way=way, requests=0, size_bytes=size_bytes if way == VERSIONS else 0, seconds=0.0)


KEEP_DAYS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreConfig(Settings):
    """The deletions to restore, and the end of their pin. Each collector adds the texts for its repositories, prefixes
    and reasons."""

    repository: str = setting("Repository", "Name or URI.")
    run: str = setting("Run", "Id of the deleting run, or the URI of its folder.")
    prefix: str | None = setting(
        "Prefix", "Restore objects below this address prefix. Empty: any.", default=None
    )
    address: str | None = setting(
        "Address", "Restore a single object, by its address. Empty: any.", default=None
    )
    reason: str | None = setting(
        "Reason",
        "Restore objects deleted for this reason. Empty: any.",
        default=None,
    )
    everything: bool = setting(
        "Everything",
        "Restore all deletions of the run. Required without a prefix, address or reason.",
        default=False,
        name="all",
    )
    keep_days: float = setting(
        "Days to keep",
        "For this long no run deletes the restored objects (their pin).",
        default=KEEP_DAYS,
        minimum=1,
        maximum=DAYS_MAX,
    )
    because: str | None = setting("Because", "Reason. Shown in reports.", default=None)

    def __post_init__(self) -> None:
        check_settings(self)
        named = [name for name in ("prefix", "address", "reason") if getattr(self, name) is not None]
        if self.everything and named:
            raise ConfigError(f"all and {' and '.join(named)} exclude each other. Nothing was restored.")
        if not self.everything and not named:
            raise ConfigError(
                "no selection was given: add an address, a prefix, a reason, or all. Nothing was restored."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeConfig(Settings):
    """The copies and old versions to purge. Each collector adds the text for its repositories."""

    repository: str = setting("Repository", "Name or URI.")
    older_than_days: float = setting(
        "Older than days",
        "Purge copies and old versions of deletions older than this, by the store's clock.",
        default=30.0,
        minimum=1,
        maximum=DAYS_MAX,
        because="users need a day to notice a missing object",
    )
    dry_run: bool = setting("Dry run", "List copies and versions to purge, **delete nothing**.", default=True)
    run: str | None = setting(
        "Run", "Purge only after this run: its id, or the URI of its folder. Empty: every run.", default=None
    )
    run_root: str | None = setting(
        "Run root",
        "URI of the folder with run folders, for runs with a run root. Empty: the place inside the repository's"
        " namespace.",
        default=None,
    )
