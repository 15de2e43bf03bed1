"""What a user may ask of an expiration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dredge.icechunk.expiration.rules import RULES
from dredge.settings import check_settings, read_settings, setting


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
