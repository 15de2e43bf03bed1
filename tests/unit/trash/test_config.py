"""What a user may ask of the trash cleaner has bounds on both sides."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.settings import HOURS_MAX, SECONDS_MAX
from dredge.trash.config import TrashConfig
from dredge.trash.margins import TrashLimits, TrashMargins
from dredge.trash.restore_config import TrashRestoreConfig

STATE = "memory://trash/config"


@pytest.mark.parametrize("asked", [{"grace_hours": 2 * HOURS_MAX}, {"unsafe_grace_seconds": 2 * SECONDS_MAX}])
def test_a_grace_that_no_time_can_be_computed_with_is_refused(asked: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        TrashConfig(state_uri=STATE, **asked)  # type: ignore[arg-type]


def test_what_is_not_asked_for_is_the_safe_thing() -> None:
    config = TrashConfig(state_uri=STATE)
    assert config.dry_run
    assert config.grace_hours == 24
    assert config.margins == TrashMargins()
    assert config.limits == TrashLimits()
    assert (config.kinds, config.read_rate) == ((), None)
    assert TrashRestoreConfig(state_uri=STATE, run="r").dry_run


@pytest.mark.parametrize(
    ("least", "less"),
    [
        ({"grace_hours": 24}, {"grace_hours": 23.9}),
        ({"unsafe_grace_seconds": 0}, {"unsafe_grace_seconds": -1}),
        ({"max_partitions": 0}, {"max_partitions": -1}),
        ({"max_rows": 0}, {"max_rows": -1}),
        ({"read_rate": 0.1}, {"read_rate": 0}),
    ],
)
def test_each_setting_has_a_least(least: dict[str, Any], less: dict[str, Any]) -> None:
    TrashConfig(state_uri=STATE, **least)
    with pytest.raises(ConfigError):
        TrashConfig(state_uri=STATE, **less)


def test_a_restore_names_partitions_as_reports_write_them() -> None:
    config = TrashRestoreConfig(state_uri=STATE, run="r", partition=r"p\xff")
    assert config.partitions == [b"p\xff"]
    assert TrashRestoreConfig(state_uri=STATE, run="r").partitions is None
    with pytest.raises(ConfigError):
        TrashRestoreConfig(state_uri="no uri", run="")
