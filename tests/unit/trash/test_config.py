"""What a user may ask of the trash cleaner has bounds on both sides."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError
from dredge.settings import HOURS_MAX, SECONDS_MAX
from dredge.trash.config import TrashConfig
from dredge.trash.margins import TrashLimits

STATE = "memory://trash/config"


@pytest.mark.parametrize("asked", [{"grace_hours": 2 * HOURS_MAX}, {"unsafe_grace_seconds": 2 * SECONDS_MAX}])
def test_a_grace_that_no_time_can_be_computed_with_is_refused(asked: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="at most"):
        TrashConfig(state_uri=STATE, **asked)  # type: ignore[arg-type]


def test_the_longest_grace_is_one() -> None:
    assert TrashConfig(state_uri=STATE, grace_hours=HOURS_MAX).margins.grace.days == HOURS_MAX / 24


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_limit_that_is_no_finite_number_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="partition_percent"):
        TrashLimits(partition_percent=value)
