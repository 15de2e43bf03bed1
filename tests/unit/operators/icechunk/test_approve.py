"""The task that asks about a collection of Icechunk; what it shares is in tests/unit/operators/lakefs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_dredge.operators.icechunk.approve import IcechunkApproveOperator
from dredge.errors import AwaitingApprovalError, ConfigError, RefusedError, RejectedError
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.steps import approve, check_limits, run_steps
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo, expired_sample
from tests.support.lakefs_operators import ApprovalTask

ADA = {"id": "ada", "name": "Ada"}
HERE = LocalRunner()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return expired_sample(tmp_path / "repo", 1)


class Task(ApprovalTask):
    def __init__(self, monkeypatch: pytest.MonkeyPatch, repo: Repo) -> None:
        self.run = repo.guarded(max_delete_objects=0, approvers="ada")
        operator = IcechunkApproveOperator(task_id="approve", run_uri=self.run.plan.run_uri, aws_conn_id=None)
        super().__init__(operator, "collect", monkeypatch)

    def answered(self, option: str, user: dict[str, str] | None = ADA) -> Any:
        return super().answered(option, user)


def test_a_person_is_shown_what_would_go_and_a_yes_lets_it_go(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due, before = repo.collected(tmp_path / "other"), objects(repo.folder)
    task = Task(monkeypatch, repo)
    task.wait()
    (asked,) = task.asked
    assert repo.uri in asked["subject"]
    assert (asked["defaults"], asked["assigned_users"]) == (["Reject"], [{"id": "ada", "name": "ada"}])
    with pytest.raises(RefusedError):
        task.answered("Approve", {"id": "eve", "name": "Ada"})
    assert objects(repo.folder) == before
    assert task.answered("Approve")["status"] == "success"
    run_steps(task.run, HERE)
    assert objects(repo.folder) == due
    assert task.skipped == []


@pytest.mark.parametrize("user", [ADA, None])
def test_a_no_and_no_answer_skip_what_deletes(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, user: dict[str, str] | None
) -> None:
    before = objects(repo.folder)
    task = Task(monkeypatch, repo)
    task.wait()
    assert task.answered("Reject", user)["status"] == "rejected"
    assert task.skipped == ["collect"]
    with pytest.raises(RejectedError):
        run_steps(task.run, HERE)
    assert objects(repo.folder) == before


def test_a_yes_is_one_to_what_the_task_asked(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task still waits while the guards of the run look again, at a listing that was done anew."""
    before = objects(repo.folder)
    task = Task(monkeypatch, repo)
    task.wait()
    listed = task.run.folder.read_summary(ListCandidatesOutput.STEP)
    assert listed is not None
    task.run.folder.write_summary(replace(listed, details={**listed.details, "made": "again"}))
    check_limits(task.run)
    with pytest.raises(AwaitingApprovalError):
        approve(task.run)
    with pytest.raises(RefusedError):
        task.answered("Approve")
    with pytest.raises(AwaitingApprovalError):
        run_steps(task.run, HERE)
    assert objects(repo.folder) == before


def test_without_a_plan_nobody_is_asked() -> None:
    task = IcechunkApproveOperator(task_id="approve", run_uri="", aws_conn_id=None)
    with pytest.raises(ConfigError):
        task.execute({})  # type: ignore[typeddict-item]
