"""The library collects only where nothing is asked of it that it cannot do, within the limits, under the lease."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from dredge.errors import (
    ConfigError,
    DredgeError,
    FormatError,
    LeaseHeldError,
    RefusedError,
    UnavailableError,
)
from dredge.icechunk.collection import by_library
from dredge.icechunk.collection.by_library import LibraryOutput, collect_by_library
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import plan_collection
from dredge.icechunk.history import History
from dredge.icechunk.library import LibraryCollection, collect_with_library
from dredge.icechunk.maintenance import make_lease, open_state
from tests.support.icechunk_repo import Repo

FOUND = LibraryCollection(snapshots=1, manifests=2, chunks=3, transactions=4, size_bytes=50)


class Library:
    """Stands for the library, and notes what it is asked for."""

    def __init__(self, done: LibraryCollection = FOUND) -> None:
        self.done, self.asked = done, list[bool]()
        self.cutoffs: set[datetime] = set()

    def __call__(self, cutoff: datetime, dry_run: bool) -> LibraryCollection:
        self.asked.append(dry_run)
        self.cutoffs.add(cutoff)
        return FOUND if dry_run else self.done


def ended(repo: Repo) -> str:
    """How the only run ended, which is not complete."""
    (place,) = (repo.folder / "_dredge" / "runs").iterdir()
    summary = Run.open(f"file://{place}").folder.read_incomplete(LibraryOutput.STEP)
    assert summary is not None
    return summary.status


@pytest.mark.parametrize("grace", [None, 3600])
def test_library_deletes_nothing_where_garbage_is_to_wait(v1: Repo, grace: float | None) -> None:
    """What it finds it deletes, and it looks for nothing that an earlier run found."""
    library = Library()
    with pytest.raises(ConfigError):
        collect_by_library(v1.config(unsafe_grace_seconds=grace), collect=library)
    assert library.asked == []
    report = collect_by_library(v1.config(unsafe_grace_seconds=grace, dry_run=True), collect=library)
    assert report["outcome"] == "dry_run"
    assert library.asked == [True]


def test_library_looks_first_and_then_deletes(v1: Repo) -> None:
    library = Library()
    report = collect_by_library(v1.config(max_delete_objects=10, max_delete_bytes=50), collect=library)
    assert library.asked == [True, False]
    assert (report["outcome"], report["dry_run"]) == ("success", False)
    assert {time.isoformat() for time in library.cutoffs} == {report["cutoff"]}
    assert report["counts"]["deleted_objects"] == 10
    assert report["counts"]["failed_objects"] == 0
    plan_collection(v1.config())  # the lease was given back


@pytest.mark.parametrize("limit", [{}, {"max_delete_objects": 9}])
def test_dry_run_only_looks_whatever_the_limits(v1: Repo, limit: dict[str, int]) -> None:
    library = Library()
    report = collect_by_library(v1.config(dry_run=True, approval="always", **limit), collect=library)
    assert library.asked == [True]
    assert (report["outcome"], report["counts"]["would_delete_objects"]) == ("dry_run", 10)


@pytest.mark.parametrize("limit", [{"max_delete_objects": 9}, {"max_delete_bytes": 49}])
def test_library_stops_at_a_limit(v1: Repo, limit: dict[str, int]) -> None:
    library = Library()
    with pytest.raises(RefusedError) as caught:
        collect_by_library(v1.config(**limit), collect=library)
    assert library.asked == [True]
    assert str(caught.value).count("would be deleted") == 1
    assert ended(v1) == "refused"
    plan_collection(v1.config())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keep_chunks": True}, "chunks can be kept only by Dredge's own"),
        ({"keep_transactions": True}, "transactions can be kept only"),
        ({"undo": "versions"}, "nothing could be brought back"),
        ({"undo": "quarantine"}, "nothing could be brought back"),
        ({"approval": "always"}, "nobody can have seen"),
    ],
)
def test_what_the_library_cannot_do_is_refused_before_anything_is_held(
    v1: Repo, settings: dict[str, Any], words: str
) -> None:
    library, before = Library(), (v1.folder / "_dredge" / "lease.json").read_bytes()
    with pytest.raises(ConfigError, match=words):
        collect_by_library(v1.config(**settings), collect=library)
    assert not library.asked
    assert (v1.folder / "_dredge" / "lease.json").read_bytes() == before


@pytest.mark.parametrize(
    "done",
    [
        LibraryCollection(1, 1, 1, 1, 9, failed=3, errors=("a", "b")),
        LibraryCollection(1, 1, 1, 1, 9, skipped=("chunks",)),
    ],
)
def test_what_the_library_could_not_delete_or_left_out_is_told(v1: Repo, done: LibraryCollection) -> None:
    words = "could not delete 3 objects. First errors: a; b" if done.failed else "and left out chunks"
    with pytest.raises(UnavailableError, match=words):
        collect_by_library(v1.config(), collect=Library(done))
    assert ended(v1) == "partial"


def test_history_that_does_not_hold_together_is_not_collected(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: History) -> None:
        raise FormatError("a parent is missing")

    library = Library()
    monkeypatch.setattr(History, "check_links", broken)
    with pytest.raises(FormatError):
        collect_by_library(v1.config(), collect=library)
    assert not library.asked
    plan_collection(v1.config())


def test_right_that_was_taken_before_is_not_given_back(v1: Repo) -> None:
    lease = make_lease(open_state(v1.uri))
    grant = lease.acquire("somebody")
    collect_by_library(v1.config(), lease=grant, collect=Library())
    with pytest.raises(LeaseHeldError):
        plan_collection(v1.config())


def test_library_itself_is_asked_where_nobody_gives_another(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[bool] = []

    def noted(repository: Any, cutoff: datetime, *, dry_run: bool) -> LibraryCollection:
        called.append(dry_run)
        return collect_with_library(repository, cutoff, dry_run=dry_run)

    monkeypatch.setattr(by_library, "collect_with_library", noted)
    before = v1.config(undo="auto", inventory="file:///nowhere")
    report = collect_by_library(before)
    assert called == [True, False]
    assert report["outcome"] == "success"
    plan = Run.open(f"{v1.uri}/_dredge/runs/{report['run_id']}").plan
    assert (plan.config.undo, plan.undo.way, plan.inventory) == ("off", "off", None)


@pytest.mark.parametrize("dry_run", [True, False])
def test_pins_hold_the_library_but_not_one_that_only_looks(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    library = Library()
    monkeypatch.setattr(Run, "pinned", lambda _: ("a pin",))
    if dry_run:
        collect_by_library(v1.config(dry_run=True), collect=library)
    else:
        with pytest.raises(DredgeError):
            collect_by_library(v1.config(), collect=library)
    assert library.asked == ([True] if dry_run else [])
