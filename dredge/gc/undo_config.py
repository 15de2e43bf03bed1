"""The settings of a restore and of a purge in lakeFS; separate, because forms load them."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.settings import setting
from dredge.undo.config import PurgeConfig as AnyPurgeConfig
from dredge.undo.config import RestoreConfig as AnyRestoreConfig

# Those of `dredge.gc.subtract`; a form must not load it.
REASONS = ("expired", "never_linked", "unreferenced")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreConfig(AnyRestoreConfig):
    """The settings of a restore of deletions of a lakeFS run."""

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
    """The settings of a purge of a lakeFS repository."""

    repository: str = setting("Repository", "Its name in lakeFS.")
