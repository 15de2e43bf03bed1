"""The sweep deletes in order, goes on where it stopped, and does nothing without the right to."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import (
    ConfigError,
    LeaseHeldError,
    PartialError,
    RefusedError,
    UnavailableError,
)
from dredge.icechunk.collection import bulk_delete as step
from dredge.icechunk.collection import deleting
from dredge.icechunk.collection.config import Safety, Tuning
from dredge.icechunk.collection.index import snapshot_rows
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.report import build_report
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import bulk_delete, check_limits, verify
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import encode_ids
from dredge.icechunk.maintenance import make_lease
from dredge.runs.tasks import LocalRunner
from dredge.storage import STORE_HOLD, DeleteOutcome, open_deleter, open_reader
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()


type DeleteBy = Callable[[Callable[[str], Any]], None]


@pytest.fixture
def delete_by(monkeypatch: pytest.MonkeyPatch) -> DeleteBy:
    return lambda opened: monkeypatch.setattr(deleting, "open_deleter", opened)


def failing(kind: str, times: int, *codes: str) -> Callable[[str], Any]:
    left, others = [times], codes or ("SlowDown",)

    class Failing:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            if keys[0].startswith(kind) and left[0]:
                left[0] -= 1
                given = itertools.chain(others, itertools.repeat(others[-1]))
                return [
                    DeleteOutcome(key, "failed", code, "later")
                    for key, code in zip(keys, given, strict=False)
                ]
            return self.inner.delete(keys)

    return Failing


def test_failed_deletes_are_counted_later_kinds_are_not_begun_and_a_rerun_finishes(
    repo: Repo, delete_by: DeleteBy
) -> None:
    run = repo.guarded()
    chunks = objects(repo.folder)["chunks"]
    delete_by(failing("manifests", 1))
    with pytest.raises(UnavailableError, match=r"\b5\b"):
        bulk_delete(run, HERE)
    assert objects(repo.folder)["chunks"] == chunks
    report = build_report(run)
    assert (report["outcome"], report["failed"]["objects"]) == ("partial", 5)
    summary = bulk_delete(run, HERE)
    assert summary.status == "success"
    assert summary.counts["failed_objects"] == 0
    assert summary.counts["deleted_objects"] == (20 if repo.spec == 1 else 15)
    attempts = [
        row["attempt"]
        for table in run.folder.read_parts(summary.parts_below("bulk_delete/manifests"))
        for row in table.to_pylist()
    ]
    assert set(attempts) == {2}


def test_objects_that_the_key_pair_may_not_delete_are_no_promise_that_nothing_was_touched(
    repo: Repo, delete_by: DeleteBy
) -> None:
    run = repo.guarded()
    before = objects(repo.folder)
    delete_by(failing("snapshots", 1, "AccessDenied"))
    with pytest.raises(ConfigError):
        bulk_delete(run, HERE)
    assert objects(repo.folder) == before
    delete_by(failing("manifests", 1, "AccessDenied"))
    with pytest.raises(PartialError, match=r"\b5\b"):
        bulk_delete(run, HERE)
    assert bulk_delete(run, HERE).counts["failed_objects"] == 0


def test_kill_between_any_two_requests_leaves_a_sound_repository_and_a_rerun_finishes(
    repo: Repo, delete_by: DeleteBy, tmp_path: Path
) -> None:
    total = 20 if repo.spec == 1 else 15
    readable = {name: contents(repo.library, branch=name) for name in repo.library.list_branches()}
    for requests in (1, 5, 7, 12, total - 1):
        folder = tmp_path / f"killed-{requests}"
        shutil.copytree(repo.folder, folder)
        copy = Repo(folder, repo.ids)
        run = copy.guarded(tuning=Tuning(delete_keys=1))
        done = [0]

        class Killed:
            def __init__(self, uri: str, done: list[int] = done, limit: int = requests) -> None:
                self.inner, self.done, self.limit = open_deleter(uri), done, limit

            def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
                if self.done[0] == self.limit:
                    raise KeyboardInterrupt
                self.done[0] += 1
                return self.inner.delete(keys)

        delete_by(Killed)
        with pytest.raises(KeyboardInterrupt):
            bulk_delete(run, HERE)
        assert {
            name: contents(copy.library, branch=name) for name in copy.library.list_branches()
        } == readable
        delete_by(open_deleter)
        summary = bulk_delete(run, HERE)
        assert summary.counts["deleted_objects"] == total
        verify(run)


def test_lease_lost_during_the_sweep_stops_it_before_the_next_request(
    repo: Repo, delete_by: DeleteBy
) -> None:
    run = repo.guarded(tuning=Tuning(delete_keys=1), safety=Safety(gate_every_seconds=0))

    class Overtaken:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            run.lease.release(run.plan.lease)
            make_lease(run.state, 60).acquire("somebody else")
            return self.inner.delete(keys)

    delete_by(Overtaken)
    with pytest.raises(LeaseHeldError):
        bulk_delete(run, HERE)
    assert build_report(run)["deleted"]["objects"] == 1


def test_what_names_something_is_deleted_before_what_it_names(repo: Repo, delete_by: DeleteBy) -> None:
    run = repo.guarded()
    kinds: list[str] = []

    class Recording:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            kinds.extend(dict.fromkeys(key.split("/")[0] for key in keys))
            return self.inner.delete(keys)

    delete_by(Recording)
    bulk_delete(run, HERE)
    logs = ["transactions"] if repo.spec == 1 else []
    assert kinds == ["snapshots", *logs, "manifests", "chunks"]


@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_what_a_file_names_that_the_store_holds_stays_also_when_the_sweep_goes_on_after_a_kill(
    repo: Repo, delete_by: DeleteBy, kind: str
) -> None:
    before, reader = objects(repo.folder), open_reader(repo.uri)
    undisturbed = repo.collected(repo.folder.parent / "whole")
    held = min(before[kind] - undisturbed[kind])
    run = repo.guarded(tuning=Tuning(delete_keys=1))
    killed = [False]

    class Holding:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            if keys[0].startswith("chunks") and not killed[0]:
                killed[0] = True
                raise KeyboardInterrupt
            if keys == [f"{kind}/{held}"]:
                return [DeleteOutcome(keys[0], "kept", STORE_HOLD, "on hold")]
            return self.inner.delete(keys)

    manifests = [held] if kind == "manifests" else [*next(snapshot_rows(reader, [held])).manifests]
    chunks = set()
    for manifest in manifests:
        arrays = parse_manifest(reader.get(f"manifests/{manifest}"), manifest).arrays
        chunks |= {
            name for array in arrays for name in encode_ids(array.ids[array.kind == NATIVE]).to_pylist()
        }
    assert chunks - undisturbed["chunks"], "some would have gone"
    delete_by(Holding)
    with pytest.raises(KeyboardInterrupt):
        bulk_delete(run, HERE)
    summary = bulk_delete(run, HERE)
    left = objects(repo.folder)
    assert held in left[kind]
    assert {*manifests} <= left["manifests"]
    assert chunks <= left["chunks"]
    assert summary.counts["failed_objects"] == 0
    assert left["snapshots"] < before["snapshots"]
    verify(run)


def test_old_mark_is_not_swept(repo: Repo) -> None:
    run = repo.guarded(safety=Safety(mark_age_hours_max=0.0))
    before = objects(repo.folder)
    with pytest.raises(RefusedError):
        bulk_delete(run, HERE)
    assert objects(repo.folder) == before


def list_again(run: Run) -> None:
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))


def test_dry_run_does_not_count_what_its_guards_did_not_see(v1: Repo) -> None:
    run = v1.guarded(dry_run=True)
    list_again(run)
    with pytest.raises(RefusedError, match="list_candidates"):
        bulk_delete(run, HERE)


def test_sweep_looks_at_the_chain_again_after_it_looked_at_refs(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, honest = v1.guarded(), step.look_again
    before = objects(v1.folder)

    def look_again(*arguments: Any) -> Any:
        list_again(run)
        return honest(*arguments)

    monkeypatch.setattr(step, "look_again", look_again)
    with pytest.raises(RefusedError, match="list_candidates"):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before


def with_verdict(run: Run, verdict: str) -> Run:
    summary = check_limits(run)
    run.folder.write_summary(replace(summary, details={**summary.details, "verdict": verdict}))
    return run


@pytest.mark.parametrize("approval", ["never", "over_limits"])
@pytest.mark.parametrize("verdict", ["awaiting_approval", "refused"])
def test_sweep_deletes_nothing_when_the_guards_did_not_pass(v1: Repo, verdict: str, approval: str) -> None:
    run = with_verdict(v1.listed(approval=approval), verdict)
    before = objects(v1.folder)
    with pytest.raises(RefusedError):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before
