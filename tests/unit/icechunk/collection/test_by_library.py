"""The library collects only where nothing is asked of it that it cannot do, within the limits, under the lease."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from dredge.errors import (
    ConfigError,
    DredgeError,
    FormatError,
    RefusedError,
)
from dredge.icechunk.collection.by_library import LibraryOutput, collect_by_library
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import plan_collection
from dredge.icechunk.history import History
from dredge.icechunk.library import LibraryCollection
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
