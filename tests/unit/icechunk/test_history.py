"""A history that does not lead to a root is damaged, whoever walks it; one that goes back in time is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.history import History
from tests.support.icechunk import Graph, history_of

FORK = Graph(
    (("1", "0", 1), ("2", "1", 2), ("3", "1", 3), ("4", "3", 4)), {"main": "4", "side": "2"}, {"t": "1"}
)


@pytest.fixture
def history() -> History:
    return history_of(FORK, 2)


def entry(name: str, parent: str | None, time: int = 1, pruned: tuple[str, ...] = ()) -> SnapshotEntry:
    return SnapshotEntry(name, parent, time, "", pruned)


def test_a_missing_snapshot_is_told_whoever_walks(history: History) -> None:
    damaged = replace(history, snapshots={name: history.snapshots[name] for name in "0234"})
    with pytest.raises(FormatError, match="snapshot 3"):
        damaged.ancestry("4")
    with pytest.raises(FormatError, match="snapshot 1"):
        damaged.reachable()
    with pytest.raises(FormatError, match="snapshot 1"):
        damaged.check_links()


def test_a_cycle_is_told_whoever_walks() -> None:
    rounds = History(2, {"1": entry("1", "2"), "2": entry("2", "1")}, {"main": "1"}, {})
    with pytest.raises(FormatError, match="cycle"):
        rounds.ancestry("1")
    with pytest.raises(FormatError, match="cycle"):
        rounds.check_links()
    assert rounds.reachable() == {"1", "2"}


@pytest.mark.parametrize(("time", "is_newer"), [(9, False), (10, False), (11, True)])
def test_a_snapshot_is_newer_than_its_parent_or_there_is_no_expiring_by_time(
    time: int, is_newer: bool
) -> None:
    history = History(2, {"0": entry("0", None, 10), "1": entry("1", "0", time)}, {"main": "1"}, {})
    if is_newer:
        history.check()
        return
    with pytest.raises(RefusedError, match="snapshot 1"):
        history.check()
    replace(history, restamped=frozenset({"0"})).check()
    with pytest.raises(RefusedError):
        replace(history, restamped=frozenset({"1"})).check()


@pytest.mark.parametrize(
    "change",
    [
        {"spec_version": 1},
        {"branches": {"main": "4"}},
        {"branches": {"main": "4", "side": "3"}},
        {"tags": {"u": "1"}},
        {"snapshots": {"2": entry("2", "0")}},
        {"snapshots": {"2": entry("2", "1", pruned=("0",))}},
        {"snapshots": {"2": entry("2", "1", 7)}},
    ],
)
def test_histories_that_differ_in_anything_that_counts_have_other_digests(
    history: History, change: dict[str, object]
) -> None:
    history = replace(history, snapshots={**history.snapshots, "2": entry("2", "1")})
    if isinstance(snapshots := change.get("snapshots"), dict):
        change = {"snapshots": {**history.snapshots, **snapshots}}
    assert replace(history).digest == history.digest
    assert replace(history, **change).digest != history.digest  # type: ignore[arg-type]
