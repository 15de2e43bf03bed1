"""JSON, times and durations look as a real server writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dredge.graveler.actions.text import NEVER, duration, parse_duration, rfc3339, to_json
from dredge.graveler.errors import InvalidValueError


def test_json() -> None:
    assert to_json({"b": "<&ü>", "a": [1, None, True]}) == '{"b":"\\u003c\\u0026ü\\u003e","a":[1,null,true]}'
    assert to_json({"b": 1, "a": {}}, sort_keys=True, indent="  ") == '{\n  "a": {},\n  "b": 1\n}'
    with pytest.raises(ValueError):
        to_json(float("inf"))


def test_times() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 60700, tzinfo=timezone(timedelta(hours=1)))
    assert rfc3339(when) == "2026-01-02T02:04:05Z"
    assert rfc3339(when, fraction=True) == "2026-01-02T02:04:05.0607Z"
    assert rfc3339(datetime(2026, 1, 1, tzinfo=UTC), fraction=True) == "2026-01-01T00:00:00Z"
    assert rfc3339(NEVER, fraction=True) == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("0", 0), ("-2s", -2), ("+1us", 1e-6), (".5s", 0.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1 s", "1d", "1m30", "--1s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidValueError, match="invalid duration"):
        parse_duration(text)


def test_durations_for_people() -> None:
    assert [duration(each) for each in (0.0123, 1.5, 61)] == ["12.3ms", "1.5s", "61s"]
