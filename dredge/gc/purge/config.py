"""What a user may ask of a purge."""

from __future__ import annotations

from dataclasses import dataclass

from dredge.settings import setting
from dredge.undo.config import PurgeConfig as AnyPurgeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeConfig(AnyPurgeConfig):
    """Which copies and old versions go for good."""

    repository: str = setting("Repository", "Its name in lakeFS.")
