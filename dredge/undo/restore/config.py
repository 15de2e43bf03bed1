"""What a user may ask of a restore."""

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
