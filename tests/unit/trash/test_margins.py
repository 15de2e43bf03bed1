"""Margins and limits: what is refused, up to the bound itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.trash.margins import TrashLimits, TrashMargins

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


@pytest.mark.parametrize("name", ["partitions", "rows", "size_bytes", "partition_percent"])
def test_a_negative_limit_is_refused_and_none_at_all_is_one(name: str) -> None:
    with pytest.raises(ConfigError):
        TrashLimits(**{name: -1})
    assert getattr(TrashLimits(**{name: 0}), name) == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_limit_that_is_no_finite_number_is_refused(value: float) -> None:
    with pytest.raises(ConfigError):
        TrashLimits(partition_percent=value)
