"""Settings of a collection, and all safety margins."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dredge.approve import settings as shared
from dredge.errors import ConfigError
from dredge.gc.retention import RetentionPolicy, load_policy
from dredge.runs import limits, versions
from dredge.settings import (
    DAYS_MAX,
    HOURS_MAX,
    SECONDS_MAX,
    check_finite,
    check_settings,
    read_settings,
    setting,
)
from dredge.storage import StorageOptions
from dredge.undo import ways
from dredge.undo.ways import PurgeConfig as AnyPurgeConfig
from dredge.undo.ways import RestoreConfig as AnyRestoreConfig

LINK_HOURS = 24.0
"""lakeFS accepts a link of an address for this long after it handed out the address, by the servers' clocks."""
MIN_AGE_HOURS = LINK_HOURS + 1
"""Younger objects may become live. The hour is for different clocks of servers (`dredge.gc.planning`)."""
SLICE_OPEN_HOURS = 25.0
"""lakeFS uses a slice for an hour, and accepts links of its addresses for a day."""
SLICE_MARGIN_HOURS = 7 * 24 + 25.0
"""For long multipart uploads, and late uploads to early addresses."""
KEEP_UNNAMED_DAYS = 30.0
KEEP_DAYS_MIN = versions.KEEP_DAYS_MIN
CLEAN, OPTIMIZED, AUTO = versions.CLEAN, versions.OPTIMIZED, versions.AUTO
BOTH = "both"
EVERY_OTHER = "*"
"""In `referring_repositories`: all other repositories of the server."""
_MAY_BE_NONE = ("explain_ranges_max", "report_names_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """All safety margins."""

    # largest difference of the store's clock to this machine's and the lakeFS servers'
    clock_skew_seconds_max: float = 300
    mark_age_hours_max: float = shared.MARK_AGE_HOURS  # an older mark cannot be swept
    lease_seconds: float = 3600  # life of a lease without a renewal
    heads_every_seconds: float = 5  # interval of the checks of branch heads while deleting
    watch_silence_seconds_max: float = 60  # workers stop after so long without a check by the driver
    gate_every_seconds: float = 3  # interval of a worker's checks of lease and stop marker
    round_seconds_max: float = 3600  # time of deletions before the next re-check
    scan_rounds_max: int = 5  # scans of staging while branches change or a scan is not proved complete
    scan_deadline_seconds: float = 4 * 3600  # time of all these scans
    staged_questions_max: int = 20_000  # questions to branches about rows possibly lost by a scan
    prepare_deadline_seconds: float = 1200  # time of one computation of active commits by the server
    # examined candidates with the size of an object in a branch head; others are held. Each takes 8 bytes in
    # the driver and in every task of the sweep.
    identical_suspects_max: int = 5_000_000
    # requests about them, a page of 1,000 paths counting as ten; others are held
    identical_requests_max: int = 20_000
    # entries of branch heads in memory of the driver and of each task, to find these objects' paths; the sizes with
    # the most are held
    identical_places_max: int = 1_000_000
    canary_branches: int = 32
    canary_objects: int = 20  # canaries of each branch, more of each of few branches
    staged_rows_plenty: int = 100  # empty staging is suspicious if the last run found so many rows
    # age of an accepted inventory. S3 makes them daily or weekly, within two days.
    inventory_days_max: float = 14

    def __post_init__(self) -> None:
        _at_least(self, 1, "lease_seconds", "scan_rounds_max", "staged_rows_plenty")
        _at_least(self, 0, *(item.name for item in dataclasses.fields(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Sizes with an effect on speed and memory only."""

    tasks_per_core: int = 1  # tasks of a step for each task running at once, unless they have too many rows
    task_rows: int = 16_000_000  # addresses of one task, with up to 60 bytes each in memory
    listing_rows_max: int = 200_000  # rows of one listing before its remainder is split by key range
    listing_rounds_max: int = 6  # rounds of such splits
    part_rows: int = 100_000  # rows of a listing part
    candidate_rows: int = 100_000  # rows of a candidates part, and of one task of the sweep at a time
    # live hashes in one shard (8 bytes each in every worker, 60 while it is made)
    shard_values: int = 16 << 20
    # extra hashes read by all tasks of subtract together with the whole live set; beyond it the listing is
    # cut into shards like the live set
    shared_live_values: int = 50_000_000
    delete_keys: int = 32_000  # keys for the deleter at once, and rows of a ledger part
    threads: int = 8  # requests of one task in flight, at first
    index_parts_max: int = 64  # parts of the committed index; more small ones are united at the end of a run
    counted_layers_max: int = 24  # optimized runs between two counts of the live set from the index
    # entries of active ranges up to which a clean run reports the costs of objects; larger repositories use
    # `dredge gc cost`. 0: never.
    report_names_max: int = 1_000_000
    # ranges of expired commits read to distinguish expired objects from uncommitted ones
    explain_ranges_max: int = 256

    def __post_init__(self) -> None:
        _at_least(self, 0, *_MAY_BE_NONE)
        _at_least(self, 1, *(item.name for item in dataclasses.fields(self) if item.name not in _MAY_BE_NONE))


@dataclass(frozen=True, slots=True, kw_only=True)
class GCConfig(shared.CollectionSettings):
    """Settings of a collection. A field made with `setting` is a Param of the DAG, a key of an operator's `config`, an
    option of `dredge gc run` and a row in the docs."""

    repository: str = setting("Repository", "Name of the repository in lakeFS.")
    mode: str = shared.mode_setting("reads everything", "the part that changed")
    dry_run: bool = setting("Dry run", "Find and report garbage, **delete nothing**.", default=True)
    min_age_hours: float = setting(
        "Minimum age in hours",
        "Younger objects are kept. At least 25: lakeFS accepts an upload up to 24 hours after it gave out"
        " the address, and the clocks of its servers may differ.",
        default=MIN_AGE_HOURS,
        minimum=MIN_AGE_HOURS,
        maximum=HOURS_MAX,
        because=f"lakeFS lets uploads be linked for {LINK_HOURS:g} h, and its servers' clocks may differ. A shorter age"
        " can delete live objects. In a test on a repository without writers pass unsafe_min_age_seconds"
        " instead",
    )
    unsafe_min_age_seconds: float | None = setting(
        "Unsafe minimum age in seconds",
        "Replaces the minimum age and **can delete uploads in progress**. For tests, on a repository without"
        " writers. Empty: not used.",
        default=None,
        minimum=0,
        maximum=SECONDS_MAX,
    )
    grace_hours: float | None = shared.grace_hours_setting()
    unsafe_grace_seconds: float | None = shared.unsafe_grace_setting()
    undo: str = shared.undo_setting("dredge gc")
    restore_reused: bool = setting(
        "Restore reused objects",
        "Every run compares deleted objects of earlier runs with live ones. Objects of an expired commit"
        " that is in use again (a branch or tag on it, a revert, a longer rule) are restored where `undo`"
        " allows it. Off: they are only reported. Other live objects are always restored, with an alarm.",
        default=True,
    )
    purge_days: float | None = setting(
        "Days until a purge",
        "The last step of a run permanently deletes copies and versions of objects that earlier runs deleted"
        " at least this many days ago, if the mark of the run shows that they are not live. Dry runs only"
        " count them. Empty: no purge.",
        default=None,
        minimum=1,
        maximum=DAYS_MAX,
        because="users need a day to notice a missing object",
    )
    clean_every_days: float = shared.clean_every_setting(
        ", such as uploads into slices older than the margin"
    )
    keep_runs_days: float | None = shared.keep_runs_setting(
        "unless later runs need them. A dry run lists them. Empty: run folders and superseded counts of live objects"
        " are kept."
    )
    keep_unnamed_days: float = setting(
        "Days that unreferenced metaranges are kept",
        "A metarange file without a known commit counts as an active commit for this long after it was"
        " written, and longer if no mark has completed since. Its commit may have been lost with lakeFS's"
        " database, or may be waiting in a hook.",
        default=KEEP_UNNAMED_DAYS,
        minimum=0,
        maximum=DAYS_MAX,
    )
    slice_margin_hours: float = setting(
        "Slice margin in hours",
        "Folders of uploads (slices) are listed again until they are this old, for slow and late uploads. At"
        " least 25 more than the minimum age.",
        default=SLICE_MARGIN_HOURS,
        minimum=SLICE_OPEN_HOURS,
        maximum=HOURS_MAX,
    )
    multipart_idle_hours: float = setting(
        "Hours that an upload in parts may pause",
        "On Google Cloud Storage lakeFS keeps the parts of an upload as objects. They are kept until the"
        " upload has not been written to for this long. 0: they are deleted after the minimum age.",
        default=168.0,
        minimum=0,
        maximum=HOURS_MAX,
    )
    max_delete_objects: int | None = limits.objects_limit()
    max_delete_bytes: int | None = limits.bytes_limit()
    max_delete_percent: float | None = limits.share_limit()
    approval: str = shared.approval_setting()
    approval_hours: float = shared.approval_hours_setting()
    approvers: str | None = shared.approvers_setting()
    referring_repositories: str | None = setting(
        "Repositories that refer to this one",
        "Names, separated by commas, or `*` for all others of the server. Objects of this repository's namespace that"
        " their branches or commits use (imports, links) stay. A repository that cannot be read stops the run. Empty:"
        " objects that only other repositories use are **not protected**.",
        default=None,
    )
    keep_tags: bool = setting(
        "Keep tagged commits",
        "Commits with a tag stay active. lakeFS itself lets them expire like all others.",
        default=True,
    )
    policy: RetentionPolicy | None = setting(
        "Retention policy",
        "Rules that keep more than lakeFS's own rules do: a YAML file by absolute path or URI, or its text;"
        " see docs/retention.md. Empty: none.",
        default=None,
        name="retention_policy",
        kind="string",
        multiline=True,
    )
    verify_sample_size: int | None = setting(
        "Deleted objects to verify",
        "After deleting, a run checks a sample of at most this many deleted objects in the store (one in"
        " ten, at least 200, of fewer than 10,000), and every object without a clear answer. If one in 300"
        " still existed, a sample of 1,000 would miss it once in 28 runs. Empty: all of them.",
        default=1000,
        minimum=0,
    )
    # the environment has the connection (`dredge.gc.mark_uncommitted.staging`)
    read_kv: bool = setting(
        "Read lakeFS's key-value store",
        "Staging and commits are read from its records, and no branch has to be asked about objects with the"
        " content of a candidate. The variable `DREDGE_KV_URL` has its URL.",
        default=False,
    )
    live_source: str = setting(
        "Source of staging and active commits",
        "`auto`: only lakeFS's key-value store, if a connection is given and the store is verified to be the"
        " server's own; the server then does no heavy work. In doubt, or without a store, the server."
        " `both`: both, united.",
        default=AUTO,
        choices=(AUTO, BOTH),
    )
    inventory: str | None = shared.inventory_setting("`data/`")
    run_root: str | None = setting(
        "Run root",
        "URI of the folder for run folders. Empty: a place inside the repository's namespace.",
        default=None,
    )
    # opening time of the first listed slice (ISO time with offset); None has no bound
    window_begin: str | None = None
    window_end: str | None = None  # listed slices were opened before it
    safety: Safety = field(default_factory=Safety)
    tuning: Tuning = field(default_factory=Tuning)

    def __post_init__(self) -> None:
        check_settings(self, without=self.replaced)
        self._check_window()
        _ = self.referring  # raises ConfigError

    def _check_window(self) -> None:
        begin, end = self.window
        if begin is not None and end is not None and begin >= end:
            raise ConfigError(f"window_begin ({begin}) must be before window_end ({end})")
        least = self.min_age_seconds / 3600 + SLICE_OPEN_HOURS
        if self.slice_margin_hours < least:
            raise ConfigError(
                f"slice_margin_hours is {self.slice_margin_hours:g}, and must be at least {least:g}: the minimum age,"
                f" and {SLICE_OPEN_HOURS:g} h in which lakeFS uses a slice and accepts links of its addresses"
            )

    @property
    def window(self) -> tuple[datetime | None, datetime | None]:
        """Begin and end of the window."""
        return _instant("window_begin", self.window_begin), _instant("window_end", self.window_end)

    @property
    def referring(self) -> frozenset[str]:
        """Names of other repositories that may refer to objects of this one; only `EVERY_OTHER` for all."""
        found = frozenset(shared.ids_of(self.referring_repositories))
        if EVERY_OTHER in found and len(found) > 1:
            raise ConfigError(
                f"referring_repositories is {self.referring_repositories!r}: `*` is all others and allows no other name"
            )
        return found

    def grace(self, undo: str, keeps_id: bool = True) -> timedelta:
        """Return the wait of garbage before another run deletes it; it is longer if the server keeps no id of the
        last mark."""
        least = 0 if keeps_id else shared.GRACE_HOURS_FINAL
        return shared.choose_grace(
            self.grace_hours, self.unsafe_grace_seconds, can_undo=undo != ways.OFF, least_hours=least
        )

    @classmethod
    def from_params(cls, params: Mapping[str, Any], options: StorageOptions | None = None) -> GCConfig:
        """Make the settings from Params of a DAG, an operator's `config`, or options of a command. `params`: by name of
        the setting, as values or rendered text; None and "" are no value. A `retention_policy` is read from its place.
        `options`: of the store with the policy; None reads the environment. Raises ConfigError: an unknown name, or an
        invalid value or policy."""
        values = read_settings(cls, params)
        if values.get("policy") is not None:
            values["policy"] = load_policy(values["policy"], options)
        return cls(**values)


def _instant(name: str, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise ConfigError(f"{name} is {value!r}, which is not an ISO 8601 time") from None
    if found.tzinfo is None:
        raise ConfigError(f"{name} is {value!r}, which has no offset from UTC")
    return found


def _at_least(settings: Safety | Tuning, least: float, *names: str) -> None:
    check_finite(settings)
    for name in names:
        if getattr(settings, name) < least:
            raise ConfigError(f"{name} is {getattr(settings, name)}; it must be at least {least:g}")


# Those of `dredge.gc.subtract`; a form must not load it.
REASONS = ("expired", "never_linked", "unreferenced")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreConfig(AnyRestoreConfig):
    """The settings of a restore of deletions of a lakeFS run."""

    repository: str = setting("Repository", "Its name in lakeFS.")
    prefix: str | None = setting(
        "Prefix", "Objects whose address begins like this, such as `data/gd3q`. Empty: any.", default=None
    )
    reason: str | None = setting(
        "Reason",
        "Objects that were deleted for this reason. Empty: any.",
        default=None,
        choices=REASONS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeConfig(AnyPurgeConfig):
    """The settings of a purge of a lakeFS repository."""

    repository: str = setting("Repository", "Its name in lakeFS.")
