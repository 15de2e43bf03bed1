"""What a user may ask of the trash cleaner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dredge.settings import HOURS_MAX, SECONDS_MAX, check_settings, read_settings, setting
from dredge.trash.finding import KINDS
from dredge.trash.margins import SAFE_GRACE, TrashLimits, TrashMargins

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
