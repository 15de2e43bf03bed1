"""The settings of both collectors, as fields of each one's configuration, so that they share one text."""

from datetime import datetime, timedelta
from typing import Any

from dredge.runs.versions import AUTO, CLEAN, KEEP_DAYS_MIN, OPTIMIZED
from dredge.settings import DAYS_MAX, HOURS_MAX, SECONDS_MAX, setting
from dredge.undo import ways

NEVER, OVER_LIMITS, ALWAYS = "never", "over_limits", "always"
# A mark older than this cannot be swept, so the wait for an answer ends then as well.
MARK_AGE_HOURS = 12.0
# Hours. With undo, daily runs confirm each other; without, an older or another database must be noticed
# first.
GRACE_HOURS, GRACE_HOURS_FINAL = 20.0, 72.0


def mode_setting(clean: str, optimized: str) -> Any:
    """The field for the mode; what a clean and what an optimized run reads."""
    return setting(
        "Mode",
        f"`clean` {clean}. `optimized` reads {optimized} since the last complete run that was no dry run. `auto` is"
        " optimized, with a clean run at intervals. Without an earlier complete run, every run is clean.",
        default=AUTO,
        choices=(AUTO, OPTIMIZED, CLEAN),
    )


def clean_every_setting(unseen: str) -> Any:
    """The field for the interval of clean runs; `unseen` is garbage that only these find."""
    return setting(
        "Days between clean runs",
        "An `auto` run is clean when the last clean run is this long ago. A clean run finds garbage that optimized runs"
        f" cannot see{unseen}.",
        default=30.0,
        minimum=0,
        maximum=DAYS_MAX,
    )


def keep_runs_setting(text: str) -> Any:
    """The field for the age of run folders."""
    return setting(
        "Days that run folders are kept",
        f"Older run folders are removed at the end of a complete run, {text}",
        default=90.0,
        minimum=KEEP_DAYS_MIN,
        maximum=DAYS_MAX,
        because="other runs may still read these folders",
    )


def inventory_setting(listed: str) -> Any:
    """Make the setting for an inventory. `listed`: the objects that clean runs list without one."""
    return setting(
        "Inventory instead of a listing",
        "URI of a `manifest.json` of S3 Inventory, of the folder with those of all dates (the newest is used), or of"
        " parquet, ORC or CSV files with `key`, `size`, `last_modified`. Clean runs read it instead of listing"
        f" {listed}; younger objects wait for the next inventory. Empty: the store is listed.",
        default=None,
    )


def undo_setting(command: str) -> Any:
    """The field for the way to restore deletions."""
    return setting(
        "Undo",
        f"How deletions can be restored (`{command} restore`). `versions`: from the versions of the bucket."
        " `quarantine`: each object is copied below the run's folder, and the copy is checked, before the object is"
        " deleted; that takes three more requests for each. `auto`: versions where the bucket keeps them, otherwise"
        " off.",
        default=AUTO,
        choices=(AUTO, ways.OFF, ways.VERSIONS, ways.QUARANTINE),
    )


def approval_setting() -> Any:
    """The field for the rule of approvals."""
    return setting(
        "Approval by a person",
        "`over_limits`: a run beyond its limits waits for a person's approval. `always`: every run with objects to"
        " delete waits for an approval. `never`: a run beyond its limits fails. Dry runs need no approval.",
        default=OVER_LIMITS,
        choices=(OVER_LIMITS, ALWAYS, NEVER),
    )


def approval_hours_setting() -> Any:
    """The field for the waiting time, in hours."""
    return setting(
        "Hours to wait for an approval",
        "Without an answer in this time the run is rejected. The run must be swept within"
        f" {MARK_AGE_HOURS:g} hours of its plan, so the wait ends then at the latest.",
        default=MARK_AGE_HOURS,
        above=0,
        maximum=MARK_AGE_HOURS,
        because="a mark can be swept for the same time after its plan",
    )


def approvers_setting() -> Any:
    """The field for the approvers; `ids_of` reads it."""
    return setting(
        "Approvers",
        "Ids of the Airflow users with the right to answer, separated by commas; Airflow asks only them."
        " Empty: all users with the right to act on the DAG's required actions.",
        default=None,
    )


def ids_of(text: str | None) -> tuple[str, ...]:
    """Read the ids of approvers, separated by commas; () and None are everybody."""
    return tuple(name for item in (text or "").split(",") if (name := item.strip()))


def grace_hours_setting(more: str = "") -> Any:
    """Return the setting `grace_hours`; `more` is a sentence about this collector."""
    return setting(
        "Grace in hours",
        "A run deletes only objects that an earlier run found and that have waited for this long since. At least 20."
        f" Empty: 20 where deletions can be restored, 72 otherwise.{more}",
        default=None,
        minimum=GRACE_HOURS,
        maximum=HOURS_MAX,
        because="an incomplete mark, such as one of a restored database, is detected within a day. For tests, on a"
        " repository without writers, there is unsafe_grace_seconds",
    )


def unsafe_grace_setting() -> Any:
    """Return the setting `unsafe_grace_seconds`."""
    return setting(
        "Unsafe grace in seconds",
        "Replaces the grace and **skips the wait for a second run**. 0: a run deletes its own finds. For"
        " tests, demos, and maintenance windows without writers. Empty: not used.",
        default=None,
        minimum=0,
        maximum=SECONDS_MAX,
    )


def choose_grace(
    hours: float | None, unsafe_seconds: float | None, *, can_undo: bool, least_hours: float = 0
) -> timedelta:
    """Return how long garbage waits before another run may delete it. `unsafe_seconds`: replaces all others; None if
    not used."""
    if unsafe_seconds is not None:
        return timedelta(seconds=unsafe_seconds)
    default = GRACE_HOURS if can_undo else GRACE_HOURS_FINAL
    return timedelta(hours=max(default if hours is None else hours, least_hours))


class CollectionSettings:
    """Base of the settings of both collectors: values in force, where one setting replaces another."""

    __slots__ = ()
    min_age_hours: float
    unsafe_min_age_seconds: float | None
    unsafe_grace_seconds: float | None
    approvers: str | None

    @property
    def replaced(self) -> list[str]:
        """Names of the settings that an unsafe one replaces; their bounds do not count."""
        by = {"min_age_hours": self.unsafe_min_age_seconds, "grace_hours": self.unsafe_grace_seconds}
        return [name for name, value in by.items() if value is not None]

    @property
    def min_age_seconds(self) -> float:
        """The minimum age in force."""
        return (
            self.min_age_hours * 3600 if self.unsafe_min_age_seconds is None else self.unsafe_min_age_seconds
        )

    def cutoff(self, now: datetime, inventory_at: datetime | None) -> datetime:
        """The cutoff of a run; objects newer than its inventory wait for the next one."""
        latest = now - timedelta(seconds=self.min_age_seconds)
        return latest if inventory_at is None else min(latest, inventory_at)

    @property
    def waits(self) -> bool:
        """Whether garbage waits for another run."""
        return self.unsafe_grace_seconds != 0

    @property
    def approver_ids(self) -> tuple[str, ...]:
        """Ids of the approvers; () is everybody."""
        return ids_of(self.approvers)
