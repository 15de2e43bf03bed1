"""What counts as live."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.icechunk.collection.mark.roots import Roots, choose_roots
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.history import History
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


def roots_of(spec: int, *files: tuple[str, float], grace: float = 0, before: float | None = None) -> Roots:
    """Choose roots where 2 is not reachable and the cutoff was 10 hours ago; `files` with hours since then."""
    history = HISTORY if spec == 1 else history_of(Graph((("1", "0", 1.0),), {"main": "1"}), 2)
    return choose_roots(
        history,
        [(node, NOW - 10 * HOUR - hours * HOUR) for node, hours in files],
        NOW - 10 * HOUR,
        now=NOW,
        seen_before={} if before is None else {"2": NOW - before * HOUR},
        grace=grace * HOUR,
    )


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(("hours", "young"), [(-1, True), (0, True), (1 / 3600, True), (2 / 3600, False)])
def test_unreachable_snapshot_that_is_not_older_than_the_cutoff_is_live(
    spec: int, hours: float, young: bool
) -> None:
    # The time is of whole seconds, so it counts as one later.
    roots = roots_of(spec, ("2", hours), ("1", hours))
    assert roots.young == ({"2"} if young else set())
    assert roots.tips == {"0", "1"} | roots.young
    assert roots.held == set()


def test_without_a_grace_nothing_is_held_and_what_is_unreachable_is_remembered() -> None:
    roots = roots_of(1, ("2", 5))
    assert (set(roots.held), dict(roots.unreachable_since)) == (set(), {"2": NOW})
    assert "1" not in roots_of(1, ("1", 5)).unreachable_since


def test_spec_2_has_no_grace_and_remembers_nothing() -> None:
    roots = roots_of(2, ("2", 5), grace=24)
    assert (set(roots.held), dict(roots.unreachable_since), set(roots.tips)) == (set(), {}, {"0", "1"})


def test_young_snapshot_in_its_grace_counts_as_young_and_is_live() -> None:
    roots = roots_of(1, ("2", -1), grace=24, before=1)
    assert (set(roots.held), set(roots.young), set(roots.tips)) == (set(), {"2"}, {"0", "1", "2"})


def test_snapshot_is_held_until_the_whole_grace_has_gone_by() -> None:
    assert roots_of(1, ("2", 5), grace=24, before=24).held == set()
    assert roots_of(1, ("2", 5), grace=24, before=23.999).held == {"2"}


def test_every_snapshot_that_the_repo_info_of_spec_2_lists_is_live_whatever_refs_reach() -> None:
    history = history_of(Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "1"}), 2)
    roots = choose_roots(history, [("2", NOW - 999 * HOUR)], NOW, now=NOW, seen_before={}, grace=timedelta(0))
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
    roots = choose_roots(known, old, NOW, now=NOW, seen_before={}, grace=timedelta(0))
    assert (roots.tips, [*roots.unreachable_since]) == (frozenset({"0", "1"}), ["2"])
