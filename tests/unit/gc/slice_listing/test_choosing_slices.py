"""Which slices are left out, to the second, and where the rest of a long one is cut, to the character."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from dredge.gc.run import Plan
from dredge.gc.slice_listing.slices import choose_slices, is_young
from dredge.runs.clock import BEGINNING, END, Coverage
from dredge.xid import new_descending_xid

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


def opened(at: datetime) -> str:
    return f"data/{new_descending_xid(at)}/"


def test_a_slice_is_young_from_an_hour_after_the_cutoff_to_an_hour_after_now() -> None:
    cutoff = NOW - DAY
    for at, young in (
        (cutoff + HOUR - SECOND, False),
        (cutoff + HOUR, True),
        (NOW + HOUR, True),
        (NOW + HOUR + SECOND, False),
    ):
        assert is_young(opened(at), cutoff, NOW) is young, at


def plan(**parts: Any) -> Plan:
    usual = {
        "cutoff": NOW - DAY,
        "created_at": NOW,
        "window": (BEGINNING, END),
        "covered": Coverage(),
        "again": Coverage(),
    }
    return cast("Plan", SimpleNamespace(**{**usual, **parts}))


def chosen(of: Plan, *times: datetime | None) -> tuple[list[int], list[int]]:
    """Numbers of the slices that are listed; how many are young, again, covered and other."""
    folders = ["data/plain/" if at is None else opened(at) for at in times]
    found = choose_slices(of, folders)
    return [folders.index(folder) for folder in found.listed], [
        found.young,
        found.again,
        found.covered,
        found.other,
    ]


def test_a_window_has_its_beginning_and_not_its_end() -> None:
    begin, end = NOW - 9 * DAY, NOW - 5 * DAY
    times = (begin - SECOND, begin, end - SECOND, end, None)
    assert chosen(plan(window=(begin, end)), *times) == ([1, 2, 4], [0, 0, 0, 2])


def test_what_earlier_runs_covered_is_left_out_but_for_what_came_back() -> None:
    begin, end = NOW - 9 * DAY, NOW - 5 * DAY
    covered, times = Coverage(((begin, end),)), (begin - SECOND, begin, end - SECOND, end)
    assert chosen(plan(covered=covered), *times) == ([0, 3], [0, 0, 2, 0])
    again = Coverage(((begin, begin + SECOND),))
    assert chosen(plan(covered=covered, again=again), *times) == ([0, 1, 3], [0, 1, 1, 0])
    elsewhere = plan(covered=covered, again=again, window=(NOW - 2 * DAY, NOW))
    assert chosen(elsewhere, *times) == ([1], [0, 1, 1, 2]), (
        "what came back is listed outside of the window, too"
    )


def test_a_young_slice_is_left_out_whatever_came_back_into_it() -> None:
    """What came back is as young as the slice at least."""
    assert chosen(plan(again=Coverage(((BEGINNING, END),))), NOW, NOW - 9 * DAY) == ([1], [1, 0, 0, 0])
