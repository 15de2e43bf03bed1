"""What a user may ask of a collection of many repositories, beyond the settings of each run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dredge.errors import ConfigError
from dredge.settings import check_settings, read_settings, setting

_BETWEEN = re.compile(r"[,\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyConfig:
    """Which repositories are collected, and where the page about all of them goes."""

    repositories: str = setting(
        "Repositories",
        "Names, or globs such as `team-*`, with commas or spaces between them. Each gets a run of its own.",
        default="*",
    )
    leave_out: str | None = setting(
        "Repositories left out", "Names or globs of those that are not collected. Empty: none.", default=None
    )
    summary_root: str | None = setting(
        "Folder of summaries",
        "URI of the folder for the pages about all runs. Empty: the run root, or else Dredge's own folder in the"
        " namespace of the first repository by name.",
        default=None,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.summary_root is not None and "://" not in self.summary_root:
            raise ConfigError(f"summary_root {self.summary_root!r} is not a URI such as s3://bucket/folder")

    @property
    def wanted(self) -> list[str]:
        """Names and globs of those to collect."""
        return _words(self.repositories)

    @property
    def unwanted(self) -> list[str]:
        """Names and globs of those that are left out."""
        return _words(self.leave_out or "")

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ManyConfig:
        """From what a user gave, as values or as rendered text.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        return cls(**read_settings(cls, params))


def _words(text: str) -> list[str]:
    return [word for word in _BETWEEN.split(text) if word]
