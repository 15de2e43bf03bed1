"""Findings as they are stored: nothing of a name gets lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.runs.payload import from_json, to_json
from dredge.trash.finding import TrashFinding
from dredge.trash.report import finding_row
from tests.support.kv_world import DAY, START

FINDING = TrashFinding(b"p\xff", b"k\xff", "marker", "trash", "why", 1, 2, "d", START, START + DAY)


def test_a_finding_comes_back_with_its_bytes() -> None:
    whole = replace(FINDING, key=None, since=None, first_seen=None)
    for finding in (FINDING, whole):
        assert from_json(TrashFinding, to_json(finding)) == finding
    row = finding_row(FINDING, START)
    assert (row["partition"], row["key"], finding_row(whole, START)["key"]) == (r"p\xff", r"k\xff", None)
    assert (whole.name, FINDING.name) == (r"p\xff", r"p\xff · k\xff")


@pytest.mark.parametrize(
    "change", [{"partition": "cA=*="}, {"key": "cA=*="}, {"since": "yesterday"}, {"why": ...}]
)
def test_a_damaged_finding_is_not_read(change: dict[str, Any]) -> None:
    value = {name: part for name, part in (to_json(FINDING) | change).items() if part is not ...}
    with pytest.raises(FormatError, match="TrashFinding"):
        from_json(TrashFinding, value)


def test_the_age_of_a_finding_is_by_its_own_time_before_that_of_the_looks() -> None:
    now = START + 9 * DAY
    assert FINDING.age(now) == 9 * DAY
    assert replace(FINDING, since=None).age(now) == 8 * DAY
    assert replace(FINDING, first_seen=None).age(now) == 9 * DAY
    assert replace(FINDING, since=None, first_seen=None).age(now) is None
