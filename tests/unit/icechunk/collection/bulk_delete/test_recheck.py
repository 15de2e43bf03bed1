"""What came into use since the mark is kept, or stops the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.icechunk.collection import bulk_delete as step
from dredge.icechunk.collection import deleting
from dredge.icechunk.collection.bulk_delete import look_again, newly_live
from dredge.icechunk.collection.config import Safety, Tuning
from dredge.icechunk.collection.outputs import MarkOutput, read_live_snapshots
from dredge.icechunk.collection.report import build_report
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import bulk_delete, verify
from dredge.icechunk.ids import decode_id
from dredge.icechunk.repository import read_history
from dredge.runs.tasks import LocalRunner
from dredge.storage import DeleteOutcome, open_deleter, open_reader
from tests.support.icechunk import contents, counts_of, local_storage, objects, quiet
from tests.support.icechunk_repo import Repo, change_number, until_shut

HERE = LocalRunner()


def test_chunk_of_a_writer_that_commits_before_the_sweep_is_kept_although_it_was_a_candidate(
    repo: Repo,
) -> None:
    session = repo.library.writable_session("main")
    change_number(session, 4711)
    run = repo.guarded()  # without any minimum age the open writer's chunk is a candidate
    session.commit("late")
    bulk_delete(run, HERE)
    verify(run)
    assert contents(repo.library, branch="main")[0] == 4711
    counts = counts_of(build_report(run), "bulk_delete")
    assert (counts["kept_objects"], counts["new_since_mark"]) == (1, 1)


@pytest.mark.parametrize("how", ["branch", "tag", "commit"])
def test_ref_on_a_released_snapshot_between_mark_and_sweep_stops_the_sweep(v1: Repo, how: str) -> None:
    run = v1.guarded()
    before = objects(v1.folder)
    if how == "tag":
        v1.library.create_tag("back", v1.ids["7"])
    else:
        v1.library.create_branch("back", v1.ids["7"])
    if how == "commit":
        v1.library.writable_session("back").commit("on top", allow_empty=True)
        before = objects(v1.folder)
    with pytest.raises(RefusedError, match=r"(branch|tag) back"):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before
    assert contents(v1.library, **{"tag" if how == "tag" else "branch": "back"})


def test_upgrade_that_has_removed_some_refs_stops_the_sweep(v1: Repo) -> None:
    # It writes the repo info, then removes refs: until it comes to main, what is left looks like all there is.
    run = v1.guarded()
    v1.library.create_branch("back", v1.ids["7"])
    quiet().upgrade_icechunk_repository(v1.library, dry_run=False, delete_unused_v1_files=False)
    (v1.folder / "refs" / "branch.back" / "ref.json").unlink()
    before = objects(v1.folder)
    with pytest.raises(RefusedError, match="spec 2"):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before
    assert contents(v1.library, branch="back")


def test_ref_on_a_released_snapshot_during_the_sweep_stops_it(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first request deletes snapshot files; a branch appears on one whose turn has not come.
    run = v1.guarded(tuning=Tuning(delete_keys=1), safety=Safety(gate_every_seconds=0.02))
    candidates = [v1.ids[name] for name in ("1", "2", "4", "6", "7")]

    class Disturbed:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            found = self.inner.delete(keys)
            left = [node for node in candidates if (v1.folder / "snapshots" / node).exists()]
            assert left, "the sweep went on although the gate was shut"
            if "back" not in v1.library.list_branches():
                v1.library.create_branch("back", left[-1])
                until_shut(run)
            return found

    monkeypatch.setattr(deleting, "open_deleter", Disturbed)
    with pytest.raises(RefusedError, match="branch back"):
        bulk_delete(run, HERE)
    assert build_report(run)["kinds"]["chunks"].get("deleted_objects", 0) == 0
    assert build_report(run)["outcome"] == "partial"


def test_when_refs_cannot_be_looked_at_the_sweep_stops(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    run = repo.guarded()
    before = objects(repo.folder)

    looks: list[Any] = []

    def look(*given: Any) -> Any:
        looks.append(given)
        if len(looks) == 1:  # the sweep's own
            return look_again(*given)
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(step, "look_again", look)
    with pytest.raises(UnavailableError):
        bulk_delete(run, HERE)
    assert objects(repo.folder) == before


def test_released_snapshot_cannot_come_back_on_spec_2_unnoticed(repo: Repo) -> None:
    history = read_history(open_reader(repo.uri))
    marked = set(history.snapshots) - {repo.ids["14"]}
    changes = look_again(open_reader(repo.uri), repo.spec, marked, {repo.ids["14"]})
    assert changes.in_use_by is not None
    assert repo.ids["14"] in changes.in_use_by


def test_ref_on_a_snapshot_that_vanished_counts_as_in_use(v1: Repo) -> None:
    reader = open_reader(v1.uri)
    marked = set(read_history(reader).snapshots)
    library = quiet().Repository.open(local_storage(v1.folder))
    library.create_branch("new", library.lookup_branch("main"))
    tip = library.writable_session("new").commit("new", allow_empty=True)
    assert look_again(reader, 1, marked, set()).new == {tip}
    (v1.folder / "snapshots" / tip).unlink()
    changes = look_again(reader, 1, marked, set())
    assert changes.in_use_by is not None
    assert f"branch new, which reaches the missing {tip}" in changes.in_use_by


def test_set_of_what_came_to_life_is_asked_at_the_sweep(v1: Repo) -> None:
    # Without a minimum age the open writer's chunk is a candidate; its commit comes before the sweep.
    session = v1.library.writable_session("main")
    change_number(session, 4711)
    run = v1.guarded()
    tip = session.commit("late")
    changes = look_again(open_reader(v1.uri), 1, marked_by(run), set())
    fresh = newly_live(open_reader(v1.uri), changes.new)
    assert changes.new == {tip}
    bulk_delete(run, HERE)
    there = {int.from_bytes(decode_id(name)[:8], "big") for name in objects(v1.folder)["chunks"]}
    assert set(fresh["chunks"].tolist()) <= there


def marked_by(run: Run) -> set[str]:
    summary = run.folder.read_summary(MarkOutput.STEP)
    assert summary is not None
    return read_live_snapshots(run.folder, MarkOutput.of(summary))
