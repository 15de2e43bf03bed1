"""Slices: which can be left out, and how a long listing is cut."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.gc.run import Plan
from dredge.gc.slice_listing import choose_slices, slice_time
from dredge.gc.slice_listing.slices import OUTSIDE, Item, cut_rest, is_young
from dredge.runs.clock import BEGINNING, END, Coverage
from dredge.storage.keys import in_range
from dredge.xid import new_descending_xid

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def opened(at: datetime) -> str:
    return f"data/{new_descending_xid(at)}/"


@pytest.mark.parametrize(
    "folder", ["data/!ab/", "data/plain/", "data/", "data/g4uk6erfnfus73frbnq/", "data/G4UK6ERFNFUS73FRBNQG/"]
)
def test_a_folder_that_is_no_slice_has_no_time_and_is_always_listed(folder: str) -> None:
    assert slice_time(folder) is None
    assert not is_young(folder, NOW - timedelta(days=1), NOW)


def test_without_an_age_every_slice_is_listed() -> None:
    assert not is_young(opened(NOW), NOW, NOW)


keys = st.lists(
    st.text(alphabet="019abvz~/é\x00", min_size=1, max_size=6), min_size=2, max_size=40, unique=True
)


@given(keys, st.integers(1, 39), st.booleans())
def test_a_cut_rest_tiles_what_is_left_exactly(names: list[str], seen: int, bounded: bool) -> None:
    names = sorted("data/x/" + name for name in names)
    seen = min(seen, len(names) - 1)
    item = Item("data/x/", stop_before=names[-1] if bounded else "")
    if bounded and names[seen - 1] >= names[-1]:
        return
    rest = cut_rest(item, names[0], names[seen - 1])
    wanted = [name for name in names[seen:] if in_range(name, "", item.stop_before)]
    found = [name for piece in rest for name in names if in_range(name, piece.start_after, piece.stop_before)]
    assert found == wanted  # in order, nothing twice, nothing missing


def test_outside_leaves_out_data_and_metadata_and_nothing_else() -> None:
    def is_outside(key: str) -> bool:
        return any(in_range(key, item.start_after, item.stop_before) for item in OUTSIDE)

    for key in (
        "dummy",
        "data",
        "data!",
        "data0",
        "datax/y",
        "_lakefs",
        "_lakefs0x",
        "aaa",
        "zzz",
        "symlinks/x",
    ):
        assert is_outside(key), key
    for key in ("data/x", "data/", "_lakefs/x", "data/x/y"):
        assert not is_outside(key), key


SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


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
    listed, counts = choose_slices(of, folders)
    return [folders.index(folder) for folder in listed], [
        counts[why] for why in ("young", "again", "covered", "other")
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
    assert chosen(plan(again=Coverage(((BEGINNING, END),))), NOW, NOW - 9 * DAY) == ([1], [1, 0, 0, 0])
