"""Settings of the trash cleaner: Params, and its margins of time and limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from dredge.errors import ConfigError
from dredge.kv.rows import name_of
from dredge.settings import HOURS_MAX, SECONDS_MAX, Settings, check_settings, setting
from dredge.trash.findings import KINDS, TrashLimits

SAFE_GRACE = timedelta(hours=24)
UNNAMED = timedelta(days=30)
# Assumed difference between the clocks of servers.
INSTANCE_MARGIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashMargins:
    """Margins of time. The defaults are those of the measured rules; shorter margins lose data under load.

    Args:
        grace: wait of unreferenced bytes for another run. Tokens and their rows have no usable time, so only the wait
            separates an orphan from a reset that will reference its token later.
        id_age: minimum age of the time in the id of a partition or record. lakeFS writes the commit and branch of a new
            repository before its record, and does not check them again.
        expiry: age of imports, tasks and heartbeats since their last update. A running server removes them after 24
            hours.
        ownership_expiry: time since the expiry of a branch ownership hint.
        multipart_report: age of an open multipart upload in reports. It is never trash: only the object store knows
            whether the upload is open.
        unnamed: wait of a token that an earlier look saw referenced, and that has neither a reference nor a place in
            the drop queue now: its branch record may be lost with a part of the database.
        instance_margin: an action run belongs to an earlier life of a repository name if it began this long before the
            creation of the repository.
        clock_skew: maximum difference between this machine's clock and the store's.
        unsafe_short_grace: allow margins below 24 hours.
    """

    grace: timedelta = SAFE_GRACE
    id_age: timedelta = SAFE_GRACE
    expiry: timedelta = timedelta(hours=48)
    ownership_expiry: timedelta = SAFE_GRACE
    multipart_report: timedelta = timedelta(days=7)
    unnamed: timedelta = UNNAMED
    instance_margin: timedelta = INSTANCE_MARGIN
    clock_skew: timedelta = timedelta(minutes=5)
    unsafe_short_grace: bool = False

    def __post_init__(self) -> None:
        margins = (self.grace, self.id_age, self.expiry, self.ownership_expiry)
        if min(*margins, self.multipart_report, self.unnamed, self.instance_margin) < timedelta(0):
            raise ConfigError("a margin of time cannot be negative")
        if min(margins) < SAFE_GRACE and not self.unsafe_short_grace:
            raise ConfigError(
                "a grace below 24 hours removes data of operations in progress; on a store without writers, use"
                " unsafe_grace_seconds"
            )

    @property
    def ages(self) -> timedelta:
        """The sum of all ages in the rules. A wait with a smaller sum does not count for a larger sum."""
        return self.id_age + self.expiry + self.ownership_expiry + self.unnamed

    @classmethod
    def with_grace(cls, grace: timedelta, unsafe_short_grace: bool = False) -> TrashMargins:
        """The default margins with another grace; a shorter grace also shortens `id_age`."""
        found = replace(
            cls(), grace=grace, id_age=min(SAFE_GRACE, grace), unsafe_short_grace=unsafe_short_grace
        )
        return replace(found, unnamed=grace) if unsafe_short_grace else found


_GRACE_HOURS = SAFE_GRACE / timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashConfig(Settings):
    """Settings of a scan or a clean. Each field is a Param, a key of an operator's `config` and a row in the docs."""

    state_uri: str = setting(
        "State folder",
        "URI of a folder for the pending list, undo files and reports; the same one every time.",
    )
    dry_run: bool = setting("Dry run", "Find and report trash, **remove nothing**.", default=True)
    grace_hours: float = setting(
        "Grace in hours",
        "A run removes only rows that an earlier run found and that have waited for this long since, with"
        " the same bytes. At least 24.",
        default=_GRACE_HOURS,
        minimum=_GRACE_HOURS,
        maximum=HOURS_MAX,
        because="a shorter one removes data of operations in progress. For tests, on a store without"
        " writers, there is unsafe_grace_seconds",
    )
    unsafe_grace_seconds: float | None = setting(
        "Unsafe grace in seconds",
        "Replaces the grace and **can remove rows of operations in progress**. 0: a run removes its own"
        " finds. For tests, on a store without writers. Empty: not used.",
        default=None,
        minimum=0,
        maximum=SECONDS_MAX,
    )
    kinds: tuple[str, ...] = setting(
        "Kinds", "Only these kinds of trash. Empty: all.", default=(), kind="array", choices=tuple(KINDS)
    )
    max_partitions: int | None = setting(
        "Most partitions to remove",
        f"More than this, and nothing is removed. Empty: {TrashLimits().partitions:,}.",
        default=None,
        minimum=0,
    )
    max_rows: int | None = setting(
        "Most rows to remove",
        f"More than this, and nothing is removed. Empty: {TrashLimits().rows:,}.",
        default=None,
        minimum=0,
    )
    max_bytes: int | None = setting(
        "Most bytes to remove",
        f"More than this, and nothing is removed. Empty: {TrashLimits().size_bytes:,}.",
        default=None,
        minimum=0,
    )
    max_percent: float | None = setting(
        "Largest share of partitions to remove",
        f"A larger share of all partitions, and nothing is removed. Empty: {TrashLimits().partition_percent:g}.",
        default=None,
        minimum=0,
        maximum=100,
    )
    read_rate: float | None = setting(
        "Read rate", "DynamoDB: most read capacity units a second. Empty: no bound.", default=None, above=0
    )

    def __post_init__(self) -> None:
        check_settings(self, without=() if self.unsafe_grace_seconds is None else ("grace_hours",))

    @property
    def margins(self) -> TrashMargins:
        """The margins in force."""
        if self.unsafe_grace_seconds is not None:
            return TrashMargins.with_grace(
                timedelta(seconds=self.unsafe_grace_seconds), unsafe_short_grace=True
            )
        return TrashMargins.with_grace(timedelta(hours=self.grace_hours))

    @property
    def limits(self) -> TrashLimits:
        """The limits of a run."""
        asked = {
            "partitions": self.max_partitions,
            "rows": self.max_rows,
            "size_bytes": self.max_bytes,
            "partition_percent": self.max_percent,
        }
        found: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        return TrashLimits(**found)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashRestoreConfig(Settings):
    """Settings of a restore; like `TrashConfig`."""

    state_uri: str = setting("State folder", "URI of the cleaner's folder, which has the undo files.")
    run: str = setting("Run", "Id of the run of the cleaner that removed the rows.")
    partition: str | None = setting(
        "Partition",
        r"Only rows of this partition, written as in the report (`\xNN` for bytes that are not text). Empty: all.",
        default=None,
    )
    dry_run: bool = setting("Dry run", "Only count the rows, **restore nothing**.", default=True)

    @property
    def partitions(self) -> list[bytes] | None:
        """The requested partitions; None is all."""
        return None if self.partition is None else [name_of(self.partition)]
