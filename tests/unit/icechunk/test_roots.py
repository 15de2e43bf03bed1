"""What counts as live, and what counts as old enough."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from dredge.icechunk.collection.listing import is_old_column
from dredge.icechunk.collection.roots import choose_roots, is_old
from tests.support.icechunk import Graph, history_of

CUTOFF = datetime(2026, 5, 1, 12, 0, 10, 500_000, tzinfo=UTC)
NOW = datetime(2026, 5, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
#: Main went back from 2 to 1, so nothing reaches 2.
HISTORY = history_of(Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "1"}), 1)


@pytest.mark.parametrize(
    ("second", "micro", "old"),
    [
        (9, 0, True),
        (10, 400_000, True),
        (10, 500_000, False),
        (10, 600_000, False),
        # A store that counts in whole seconds may have written it at 10.9.
        (10, 0, False),
    ],
)
def test_whole_seconds_count_as_one_second_later(second: int, micro: int, old: bool) -> None:
    time = CUTOFF.replace(second=second, microsecond=micro)
    assert is_old(time, CUTOFF) is old
    column = pa.array([time], pa.timestamp("us", tz="UTC"))
    cutoff = pa.scalar(CUTOFF, pa.timestamp("us", tz="UTC"))
    assert is_old_column(column, cutoff).tolist() == [old]


@pytest.mark.parametrize(
    ("seen_hours_ago", "held"), [(None, True), (0.0, True), (23.9, True), (24.0, False), (-1.0, True)]
)
def test_released_snapshot_is_held_until_it_was_seen_so_for_the_whole_grace(
    seen_hours_ago: float | None, held: bool
) -> None:
    before = {} if seen_hours_ago is None else {"2": NOW - seen_hours_ago * HOUR}
    roots = choose_roots(
        HISTORY, [("2", NOW - 999 * HOUR)], NOW - 200 * HOUR, now=NOW, dead_before=before, grace=24 * HOUR
    )
    assert ("2" in roots.tips) is held
    assert ("2" in roots.held) is held
    assert {"0", "1"} <= roots.tips
    assert roots.dead_since["2"] == min(before.get("2", NOW), NOW)
