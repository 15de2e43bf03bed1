"""A run with a question deletes only after a yes to its candidates, and never after a no."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.approve.records import AIRFLOW, Asked, Decision
from dredge.errors import AwaitingApprovalError, LeaseHeldError, RefusedError, RejectedError
from dredge.icechunk.collection.config import Safety, Tuning
from dredge.icechunk.collection.outputs import ListCandidatesOutput, StateOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import (
    answer,
    approve,
    bulk_delete,
    check_limits,
    find_question,
    put_question,
    read_report,
    run_steps,
    save_report,
)
from dredge.icechunk.maintenance import make_lease
from dredge.runs.tasks import LocalRunner
from tests.support.gc import deleting
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo, until_shut

HERE = LocalRunner()


def waiting(repo: Repo, **settings: Any) -> Run:
    run = repo.guarded(**{"max_delete_objects": 0, **settings})
    with pytest.raises(
        AwaitingApprovalError, match=r"awaits approval until .*`dredge icechunk approve file://"
    ):
        approve(run)
    return run


def said(run: Run, decision: Decision = "approved", by: str = "ada", through: str = AIRFLOW) -> Asked:
    return answer(run, decision, by, through)


def approved(repo: Repo, **settings: Any) -> Run:
    run = waiting(repo, **settings)
    said(run)
    assert approve(run) is not None
    return run


@pytest.mark.parametrize(
    ("settings", "asks"),
    [
        ({}, False),
        ({"max_delete_objects": 20}, False),
        ({"max_delete_objects": 14}, True),
        ({"approval": "always"}, True),
        ({"approval": "always", "dry_run": True}, False),
        ({"max_delete_objects": 0, "dry_run": True}, False),
    ],
)
def test_a_run_asks_only_where_it_has_to_and_else_leaves_nothing(
    repo: Repo, settings: dict[str, Any], asks: bool
) -> None:
    run = repo.guarded(**settings)
    if asks:
        with pytest.raises(AwaitingApprovalError):
            approve(run)
    else:
        assert approve(run) is None
    left = [key for batch in run.folder.writer.list("approve/") for key in batch["key"].to_pylist()]
    assert any(key.endswith("/request.json") for key in left) is asks


def test_nothing_goes_before_a_yes_and_then_the_garbage_and_nothing_else(repo: Repo, tmp_path: Path) -> None:
    before, due = objects(repo.folder), repo.collected(tmp_path)
    readable = {name: contents(repo.library, branch=name) for name in repo.library.list_branches()}
    run = waiting(repo)
    with pytest.raises(AwaitingApprovalError):
        run_steps(run, HERE)
    with pytest.raises(RefusedError, match="approve"):
        bulk_delete(run, HERE)
    save_report(run)
    report = read_report(run)
    assert (report["outcome"], report["approval"]["state"]) == ("awaiting_approval", "waiting")
    assert "approve" in report["what_to_do"]
    assert objects(repo.folder) == before
    said(run)
    run_steps(run, HERE)
    save_report(run)
    assert objects(repo.folder) == due
    assert {name: contents(repo.library, branch=name) for name in repo.library.list_branches()} == readable
    report = read_report(run)
    assert (report["outcome"], report["approval"]["by"]) == ("success", "ada")
    assert "ada (Airflow)" in run.folder.writer.get("report.html").decode()
    assert run.folder.read_summary(StateOutput.STEP) is not None, "the next run builds on it"


def test_the_question_names_the_candidates_that_were_listed(v1: Repo) -> None:
    run = waiting(v1)
    listed = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert listed is not None
    assert find_question(run).request.candidates == listed.digest


def _records(run: Run) -> list[str]:
    return [key for batch in run.folder.writer.list("approve/") for key in batch["key"].to_pylist()]


def test_the_step_itself_lets_nobody_delete(v1: Repo) -> None:
    run, before = waiting(v1), objects(v1.folder)
    incomplete = run.folder.read_incomplete("approve")
    assert incomplete is not None
    run.folder.write_summary(replace(incomplete, status="success"))
    with pytest.raises(RefusedError):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before


def test_a_no_stops_a_sweep_that_has_begun(v1: Repo, tmp_path: Path) -> None:
    due, before = v1.collected(tmp_path), objects(v1.folder)
    run = approved(v1, safety=Safety(gate_every_seconds=0.01), tuning=Tuning(delete_keys=1))

    def stop(number: int, _keys: object) -> None:
        if number == 3:
            said(run, "rejected", by="eve")
            until_shut(run)

    with deleting(before=stop), pytest.raises((RejectedError, RefusedError), match="eve"):
        bulk_delete(run, HERE)
    left = objects(v1.folder)
    gone = sum(len(before[kind] - left[kind]) for kind in before)
    assert 0 < gone <= 3
    assert all(due[kind] <= left[kind] for kind in due)
    save_report(run)
    assert read_report(run)["outcome"] == "partial"


@pytest.mark.parametrize("settings", [{"approval": "always"}, {"max_delete_objects": 0}])
def test_nobody_can_approve_what_may_be_a_true_object(
    v1: Repo, tmp_path: Path, settings: dict[str, Any]
) -> None:
    lost = sorted(v1.collected(tmp_path)["chunks"])[0]
    (v1.folder / "chunks" / lost).unlink()
    before = objects(v1.folder)
    run = v1.listed(**settings)
    for step in (check_limits, approve, lambda run: run_steps(run, HERE)):
        with pytest.raises(RefusedError):
            step(run)
    assert not any(key.endswith("/request.json") for key in _records(run))
    save_report(run)
    assert read_report(run)["outcome"] == "refused"
    assert objects(v1.folder) == before


def test_beyond_its_limits_a_run_that_may_ask_nobody_fails(v1: Repo) -> None:
    run = v1.listed(max_delete_objects=0, approval="never")
    with pytest.raises(RefusedError, match="max_objects"):
        check_limits(run)
    with pytest.raises(RefusedError):
        approve(run)


def test_a_run_that_waits_keeps_its_repository_until_its_time_is_over(v1: Repo) -> None:
    run = waiting(v1, approval_hours=3)
    question = put_question(run)
    held = json.loads(run.state.get("lease.json"))
    assert datetime.fromisoformat(held["expires_at"]) > question.answer_until
    with pytest.raises(LeaseHeldError):
        make_lease(run.state).acquire("another")
