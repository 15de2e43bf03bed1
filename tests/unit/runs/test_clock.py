"""Clocks that differ too much stop what hangs on ages, whichever of them is wrong."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import RefusedError
from dredge.runs.clock import Coverage, StoreClock, check_clocks, compare_store
from dredge.runs.payload import from_json, to_json
from dredge.storage import open_writer
from tests.support.memory_store import memory_store


def test_clocks_may_differ_by_the_bound_and_by_no_more() -> None:
    for ahead in (-60, 0, 60):
        check_clocks(ahead, 60)
    with pytest.raises(RefusedError):
        check_clocks(60.001, 60)
    with pytest.raises(RefusedError):
        check_clocks(-60.001, 60)


START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

hours = st.integers(0, 12)

some = st.lists(st.tuples(hours, hours), max_size=6)


def covered(*pairs: tuple[int, int]) -> Coverage:
    return Coverage.of((START + begin * HOUR, START + end * HOUR) for begin, end in pairs)


def has(found: Coverage) -> list[bool]:
    return [found.has(START + hour * HOUR) for hour in range(14)]


@given(some)
def test_an_instant_is_covered_from_the_begin_of_an_interval_until_before_its_end(
    pairs: list[tuple[int, int]],
) -> None:
    found = covered(*pairs)
    assert has(found) == [any(begin <= hour < end for begin, end in pairs) for hour in range(14)]
    assert all(begin < end for begin, end in found.intervals), "an empty one counts nothing"
    assert all(before[1] < after[0] for before, after in pairwise(found.intervals)), "sorted, and apart"
    assert from_json(Coverage, to_json(found)) == found
    assert found.with_interval(START + 3 * HOUR, START + 5 * HOUR) == covered(*pairs, (3, 5))


def test_the_smallest_gaps_are_filled() -> None:
    found = covered((0, 1), (5, 6), (7, 8), (11, 12))
    assert found.at_most(4) == found
    assert found.at_most(3) == covered((0, 1), (5, 8), (11, 12))
    assert found.at_most(2) == covered((0, 1), (5, 12))
    assert found.at_most(1) == covered((0, 12))
    assert Coverage().at_most(1) == Coverage()


def test_the_time_of_the_store_is_compared_with_this_machines() -> None:
    now = datetime(2026, 5, 10, 12, tzinfo=UTC)
    memory_store("test-clocks").clock = lambda: now
    store = StoreClock(open_writer("memory://test-clocks/repo"))
    assert compare_store(store, lambda: now + timedelta(seconds=300), 300) == (now, -300)
    with pytest.raises(RefusedError):
        compare_store(store, lambda: now - timedelta(seconds=301), 300)
