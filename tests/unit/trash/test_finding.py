"""Findings as they are stored: nothing of a name gets lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.trash.finding import TrashFinding
from tests.support.kv_world import DAY, START

FINDING = TrashFinding(b"p\xff", b"k\xff", "marker", "trash", "why", 1, 2, "d", START, START + DAY)


def test_a_finding_comes_back_with_its_bytes() -> None:
    whole = replace(FINDING, key=None, since=None, first_seen=None)
    for finding in (FINDING, whole):
        assert TrashFinding.from_json(finding.to_json()) == finding
    assert (FINDING.to_json()["partition"], FINDING.to_json()["key"]) == (r"p\xff", r"k\xff")
    assert (whole.to_json()["key"], whole.to_json()["key_base64"]) == (None, None)
    assert (whole.name, FINDING.name) == (r"p\xff", r"p\xff · k\xff")


@pytest.mark.parametrize(
    "change", [{"partition_base64": "cA=*="}, {"key_base64": "cA=*="}, {"since": "yesterday"}, {"rows": ...}]
)
def test_a_damaged_finding_is_not_read(change: dict[str, Any]) -> None:
    value = {name: part for name, part in (FINDING.to_json() | change).items() if part is not ...}
    with pytest.raises(FormatError, match="finding cannot be read"):
        TrashFinding.from_json(value)


def test_the_age_of_a_finding_is_by_its_own_time_before_that_of_the_looks() -> None:
    now = START + 9 * DAY
    assert FINDING.age(now) == 9 * DAY
    assert replace(FINDING, since=None).age(now) == 8 * DAY
    assert replace(FINDING, first_seen=None).age(now) == 9 * DAY
    assert replace(FINDING, since=None, first_seen=None).age(now) is None
