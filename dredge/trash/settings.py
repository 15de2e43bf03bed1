"""Every margin of time and every limit of the trash cleaner, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from dredge.errors import ConfigError
from dredge.kv.rows import name_of
from dredge.settings import HOURS_MAX, SECONDS_MAX, check_settings, read_settings, setting
from dredge.trash.findings import KINDS, TrashLimits

SAFE_GRACE = timedelta(hours=24)
UNNAMED = timedelta(days=30)
INSTANCE_MARGIN = timedelta(seconds=60)
"""Servers' clocks differ by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashMargins:
    """Margins. The defaults are those of the measured rules; shorter ones lose data under load.

    Args:
        grace: how long the same unused bytes wait for another run. Neither a staging
            token nor its rows carry a usable time, so nothing else tells an orphan from a reset that has
            not named its token yet.
        id_age: how old the time in a partition's or record's own id must be. A repository being created
            writes its commit and branch before its record, and never looks back.
        expiry: after which imports, tasks and heartbeats without an update are trash; the server removes
            them at 24 hours where it lives that long.
        ownership_expiry: how long ago a branch ownership hint must have expired.
        multipart_report: age at which an open multipart upload is reported. It is never trash: only the
            object store knows whether the upload is open.
        unnamed: how long a token waits that an earlier look saw named and that nothing names or queues now: the record
            of its branch may have been lost with a part of the database.
        instance_margin: how long before its repository's creation an action run must have begun to
            belong to an earlier life of the name.
        clock_skew: largest difference between this machine's clock and the store's.
        unsafe_short_grace: accept margins below 24 hours.
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
                "a grace below 24 hours removes data of operations that are still under way: only a store"
                " that nobody writes to can be cleaned so, and only with the option that calls it unsafe"
            )

    @property
    def ages(self) -> timedelta:
        """Every age by which something is found, together: with any of them shorter, a wait that a run begins is none
        for a run that asks for more."""
        return self.id_age + self.expiry + self.ownership_expiry + self.unnamed

    @classmethod
    def with_grace(cls, grace: timedelta, unsafe_short_grace: bool = False) -> TrashMargins:
        """The usual margins with another grace; a shorter one shortens the age of ids too."""
        found = replace(
            cls(), grace=grace, id_age=min(SAFE_GRACE, grace), unsafe_short_grace=unsafe_short_grace
        )
        return replace(found, unnamed=grace) if unsafe_short_grace else found


_GRACE_HOURS = SAFE_GRACE / timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashConfig:
    """What a user asks for. Each field is a Param of the DAG, a key of an operator's `config` and a row in the docs."""

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
        """The limits on damage."""
        asked = {
            "partitions": self.max_partitions,
            "rows": self.max_rows,
            "size_bytes": self.max_bytes,
            "partition_percent": self.max_percent,
        }
        found: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        return TrashLimits(**found)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> TrashConfig:
        """From what a user gave: Params of a DAG, an operator's `config`.

        Args:
            params: by name, as values or as rendered text. None and empty text mean no value.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        return cls(**read_settings(cls, params))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashRestoreConfig:
    """What a user asks for. Each field is a Param of the DAG, a key of an operator's `config` and a row in the docs."""

    state_uri: str = setting("State folder", "URI of the cleaner's folder, which has the undo files.")
    run: str = setting("Run", "Id of the run of the cleaner that removed the rows.")
    partition: str | None = setting(
        "Partition",
        r"Only rows of this partition, written as in the report (`\xNN` for bytes that are not text). Empty: all.",
        default=None,
    )
    dry_run: bool = setting("Dry run", "Only count the rows, **restore nothing**.", default=True)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def partitions(self) -> list[bytes] | None:
        """The partitions that are asked for; None is all."""
        return None if self.partition is None else [name_of(self.partition)]

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> TrashRestoreConfig:
        """From what a user gave: Params of a DAG, an operator's `config`.

        Args:
            params: by name, as values or as rendered text. None and empty text mean no value.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        return cls(**read_settings(cls, params))
