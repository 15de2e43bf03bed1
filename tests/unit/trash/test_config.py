"""What a user may ask of the trash cleaner has bounds on both sides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.trash.findings import TrashLimits
from dredge.trash.settings import TrashConfig, TrashMargins, TrashRestoreConfig

STATE = "memory://trash/config"


def test_what_is_not_asked_for_is_the_safe_thing() -> None:
    config = TrashConfig(state_uri=STATE)
    assert config.dry_run
    assert config.grace_hours == 24
    assert config.margins == TrashMargins()
    assert config.limits == TrashLimits()
    assert (config.kinds, config.read_rate) == ((), None)
    assert TrashRestoreConfig(state_uri=STATE, run="r").dry_run


def test_a_restore_names_partitions_as_reports_write_them() -> None:
    config = TrashRestoreConfig(state_uri=STATE, run="r", partition=r"p\xff")
    assert config.partitions == [b"p\xff"]
    assert TrashRestoreConfig(state_uri=STATE, run="r").partitions is None
    with pytest.raises(ConfigError):
        TrashRestoreConfig(state_uri="no uri", run="")


DAY = timedelta(hours=24)
INSTANT = timedelta(microseconds=1)
SAFE = ("grace", "id_age", "expiry", "ownership_expiry")
TIMES = (*SAFE, "multipart_report", "unnamed", "instance_margin")


@pytest.mark.parametrize("name", TIMES)
def test_a_negative_margin_is_refused_even_where_short_ones_are_asked_for(name: str) -> None:
    with pytest.raises(ConfigError):
        TrashMargins(**{name: -INSTANT}, unsafe_short_grace=True)
    assert getattr(TrashMargins(**{name: timedelta(0)}, unsafe_short_grace=True), name) == timedelta(0)


@pytest.mark.parametrize("name", SAFE)
def test_a_margin_below_a_day_is_refused_without_the_option_that_calls_it_unsafe(name: str) -> None:
    asked: dict[str, Any] = {name: DAY - INSTANT}
    with pytest.raises(ConfigError):
        TrashMargins(**asked)
    assert getattr(TrashMargins(**asked, unsafe_short_grace=True), name) == DAY - INSTANT
    assert getattr(TrashMargins(**{name: DAY}), name) == DAY
