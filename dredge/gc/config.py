"""What a user may ask of a collection, and every margin that safety rests on, in one place each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dredge.errors import ConfigError
from dredge.gc.retention.policy.model import RetentionPolicy

LINK_HOURS = 24.0
"""lakeFS lets an uploader link an address for as long after it handed it out, by the servers' clocks."""
MIN_AGE_HOURS = LINK_HOURS + 1
"""Younger objects may still come alive: the hour is for servers whose clocks differ (`dredge.gc.clocks`)."""
SLICE_OPEN_HOURS = 25.0
"""A slice is written to for an hour, and an address that was handed out in it may be linked for a day."""
SLICE_MARGIN_HOURS = 7 * 24 + 25.0
"""Long multipart uploads, and addresses handed out early and uploaded late."""
KEEP_DAYS_MIN = 7
"""Superseded files of the collector's own are kept for as long, for runs that began before they were superseded."""
CLEAN, OPTIMIZED, AUTO = "clean", "optimized", "auto"
MODES = (CLEAN, OPTIMIZED, AUTO)
_GONE = ("warn_on_foreign_overlaps",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """All margins that safety rests on.

    Attributes:
        clock_skew_seconds_max: largest difference between the store's clock and this machine's, and the
            lakeFS servers'.
        mark_age_hours_max: a mark older than this cannot be swept.
        lease_seconds: how long a lease lives without being renewed.
        heads_every_seconds: while deleting, how often branch heads are looked at.
        watch_silence_seconds_max: while deleting, how old the driver's last look may be before workers stop.
        gate_every_seconds: while deleting, how long a worker trusts its last look at the lease and the stop
            marker.
        recheck_rounds_max: how often a sweep may be stopped by unknown heads and go on after a new re-check.
        scan_rounds_max: how often staging is scanned while branches come and go, or while a scan cannot be proved
            complete.
        scan_deadline_seconds: bound on all rounds of one staging scan.
        staged_questions_max: questions asked of branches to make good what one scan may have lost.
        prepare_deadline_seconds: bound on one computation of active commits by the server.
        identical_suspects_max: candidates as long as an object in some branch head that are looked into; the
            rest is held. Each takes 8 bytes in the driver and in every task of the sweep.
        identical_requests_max: requests made to the server to find out which of them a branch reads, where a page
            of 1,000 paths counts as ten; those that need more are held.
        canary_branches: branches that the canaries are taken from.
        canary_objects: canaries a branch.
        staged_rows_plenty: a run that finds nothing staged where the last one found this many is suspicious.
    """

    clock_skew_seconds_max: float = 300
    mark_age_hours_max: float = 12
    lease_seconds: float = 3600
    heads_every_seconds: float = 5
    watch_silence_seconds_max: float = 60
    gate_every_seconds: float = 3
    recheck_rounds_max: int = 10
    scan_rounds_max: int = 5
    scan_deadline_seconds: float = 4 * 3600
    staged_questions_max: int = 20_000
    prepare_deadline_seconds: float = 1200
    identical_suspects_max: int = 5_000_000
    identical_requests_max: int = 20_000
    canary_branches: int = 32
    canary_objects: int = 20
    staged_rows_plenty: int = 100

    def __post_init__(self) -> None:
        _at_least(self, 1, "lease_seconds", "recheck_rounds_max", "scan_rounds_max", "staged_rows_plenty")
        _at_least(self, 0, *(item.name for item in dataclasses.fields(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Sizes that only speed and memory depend on.

    Attributes:
        tasks_per_core: tasks a step makes for each task that can run at once.
        listing_rows_max: rows after which one listing stops and its remainder is split by key range.
        listing_rounds_max: rounds of such splitting; what is left then is listed whole.
        part_rows: rows of a listing part.
        candidate_rows: rows of a candidates part, which is also what one sweep task takes at a time.
        shard_values: live hashes in one shard (8 bytes each in every worker).
        delete_keys: keys handed to the deleter at once; one ledger part is written for each such group.
        threads: requests in flight in one task.
        index_parts_max: parts of the committed index that a run reads; more small ones are united at its end.
        counted_layers_max: optimized runs after which one of them counts the live set anew from the index.
        explain_ranges_max: ranges of expired commits read only to tell expired objects from never committed
            ones.
    """

    tasks_per_core: int = 1
    listing_rows_max: int = 200_000
    listing_rounds_max: int = 6
    part_rows: int = 250_000
    candidate_rows: int = 100_000
    shard_values: int = 32 << 20
    delete_keys: int = 8_000
    threads: int = 8
    index_parts_max: int = 64
    counted_layers_max: int = 24
    explain_ranges_max: int = 256

    def __post_init__(self) -> None:
        _at_least(self, 0, "explain_ranges_max")
        _at_least(self, 1, *({item.name for item in dataclasses.fields(self)} - {"explain_ranges_max"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GCConfig:
    """What a user asks for.

    Attributes:
        repository: name in lakeFS.
        mode: "clean" reads everything; "optimized" reads what changed since the last complete run, and is a
            clean run where there is no good state; "auto" is optimized, and clean at intervals.
        window_begin: only slices opened from then on are listed (ISO time with offset); None has no bound.
        window_end: only slices opened before then are listed.
        slice_margin_hours: slices are listed again until they are as old as this.
        clean_every_days: after as many days an automatic run is a clean one.
        keep_runs_days: folders of runs that are older are removed at the end of a complete run, with other
            files of the collector's own that nothing needs any more; None keeps everything.
        dry_run: plan and report, delete nothing.
        min_age_hours: objects younger than this are never candidates; at least 25.
        unsafe_min_age_seconds: replaces min_age_hours and may be shorter; for tests and demos on repositories
            that nobody else writes to.
        max_delete_objects: more candidates than this stop the run; None is no limit.
        max_delete_bytes: more bytes than this stop the run.
        max_delete_percent: a larger share of the listed objects than this stops the run.
        run_root: URI of the folder for run folders; None is the place inside the namespace that lakeFS's own
            collector uses.
        keep_tags: commits that a tag names stay active.
        policy: what else stays, beyond lakeFS's own rules; None is nothing.
        read_kv: lakeFS's staging records are read directly, besides asking the server. Where the store is,
            and who may enter, says the environment (`dredge.gc.mark_uncommitted.kv_records`).
        safety: margins.
        tuning: sizes.
    """

    repository: str
    mode: str = CLEAN
    window_begin: str | None = None
    window_end: str | None = None
    slice_margin_hours: float = SLICE_MARGIN_HOURS
    clean_every_days: float = 30
    keep_runs_days: float | None = 90
    dry_run: bool = True
    min_age_hours: float = MIN_AGE_HOURS
    unsafe_min_age_seconds: float | None = None
    max_delete_objects: int | None = None
    max_delete_bytes: int | None = None
    max_delete_percent: float | None = None
    run_root: str | None = None
    keep_tags: bool = True
    policy: RetentionPolicy | None = None
    read_kv: bool = False
    safety: Safety = field(default_factory=Safety)
    tuning: Tuning = field(default_factory=Tuning)

    def __post_init__(self) -> None:
        if not self.repository:
            raise ConfigError("repository is empty; name the lakeFS repository to collect")
        if self.mode not in MODES:
            raise ConfigError(f"mode {self.mode!r} is not known; known are {', '.join(MODES)}")
        self._check_window()
        if self.unsafe_min_age_seconds is None:
            self._check_age()
        elif self.unsafe_min_age_seconds < 0:
            raise ConfigError("unsafe_min_age_seconds must not be negative")
        for name in ("max_delete_objects", "max_delete_bytes", "max_delete_percent"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} must not be negative; leave it empty for no limit")
        if self.max_delete_percent is not None and self.max_delete_percent > 100:
            raise ConfigError("max_delete_percent is a share of all listed objects, at most 100")

    def _check_age(self) -> None:
        if self.min_age_hours < MIN_AGE_HOURS:
            raise ConfigError(
                f"min_age_hours is {self.min_age_hours:g}; it must be at least {MIN_AGE_HOURS:g} h: lakeFS"
                f" lets uploads be linked for {LINK_HOURS:g} h, and its servers' clocks may differ. A shorter"
                " age can delete live objects. On a repository that nobody writes to, for a test, pass"
                " unsafe_min_age_seconds instead."
            )
        # A server may be off by twice as much unnoticed, and another one as much the other way.
        if 4 * self.safety.clock_skew_seconds_max > (self.min_age_hours - LINK_HOURS) * 3600:
            raise ConfigError(
                f"clock_skew_seconds_max is {self.safety.clock_skew_seconds_max:g}; it may be at most a"
                f" quarter of what min_age_hours ({self.min_age_hours:g}) has above {LINK_HOURS:g} h"
            )

    def _check_window(self) -> None:
        begin, end = self.window
        if begin is not None and end is not None and begin >= end:
            raise ConfigError(f"the window from {begin} to {end} is empty")
        least = self.min_age_seconds / 3600 + SLICE_OPEN_HOURS
        if self.slice_margin_hours < least:
            raise ConfigError(
                f"slice_margin_hours is {self.slice_margin_hours:g}; slices must be listed until they are"
                f" {least:g} h old: the minimum age, and the time in which a slice is written to and its"
                " addresses may be linked"
            )
        if self.clean_every_days < 0:
            raise ConfigError("clean_every_days must not be negative")
        if self.keep_runs_days is not None and self.keep_runs_days < KEEP_DAYS_MIN:
            raise ConfigError(
                f"keep_runs_days is {self.keep_runs_days:g}; it must be at least {KEEP_DAYS_MIN}, as other runs"
                " may still read these folders. Leave it empty to keep them for ever"
            )

    @property
    def window(self) -> tuple[datetime | None, datetime | None]:
        """Begin and end of the window."""
        return _instant("window_begin", self.window_begin), _instant("window_end", self.window_end)

    @property
    def min_age_seconds(self) -> float:
        """The minimum age in force."""
        return (
            self.min_age_hours * 3600 if self.unsafe_min_age_seconds is None else self.unsafe_min_age_seconds
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without secrets."""
        policy = self.policy.to_json() if self.policy is not None else None
        return dataclasses.asdict(self) | {"policy": policy}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GCConfig:
        """From a JSON object, such as `to_json` made or a DAG's params.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        plain: dict[str, Any] = dict(value)
        plain["safety"] = _from(Safety, plain.get("safety") or {}, "safety.")
        plain["tuning"] = _from(Tuning, plain.get("tuning") or {}, "tuning.")
        if isinstance(plain.get("policy"), Mapping):
            plain["policy"] = RetentionPolicy.from_json(plain["policy"])
        return _from(cls, plain, "")

    @classmethod
    def recorded(cls, value: Mapping[str, Any]) -> GCConfig:
        """From the plan of a run that an earlier version made: to be told of, not to be carried out.

        Settings that are gone are left out. A minimum age that was allowed then, and is too short now, is told as
        an unsafe one.
        """
        plain = {name: found for name, found in value.items() if name not in _GONE}
        if plain.get("unsafe_min_age_seconds") is None and plain["min_age_hours"] < MIN_AGE_HOURS:
            plain["unsafe_min_age_seconds"] = plain["min_age_hours"] * 3600
        return cls.from_json(plain)


def _instant(name: str, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise ConfigError(f"{name} is {value!r}, which is no ISO time") from None
    if found.tzinfo is None:
        raise ConfigError(f"{name} is {value!r}, which has no offset from UTC")
    return found


def _at_least(settings: Safety | Tuning, least: float, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < least:
            raise ConfigError(f"{name} is {getattr(settings, name)}; it must be at least {least:g}")


def _from[T](kind: type[T], value: Mapping[str, Any], where: str) -> T:
    known = {item.name for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(value) - known)
    if unknown:
        raise ConfigError(f"unknown setting {where}{unknown[0]}; known are {', '.join(sorted(known))}")
    try:
        return kind(**value)
    except TypeError as error:
        raise ConfigError(f"settings do not fit: {error}") from None
