"""Kind after kind is deleted, and what a kind ends with decides about those after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import RefusedError, RejectedError
from dredge.icechunk.collection.bulk_delete import step
from dredge.icechunk.collection.bulk_delete.deleting import DeleteConfig, DeleteResult, DeleteTask
from dredge.icechunk.collection.bulk_delete.step import _config, _delete_by_kind
from dredge.icechunk.collection.kinds import FOLDERS
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.runs.watch import Watch
from dredge.sets.live import LocatedSet, ShardedSet
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()
DONE = DeleteResult(stopped=False, failed=0, kept=0)
STOPPED, FAILED, KEPT = (
    DeleteResult(stopped=True, failed=0, kept=0),
    DeleteResult(stopped=False, failed=2, kept=0),
    DeleteResult(stopped=False, failed=0, kept=1),
)

type Spread = dict[str, tuple[list[DeleteTask], DeleteConfig, int]]


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.listed()


def record_of(run: Run, *more: PartInfo) -> StepRecord:
    marked, summary = (run.folder.read_summary(step.STEP) for step in (MarkOutput, ListCandidatesOutput))
    assert marked is not None
    assert summary is not None
    summary = replace(summary, parts=(*summary.parts, *more))
    attempt = StepTry.claim(run.folder.writer, "bulk_delete")
    return StepRecord({MarkOutput.STEP: marked, ListCandidatesOutput.STEP: summary}, attempt)


def swept(
    run: Run, monkeypatch: pytest.MonkeyPatch, ends: Callable[[str], list[DeleteResult]], *more: PartInfo
) -> tuple[Spread, list[str]]:
    """Which tasks of each kind were begun, where these end so; and what was looked up meanwhile."""
    given: Spread = {}
    looked: list[str] = []
    record = record_of(run, *more)
    kinds = iter(FOLDERS)

    def spread(
        _: Run, runner: Any, name: str, function: Any, config: Any, tasks: Any, unit: str, total: int
    ) -> Any:
        kind = next(kinds)
        assert {task.kind for task in tasks} <= {kind}
        given[kind] = (tasks, config, total)
        return ends(kind)

    def with_needs(_: Run, name: str, kept: set[str], *, passes_archived: bool) -> LocatedSet:
        assert passes_archived
        looked.append(",".join(sorted(kept)))
        return LocatedSet(f"named-{len(looked)}", ShardedSet(0, {}))

    def needed(_: Run) -> list[str]:
        looked.append("needed")
        return ["repo.x"]

    monkeypatch.setattr(Run, "spread", spread)
    monkeypatch.setattr(step, "with_needs", with_needs)
    monkeypatch.setattr(step, "_kept", lambda run, parts: {parts[0].name.rpartition("/")[2][:4]})
    monkeypatch.setattr(step, "_needed", needed)
    monkeypatch.setattr(step, "approval_of", lambda *asked: looked.append("approval"))
    with run.folder.writing(record.attempt):
        config = _config(run, record, {})
        _delete_by_kind(run, HERE, record, config, Watch(run.folder, run.state, "w", lambda: None))
    return given, looked


@pytest.mark.parametrize(
    "copies", [(), (PartInfo("list_candidates/overwritten-0000-00000.parquet", 2, 1, ""),)]
)
def test_every_candidate_is_in_one_task_of_its_kind_and_kinds_go_in_order(
    run: Run, monkeypatch: pytest.MonkeyPatch, copies: tuple[PartInfo, ...]
) -> None:
    candidates = record_of(run, *copies).input(ListCandidatesOutput)
    given, looked = swept(run, monkeypatch, lambda kind: [DONE], *copies)
    assert [*given] == [*FOLDERS]
    for kind, (tasks, config, total) in given.items():
        parts = [part for task in tasks for part in task.parts]
        assert sorted(part.name for part in parts) == sorted(
            part.name for part in candidates.candidates(kind)
        )
        assert total == sum(part.rows for part in parts)
        assert config.named == ()
        needed = ["repo.x"] if kind == "overwritten" and copies else []
        assert all(task.needed == needed for task in tasks)
    assert looked == (["needed"] if copies else [])


@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_kinds_after_one_that_failed_in_part_are_not_begun(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    given, _ = swept(run, monkeypatch, lambda other: [DONE, FAILED] if other == kind else [DONE])
    assert [*given] == [*FOLDERS][: [*FOLDERS].index(kind) + 1]


def test_task_that_stopped_ends_the_sweep_though_others_went_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def ends(kind: str) -> list[DeleteResult]:
        begun.append(kind)
        return [DONE, STOPPED]

    monkeypatch.setattr(step, "error_of_stop", lambda *_: RefusedError("a ref is back"))
    with pytest.raises(RefusedError):
        swept(run, monkeypatch, ends)
    assert begun == ["snapshots"]


def test_person_who_said_no_is_named_when_a_task_stopped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*_: object) -> RefusedError:
        raise AssertionError("somebody said no before")

    def said_no(*_: object) -> list[DeleteResult]:
        monkeypatch.setattr(step, "approval_of", rejected)
        return [STOPPED]

    def rejected(*_: object) -> None:
        raise RejectedError("somebody said no")

    monkeypatch.setattr(step, "error_of_stop", told)
    with pytest.raises(RejectedError):
        swept(run, monkeypatch, said_no)


def test_what_kept_snapshots_and_manifests_name_is_kept_by_the_kinds_after_them(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, looked = swept(run, monkeypatch, lambda kind: [DONE, KEPT])
    assert [name for name in looked if name != "needed"] == ["snap", "mani"]
    named = {kind: [one.uri for one in config.named] for kind, (_, config, _) in given.items()}
    assert named == {
        "snapshots": [],
        "transactions": ["named-1"],
        "manifests": ["named-1"],
        "chunks": ["named-1", "named-2"],
        "overwritten": ["named-1", "named-2"],
    }
