"""Which slices are left out, to the second, and where the rest of a long one is cut, to the character."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dredge.gc.plan import Plan
from dredge.gc.slice_listing.slices import Item, choose_slices, cut_rest, is_young, slice_time
from dredge.runs.coverage import BEGINNING, END, Coverage
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


@pytest.mark.parametrize("folder", ["data/{}/", "data/{}", "x/data/{}/"])
def test_the_last_name_of_a_folder_tells_the_time(folder: str) -> None:
    assert slice_time(folder.format(new_descending_xid(NOW))) == NOW


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


def test_without_a_window_and_earlier_runs_all_but_young_slices_are_listed() -> None:
    assert chosen(plan(), NOW, None, NOW - 30 * DAY, NOW + 300 * DAY) == ([1, 2, 3], [1, 0, 0, 0])


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


def pieces(item: Item, first: str, last: str) -> list[tuple[str, str]]:
    return [(piece.start_after, piece.stop_before) for piece in cut_rest(item, first, last)]


DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"


def test_a_rest_is_cut_at_the_first_character_that_differs_and_at_the_one_before() -> None:
    found = pieces(Item("d/"), "d/aab", "d/aax")
    stops = [stop for _, stop in found]
    places = [*("d/aa" + digit for digit in "yz~"), *("d/a" + digit for digit in DIGITS if digit > "a")]
    assert stops == [*(place + "\0" for place in sorted(places)), ""]
    assert [start for start, _ in found] == ["d/aax", *sorted(places)]


def test_the_prefix_itself_is_not_cut() -> None:
    found = pieces(Item("d/"), "d/b", "d/x")
    assert [stop for _, stop in found] == ["d/y\0", "d/z\0", "d/~\0", ""]
    assert pieces(Item("d/x"), "d/x", "d/x") == [("d/x", "")]


def test_no_cut_lies_beyond_the_end_of_an_item_and_the_last_piece_has_its_end() -> None:
    found = pieces(Item("d/", stop_before="d/z"), "d/b", "d/x")
    assert found == [("d/x", "d/y\0"), ("d/y", "d/z")]
    assert pieces(Item("d/", stop_before="d/y"), "d/b", "d/x") == [("d/x", "d/y")]


def test_where_one_key_begins_the_other_the_cut_is_behind_it() -> None:
    found = pieces(Item("d/"), "d/a", "d/ab")
    assert found[0][0] == "d/ab"
    stops = [stop for _, stop in found]
    assert stops[:3] == ["d/ac\0", "d/ad\0", "d/ae\0"]
    assert "d/b\0" in stops
    assert pieces(Item("d/"), "d/ab", "d/ab")[0] == ("d/ab", "d/ac\0")


def test_pieces_are_like_the_item_they_are_cut_from() -> None:
    item = Item("d/", start_after="d/a", stop_before="d/z", capped=False)
    found = cut_rest(item, "d/b", "d/x")
    assert {(piece.prefix, piece.kind, piece.capped) for piece in found} == {("d/", "tree", False)}
