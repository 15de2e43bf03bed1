"""What a user may ask of a restore.

What a user may ask of a purge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dredge.errors import ConfigError
from dredge.settings import DAYS_MAX, check_settings, read_settings, setting

KEEP_DAYS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreConfig:
    """Which of a run's deletions are taken back, and for how long what came back is kept. Each collector's own says
    what its repositories, prefixes and reasons are."""

    repository: str = setting("Repository", "Name or URI.")
    run: str = setting("Run", "Id of the run whose deletions are taken back, or the URI of its folder.")
    prefix: str | None = setting(
        "Prefix", "Objects whose address begins like this. Empty: any.", default=None
    )
    address: str | None = setting("Address", "This object alone, by its address. Empty: any.", default=None)
    reason: str | None = setting(
        "Reason",
        "Objects that were deleted for this reason. Empty: any.",
        default=None,
    )
    everything: bool = setting(
        "Everything",
        "All that the run deleted. Must be said where nothing else is.",
        default=False,
        name="all",
    )
    keep_days: float = setting(
        "Days to keep",
        "For so long no run deletes what came back.",
        default=KEEP_DAYS,
        minimum=1,
        maximum=DAYS_MAX,
    )
    because: str | None = setting(
        "Because", "Why it is brought back, for reports. Empty: that it was.", default=None
    )

    def __post_init__(self) -> None:
        check_settings(self)
        named = [name for name in ("prefix", "address", "reason") if getattr(self, name) is not None]
        if self.everything and named:
            raise ConfigError(f"all and {' and '.join(named)} do not go together. Nothing was restored.")
        if not self.everything and not named:
            raise ConfigError(
                "say what to restore: an address, a prefix, a reason, or all. Nothing was restored."
            )

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        """From what a user gave: Params of a DAG, an operator's `config`, options of a command.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        return cls(**read_settings(cls, params))


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeConfig:
    """Which copies and old versions go for good. Each collector's own says what its repositories are."""

    repository: str = setting("Repository", "Name or URI.")
    older_than_days: float = setting(
        "Older than days",
        "Copies and versions that a run's deletion left behind go when that is longer ago, by the store's clock.",
        default=30.0,
        minimum=1,
        maximum=DAYS_MAX,
        because="whoever misses something needs a day to say so",
    )
    dry_run: bool = setting("Dry run", "Say what would go, **delete nothing**.", default=True)
    run: str | None = setting(
        "Run", "Only what this run deleted: its id, or the URI of its folder. Empty: every run.", default=None
    )
    run_root: str | None = setting(
        "Run root",
        "URI of the folder with run folders, where runs were given one. Empty: the place inside the repository's"
        " namespace.",
        default=None,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        """From what a user gave: Params of a DAG, an operator's `config`, options of a command.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        return cls(**read_settings(cls, params))
