"""What counts as live."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.icechunk.collection.mark.step import Roots, choose_roots
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.history import History
from tests.support.icechunk import Graph, build, contents, history_of, local_storage
from tests.support.icechunk_repo import Repo

NOW = datetime(2026, 5, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
#: Main went back from 2 to 1, so nothing reaches 2.
HISTORY = history_of(Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "1"}), 1)


def roots_of(spec: int, *files: tuple[str, float]) -> Roots:
    history = HISTORY if spec == 1 else history_of(Graph((("1", "0", 1.0),), {"main": "1"}), 2)
    cutoff = NOW - 10 * HOUR
    return choose_roots(history, [(node, cutoff - hours * HOUR) for node, hours in files], cutoff)


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(("hours", "young"), [(-1, True), (0, True), (1 / 3600, True), (2 / 3600, False)])
def test_unreachable_snapshot_that_is_not_older_than_the_cutoff_is_live(
    spec: int, hours: float, young: bool
) -> None:
    # The time is of whole seconds, so it counts as one later.
    roots = roots_of(spec, ("2", hours), ("1", hours))
    assert roots.young == ({"2"} if young else set())
    assert roots.tips == {"0", "1"} | roots.young


def test_every_snapshot_that_the_repo_info_of_spec_2_lists_is_live_whatever_refs_reach() -> None:
    history = history_of(Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "1"}), 2)
    roots = choose_roots(history, [("2", NOW - 999 * HOUR)], NOW)
    assert (set(roots.tips), set(roots.young)) == ({"0", "1", "2"}, set())


def test_dangling_snapshots_of_spec_2_that_the_repo_info_lists_are_kept(tmp_path: Path) -> None:
    linear = tuple((str(number), str(number - 1), float(number)) for number in range(1, 7))
    ids = build(local_storage(tmp_path), Graph(linear, {"main": "2"}), 2)
    repo = Repo(tmp_path, ids)
    assert collect(repo.config())["deleted"]["objects"] == 0
    repo.library.create_branch("back", ids["6"])
    assert contents(repo.library, branch="back")[6] == 6


def test_snapshot_of_spec_1_that_is_known_but_not_reached_is_not_live() -> None:
    entries = {
        node: SnapshotEntry(node, parent, 0, "") for node, parent in (("0", None), ("1", "0"), ("2", "1"))
    }
    known = History(1, entries, {"main": "1"}, {})
    old = [("2", NOW - 99 * HOUR)]
    roots = choose_roots(known, old, NOW)
    assert roots.tips == {"0", "1"}
