"""What is taken back can be chosen by the reason for which it was deleted."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.collection.list_candidates.candidates import REASONS
from dredge.icechunk.collection.undo_config import IcechunkRestoreConfig


def chosen(reason: str) -> str | None:
    given = {"storage": "s3://bucket/prefix", "run": "r", "reason": reason}
    return IcechunkRestoreConfig.from_params(given).reason


@pytest.mark.parametrize("reason", sorted({*REASONS.values()}))
def test_every_reason_of_a_ledger_can_be_chosen(reason: str) -> None:
    assert chosen(reason) == reason


def test_no_other_reason_can_be_chosen() -> None:
    with pytest.raises(ConfigError, match="reason"):
        chosen("expired")
