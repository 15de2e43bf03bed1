"""What counts as live."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.icechunk.collection.mark.roots import choose_roots
from dredge.icechunk.collection.steps import collect
from tests.support.icechunk import Graph, build, contents, history_of, local_storage
from tests.support.icechunk_repo import Repo

NOW = datetime(2026, 5, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
#: Main went back from 2 to 1, so nothing reaches 2.
HISTORY = history_of(Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "1"}), 1)


@pytest.mark.parametrize(
    ("seen_hours_ago", "held"), [(None, True), (0.0, True), (23.9, True), (24.0, False), (-1.0, True)]
)
def test_released_snapshot_is_held_until_it_was_seen_so_for_the_whole_grace(
    seen_hours_ago: float | None, held: bool
) -> None:
    before = {} if seen_hours_ago is None else {"2": NOW - seen_hours_ago * HOUR}
    roots = choose_roots(
        HISTORY, [("2", NOW - 999 * HOUR)], NOW - 200 * HOUR, now=NOW, seen_before=before, grace=24 * HOUR
    )
    assert ("2" in roots.tips) is held
    assert ("2" in roots.held) is held
    assert {"0", "1"} <= roots.tips
    assert roots.unreachable_since["2"] == min(before.get("2", NOW), NOW)


def test_dangling_snapshots_of_spec_2_that_the_repo_info_lists_are_kept(tmp_path: Path) -> None:
    linear = tuple((str(number), str(number - 1), float(number)) for number in range(1, 7))
    ids = build(local_storage(tmp_path), Graph(linear, {"main": "2"}), 2)
    repo = Repo(tmp_path, ids)
    assert collect(repo.config())["deleted"]["objects"] == 0
    repo.library.create_branch("back", ids["6"])
    assert contents(repo.library, branch="back")[6] == 6
