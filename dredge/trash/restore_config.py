"""What a user may ask of a restore of the trash cleaner's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dredge.kv.rows import name_of
from dredge.settings import check_settings, read_settings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashRestoreConfig:
    """What a user asks for. Each field is a Param of the DAG, a key of an operator's `config` and a row in the docs."""

    state_uri: str = setting("State folder", "URI of the cleaner's folder, which has the undo files.")
    run: str = setting("Run", "Id of the run of the cleaner that removed the rows.")
    partition: str | None = setting(
        "Partition",
        r"Only rows of this partition, written as in the report (`\xNN` for bytes that are not text). Empty: all.",
        default=None,
    )
    dry_run: bool = setting("Dry run", "Only count the rows, **restore nothing**.", default=True)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def partitions(self) -> list[bytes] | None:
        """The partitions that are asked for; None is all."""
        return None if self.partition is None else [name_of(self.partition)]

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> TrashRestoreConfig:
        """From what a user gave: Params of a DAG, an operator's `config`.

        Args:
            params: by name, as values or as rendered text. None and empty text mean no value.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        return cls(**read_settings(cls, params))
