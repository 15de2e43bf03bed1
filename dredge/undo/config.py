"""The settings of a restore and of a purge."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.errors import ConfigError
from dredge.settings import DAYS_MAX, Settings, check_settings, setting

KEEP_DAYS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreConfig(Settings):
    """The deletions to restore, and the end of their pin. Each collector adds the texts for its repositories, prefixes
    and reasons.
    """

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
        "Days of the pin: until then no run deletes the restored objects.",
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
