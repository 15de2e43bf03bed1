"""What a user may ask of a restore, and of a purge."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.errors import ConfigError
from dredge.settings import check_settings, setting
from dredge.undo.config import PurgeConfig, RestoreConfig

REASONS = ("unreachable", "overwritten")
_URI = "URI: `s3://bucket/prefix`, `gs://bucket/prefix` or a folder."


@dataclass(frozen=True, slots=True, kw_only=True)
class IcechunkRestoreConfig(RestoreConfig):
    """Which of a run's deletions are taken back, and for how long what came back is kept."""

    repository: str = setting("Repository", _URI, name="storage")
    prefix: str | None = setting(
        "Prefix", "Objects whose key begins like this, such as `chunks/`. Empty: any.", default=None
    )
    reason: str | None = setting(
        "Reason", "Objects that were deleted for this reason. Empty: any.", default=None, choices=REASONS
    )
    expiration: bool = setting(
        "Expiration",
        "The run is an expiration: put the repo info from before it back (spec 2). Refused when other operations"
        " followed.",
        default=False,
    )

    def __post_init__(self) -> None:
        if not self.expiration:
            RestoreConfig.__post_init__(self)
            return
        check_settings(self)
        if self.everything or self.prefix or self.address or self.reason:
            raise ConfigError(
                "expiration and a selection of objects exclude each other. Nothing was restored."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class IcechunkPurgeConfig(PurgeConfig):
    """Which copies and old versions go for good."""

    repository: str = setting("Repository", _URI, name="storage")
