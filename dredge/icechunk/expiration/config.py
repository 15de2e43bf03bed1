"""The settings of an expiration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from dredge.icechunk.expiration.rules import RULES
from dredge.icechunk.threshold import parse_older_than
from dredge.settings import HOURS_MAX, check_settings, read_settings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConfig:
    """What a user asks for. Each field is a Param of the DAG, a key of an operator's `config`, a row of the docs."""

    older_than: str = setting(
        "Older than",
        "A duration (`30d`, `12h`), a date, or a time with its zone. Older snapshots are removed from the"
        " history.",
        default="30d",
    )
    rule: str | None = setting(
        "Rule",
        "Empty: Icechunk's own rule. `document` and `spec_v1` can be applied to spec 1 only.",
        default=None,
        choices=tuple(RULES),
    )
    delete_expired_branches: bool = setting(
        "Delete expired branches", "Also delete branches whose tip is expired; never main.", default=False
    )
    delete_expired_tags: bool = setting(
        "Delete expired tags",
        "Also delete tags whose tip is expired. **Their names can never be used again.**",
        default=False,
    )
    keep_refs: str | None = setting(
        "Keep refs",
        "Branches and tags that are not deleted, as names or globs separated by commas: `release-*`, `tag:v*`."
        " Empty: none.",
        default=None,
    )
    keep_refs_younger_hours: float = setting(
        "Keep refs younger than hours",
        "Branches and tags that were created or moved less than this ago are not deleted, because a job may have just"
        " created a branch on an old snapshot.",
        default=24.0,
        minimum=0,
        maximum=HOURS_MAX,
    )
    estimate: bool = setting(
        "Estimate",
        "Count the objects that a collection would then delete; reads every live manifest.",
        default=True,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ExpireConfig:
        """From what a user gave: Params of a DAG, an operator's `config`.

        Args:
            params: by name, as values or as rendered text. None and empty text mean no value.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        return cls(**read_settings(cls, params))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiration:
    """An expiration with a fixed threshold: planned, applied, or assumed as applied by the dry run of a collection.

    Attributes:
        threshold: ISO 8601 with its zone; snapshots strictly older are expired.
        rule: "document", "spec_v1" or "spec_v2"; None is the library's rule for the spec.
        delete_expired_branches: delete branches whose tip is expired; never main.
        delete_expired_tags: delete tags whose tip is expired.
        keep_refs: names or globs of refs that are not deleted, separated by commas.
        keep_refs_younger_hours: refs created or moved less than this ago are not deleted.
    """

    threshold: str
    rule: str | None = None
    delete_expired_branches: bool = False
    delete_expired_tags: bool = False
    keep_refs: str | None = None
    keep_refs_younger_hours: float = 0.0

    @classmethod
    def from_config(cls, config: ExpireConfig, now: datetime) -> Expiration:
        """Fix the threshold of a configured expiration.

        Args:
            config: the settings.
            now: durations count back from here; aware.

        Raises:
            ConfigError: `older_than` cannot be read, or is in the future.
        """
        found = asdict(config)
        del found["older_than"], found["estimate"]
        return cls(threshold=parse_older_than(config.older_than, now).isoformat(), **found)

    @property
    def instant(self) -> datetime:
        """The threshold as a time."""
        return datetime.fromisoformat(self.threshold)
