"""The task that asks a person: what Airflow is told, what its answers become, and what nobody's answer does."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators import gates
from airflow_dredge.operators.lakefs.mark_sweep import LakeFSApproveOperator
from airflow_dredge.operators.reporting import find_problem
from dredge.errors import AwaitingApprovalError, RefusedError, RejectedError, UnavailableError
from dredge.gc.approve import ApproveOutput
from dredge.gc.run import Run
from tests.support.approvals import asked_again, said, waiting_run
from tests.support.gc import World
from tests.support.lakefs_operators import ApprovalTask
from tests.support.memory_store import MemoryWriter

ADA = {"id": "ada", "name": "Ada"}


class Task(ApprovalTask):
    def __init__(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        operator: Any = LakeFSApproveOperator(task_id="approve", run_uri=run.plan.run_uri)
        operator.open = lambda: run
        super().__init__(operator, "bulk_delete", monkeypatch)

    def answered(self, option: str, user: dict[str, str] | None = ADA) -> Any:
        return super().answered(option, user)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> tuple[World, Run, Task]:
    world, run, _, _ = waiting_run(approval_hours=3)
    return world, run, Task(monkeypatch, run)


def test_it_asks_for_as_long_as_the_run_may_wait_and_no_answer_is_a_no(
    waiting: tuple[World, Run, Task],
) -> None:
    _, run, task = waiting
    parked = task.wait()
    assert parked.timeout.total_seconds() == 3 * 3600
    (asked,) = task.asked
    assert "7 objects" in asked["subject"]
    assert (asked["options"], asked["defaults"], asked["multiple"]) == (
        ["Approve", "Reject"],
        ["Reject"],
        False,
    )
    assert asked["assigned_users"] is None
    assert task.pushed["save_report", "report_uri"] == f"{run.folder.uri}/report.html"


def test_approvers_are_the_assigned_users(monkeypatch: pytest.MonkeyPatch) -> None:
    _, run, _, _ = waiting_run(approvers="ada, bob")
    task = Task(monkeypatch, run)
    task.wait()
    assert task.asked[0]["assigned_users"] == [{"id": "ada", "name": "ada"}, {"id": "bob", "name": "bob"}]
    with pytest.raises(RefusedError):
        task.answered("Approve", {"id": "eve", "name": "Ada"})
    assert task.answered("Approve")["status"] == "success"


def test_a_yes_is_written_down_before_the_task_ends(waiting: tuple[World, Run, Task]) -> None:
    world, run, task = waiting
    task.wait()
    assert task.answered("Approve")["status"] == "success"
    assert task.skipped == []
    world.run(run)
    (key,) = (
        key
        for batch in run.folder.writer.list("approve/")
        for key in batch["key"].to_pylist()
        if key.endswith("/approved.json")
    )
    assert run.folder.read_json(key)["by"] == "ada"


def test_a_no_skips_what_deletes_and_nothing_that_cleans_up(waiting: tuple[World, Run, Task]) -> None:
    world, run, task = waiting
    before = world.data()
    task.wait()
    assert task.answered("Reject")["status"] == "rejected"
    assert task.skipped == ["bulk_delete"]
    with pytest.raises(RejectedError):
        world.run(run)
    assert world.data() == before


def test_no_answer_in_time_rejects_the_run(waiting: tuple[World, Run, Task]) -> None:
    world, run, task = waiting
    task.wait()
    assert task.answered("Reject", None)["status"] == "rejected"
    with pytest.raises(RejectedError):
        world.run(run)


def test_a_yes_of_nobody_is_a_no(waiting: tuple[World, Run, Task]) -> None:
    """What a task is told without a user is a default or a forgery."""
    _, _, task = waiting
    task.wait()
    assert task.answered("Approve", None)["status"] == "rejected"


def test_a_command_has_answered_before_the_time_is_over(waiting: tuple[World, Run, Task]) -> None:
    _, run, task = waiting
    task.wait()
    said(run, by="ada", through=ApproveOutput.COMMAND)
    assert task.answered("Reject", None)["status"] == "success"


def test_a_cleared_task_takes_the_answer_that_stands(waiting: tuple[World, Run, Task]) -> None:
    _, run, task = waiting
    task.wait()
    said(run, by="ada", through=ApproveOutput.COMMAND)
    assert task.start()["status"] == "success"
    assert len(task.asked) == 1
    said(run, "rejected", by="eve", through=ApproveOutput.COMMAND)
    assert task.start()["status"] == "rejected"
    assert task.skipped == ["bulk_delete"]


def test_a_yes_is_one_to_what_the_task_asked_and_not_to_what_the_run_asks_by_now(
    waiting: tuple[World, Run, Task],
) -> None:
    """The task still waits while an earlier one is done again: what was shown is not what would go."""
    world, run, task = waiting
    task.wait()
    asked_again(world, run)
    before = world.data()
    with pytest.raises(RefusedError):
        task.answered("Approve")
    with pytest.raises(AwaitingApprovalError):
        world.run(run)
    assert world.data() == before


def test_a_task_that_is_tried_again_while_nobody_has_answered_asks_for_the_time_that_is_left(
    waiting: tuple[World, Run, Task],
) -> None:
    world, _, task = waiting
    task.wait()
    world.age(hours=1)
    assert task.wait().timeout.total_seconds() == 2 * 3600


def test_a_no_that_cannot_be_written_down_never_becomes_a_question_again(
    waiting: tuple[World, Run, Task], stand_in: Any
) -> None:
    """A retry starts the task anew, and Airflow has forgotten the answer by then."""
    _, _, task = waiting
    task.wait()

    def down(*_: object) -> None:
        raise UnavailableError("503")

    stand_in(MemoryWriter.put_if_absent, down)
    with pytest.raises(RejectedError):
        task.answered("Reject")
    with pytest.raises(UnavailableError):
        task.answered("Approve")


def test_where_nobody_can_answer_it_does_not_wait(
    waiting: tuple[World, Run, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, task = waiting
    monkeypatch.setattr(gates, "_in_dag_test", lambda: True)
    with pytest.raises(AwaitingApprovalError):
        task.start()
    assert task.asked == []


@pytest.mark.parametrize(
    ("approval", "is_so"),
    [
        ({"state": "rejected", "by": "eve"}, True),
        ({"state": "rejected", "by": ""}, False),
        ({"state": "approved", "by": "ada"}, False),
        ({"state": "awaiting", "by": None}, False),
        (None, False),
    ],
)
def test_only_a_person_who_rejects_says_no(approval: Any, is_so: bool) -> None:
    report = {"approval": approval, "problems": ["it was rejected"]}
    assert (find_problem("rejected", lambda: report) == "") is is_so


def test_an_airflow_that_cannot_ask_fails_the_task_and_names_the_command(
    waiting: tuple[World, Run, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run, task = waiting
    monkeypatch.setattr(gates, "CAN_ASK", False)
    with pytest.raises(AwaitingApprovalError, match="dredge gc approve"):
        task.start()
    assert task.asked == []
    said(run, "approved")
    assert task.start()["status"] == "success"
