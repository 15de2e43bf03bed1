"""A copy of the repo info goes only when it is old by its name and by the store, and the log needs it no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.list_candidates import overwritten
from dredge.icechunk.collection.list_candidates.overwritten import _may_go, find_old_copies, needed_copies
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

    monkeypatch.setattr(overwritten, "parse_repo_info", parsed)
    return needed_copies(open_reader(task.uri), current)


def test_log_needs_its_chain_of_copies_and_all_that_the_repo_info_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = {"a": info("b", "x"), "b": info(None, "y"), "z": info(None)}
    assert needed(monkeypatch, info("a", None, "r", "s"), copies) == {"a", "b", "r", "s"}
    assert needed(monkeypatch, info(None, "r"), copies) == {"r"}


def test_chain_that_an_earlier_sweep_cut_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert needed(monkeypatch, info("a", "r"), {"a": info("b")}) == {"a", "b", "r"}


def test_chain_that_comes_back_to_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError):
        needed(monkeypatch, info("a"), {"a": info("b"), "b": info("a")})


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


def test_only_repositories_of_spec_2_have_copies_and_only_who_asks_gets_them(repo: Repo) -> None:
    found = find_old_copies(repo.plan(overwritten_min_age_hours=0), ())
    assert (found is None) is (repo.spec == 1)


def test_nobody_who_does_not_ask_gets_copies(v2: Repo) -> None:
    assert find_old_copies(v2.plan(), ()) is None


def test_copies_are_listed_and_counted(v2: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    run = v2.plan(overwritten_min_age_hours=0)
    going = sorted(path.name for path in (v2.folder / "overwritten").iterdir())[:3]
    (v2.folder / "overwritten" / "notes.txt").write_bytes(b"")
    asked: list[tuple[Any, ...]] = []

    def may_go(name: str, *rest: Any) -> bool:
        asked.append(rest)
        return name in going

    monkeypatch.setattr(overwritten, "_may_go", may_go)
    found = find_old_copies(run, ())
    assert found is not None
    keys = [key for table in found.tables for key in table["key"].to_pylist()]
    assert keys == [f"overwritten/{name}" for name in going]
    assert found.objects == 3
    assert found.listed == len(asked) == len(list((v2.folder / "overwritten").iterdir()))
    assert found.size_bytes == sum((v2.folder / key).stat().st_size for key in keys)


@pytest.mark.parametrize(("own_hours", "hours"), [(0, 168), (100, 168), (168, 168), (200, 200)])
def test_copies_are_as_old_as_both_limits_ask_for(
    v2: Repo, monkeypatch: pytest.MonkeyPatch, own_hours: float, hours: float
) -> None:
    run = v2.plan(overwritten_min_age_hours=own_hours, unsafe_min_age_seconds=None)
    cutoffs: set[datetime] = set()

    def may_go(name: str, time: datetime, cutoff: datetime, needed: set[str]) -> bool:
        cutoffs.add(cutoff)
        return False

    monkeypatch.setattr(overwritten, "_may_go", may_go)
    assert find_old_copies(run, ()) is not None
    assert cutoffs == {run.plan.created_at - timedelta(hours=hours)}
