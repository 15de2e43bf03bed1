"""What a user may ask of a purge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dredge.settings import DAYS_MAX, check_settings, read_settings, setting


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
