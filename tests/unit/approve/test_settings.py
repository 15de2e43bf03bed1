"""The settings of limits and approvals refuse what has no meaning."""

from dataclasses import dataclass
from typing import Any

import pytest

from dredge.approve.settings import (
    MARK_AGE_HOURS,
    OVER_LIMITS,
    approval_hours_setting,
    approval_setting,
    approvers_setting,
    ids_of,
)
from dredge.errors import ConfigError
from dredge.runs.limits import bytes_limit, objects_limit, share_limit
from dredge.settings import read_settings


def config(**given: Any) -> Any:
    """A configuration with all of them, as a collector's is made."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        objects: int | None = objects_limit()
        bytes: int | None = bytes_limit()
        share: float | None = share_limit()
        approval: str = approval_setting()
        hours: float = approval_hours_setting()
        approvers: str | None = approvers_setting()

    return Config(**read_settings(Config, given))


def test_without_a_word_a_fifth_may_go_and_nobody_in_particular_is_asked() -> None:
    plain = config()
    assert (plain.objects, plain.bytes, plain.share, plain.approvers) == (None, None, 20, None)
    assert (plain.approval, plain.hours) == (OVER_LIMITS, MARK_AGE_HOURS)
    assert ids_of(plain.approvers) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("objects", -1),
        ("bytes", -1),
        ("share", -1),
        ("share", 100.5),
        ("hours", 0),
        ("approval", "sometimes"),
    ],
)
def test_what_lies_beyond_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        config(**{name: value})


def test_nobody_waits_for_an_answer_longer_than_a_run_may_be_swept() -> None:
    with pytest.raises(ConfigError):
        config(hours=12.5)
