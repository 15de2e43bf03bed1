"""A copy of the repo info goes only when it is old by its name and by the store, and the log needs it no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dredge.icechunk.collection.list_candidates import step
from dredge.icechunk.collection.list_candidates.step import _may_go, find_old_copies, needed_copies
from dredge.icechunk.format.repo_info import RepoInfo, Update, written_at
from dredge.storage import open_reader
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_tasks import CUTOFF, OLD, Task, named


def info(before: str | None, *backups: str | None) -> RepoInfo:
    updates = tuple(Update("commit", 0, backup) for backup in backups)
    return RepoInfo(2, (), {}, {}, (), "online", updates, before)


def needed(monkeypatch: pytest.MonkeyPatch, current: RepoInfo, copies: dict[str, RepoInfo]) -> set[str]:
    """What the log needs where these copies are in the store."""
    task = Task("list_candidates")
    for name in copies:
        task.put(f"overwritten/{name}", name.encode())

    def parsed(data: bytes, key: str) -> RepoInfo:
        assert key == f"overwritten/{data.decode()}"
        return copies[data.decode()]

    monkeypatch.setattr(step, "parse_repo_info", parsed)
    return needed_copies(open_reader(task.uri), current)


def test_log_needs_its_chain_of_copies_and_all_that_the_repo_info_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = {"a": info("b", "x"), "b": info(None, "y"), "z": info(None)}
    assert needed(monkeypatch, info("a", None, "r", "s"), copies) == {"a", "b", "r", "s"}
    assert needed(monkeypatch, info(None, "r"), copies) == {"r"}


def copy_of(time: datetime, name: str = named(1)) -> str:
    left = datetime(3000, 1, 1, tzinfo=UTC) - time
    found = f"repo.{left // timedelta(milliseconds=1):014d}.{name}"
    assert written_at(found) == time
    return found


def test_copy_may_go_only_when_old_by_name_and_by_store_and_needed_by_nobody() -> None:
    before = CUTOFF - timedelta(milliseconds=1)
    old = copy_of(before)
    assert _may_go(old, OLD, CUTOFF, {copy_of(before, named(2))})
    assert not _may_go(old, OLD, CUTOFF, {old})
    assert not _may_go(old, CUTOFF, CUTOFF, set())
    assert not _may_go(copy_of(CUTOFF), OLD, CUTOFF, set())
    assert not _may_go("notes.txt", OLD, CUTOFF, set())


@pytest.mark.parametrize(("own_hours", "hours"), [(0, 168), (100, 168), (168, 168), (200, 200)])
def test_copies_are_as_old_as_both_limits_ask_for(
    v2: Repo, monkeypatch: pytest.MonkeyPatch, own_hours: float, hours: float
) -> None:
    run = v2.plan(overwritten_min_age_hours=own_hours, unsafe_min_age_seconds=None)
    cutoffs: set[datetime] = set()

    def may_go(name: str, time: datetime, cutoff: datetime, needed: set[str]) -> bool:
        cutoffs.add(cutoff)
        return False

    monkeypatch.setattr(step, "_may_go", may_go)
    assert find_old_copies(run, ()) is not None
    assert cutoffs == {run.plan.created_at - timedelta(hours=hours)}
