"""What a user may ask of a restore."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.settings import setting
from dredge.undo.config import PurgeConfig as AnyPurgeConfig
from dredge.undo.config import RestoreConfig as AnyRestoreConfig

REASONS = ("expired", "never_linked", "unreferenced")
"""Those of `dredge.gc.subtract`, which a form must not load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreConfig(AnyRestoreConfig):
    """Which of a run's deletions are taken back, and for how long what came back is kept."""

    repository: str = setting("Repository", "Its name in lakeFS.")
    prefix: str | None = setting(
        "Prefix", "Objects whose address begins like this, such as `data/gd3q`. Empty: any.", default=None
    )
    reason: str | None = setting(
        "Reason",
        "Objects that were deleted for this reason. Empty: any.",
        default=None,
        choices=REASONS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeConfig(AnyPurgeConfig):
    """Which copies and old versions go for good."""

    repository: str = setting("Repository", "Its name in lakeFS.")
