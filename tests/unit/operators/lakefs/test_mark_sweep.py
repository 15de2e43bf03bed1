"""Approval and deletion of a lakeFS run."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators import gates
from airflow_dredge.operators.lakefs.base import LakeFSKVSparkOperator
from airflow_dredge.operators.lakefs.mark_sweep import (
    LakeFSApproveOperator,
    LakeFSBulkDeleteOperator,
    LakeFSListCommittedOperator,
)
from airflow_dredge.operators.reporting import find_problem
from dredge.errors import AwaitingApprovalError, FormatError, RefusedError, RejectedError, UnavailableError
from dredge.gc import steps
from dredge.gc.approve import ApproveOutput
from dredge.gc.mark_uncommitted.kv_store import URL
from dredge.gc.run import Run
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions
from dredge.storage.options import S3_SETTINGS
from tests.support.airflow import connections
from tests.support.approvals import asked_again, said, waiting_run
from tests.support.gc import World, busy_world
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


NOTHING: Any = {}


class OfRun(LakeFSKVSparkOperator):
    """The task of a run; a job on Spark is done here."""

    def __init__(self, *, run: Run, **settings: Any) -> None:
        super().__init__(task_id=self.step, run_uri="a run", aws_conn_id=None, **settings)
        self.run = run
        self.hook = SimpleNamespace(env=lambda: {"LAKECTL": "lakefs-hunter2"})  # type: ignore[assignment]
        self.started: list[str] = []
        self.works = True

    def open_run(self, run_uri: str) -> Run:
        return self.run

    def submit(self, *_: Any) -> None:
        self.start("submit")

    def connect(self, _: Any) -> None:
        self.start("connect")

    def start(self, engine: str) -> None:
        self.started.append(engine)
        if self.works:
            getattr(steps, self.step)(self.run, LocalRunner())


class Sweep(OfRun, LakeFSBulkDeleteOperator):
    pass


class ListCommitted(OfRun, LakeFSListCommittedOperator):
    @property
    def rows_max(self) -> int:
        assert super().rows_max == 10_000
        return 3


def marked(**settings: Any) -> tuple[World, set[str], Run]:
    world, kept, gone = busy_world()
    assert len(gone) == 7
    run = world.plan(**settings)
    world.mark(run)
    return world, kept, run


def test_a_dry_run_starts_no_job_and_deletes_nothing() -> None:
    world, _, run = marked(dry_run=True)
    before, sweep = world.data(), Sweep(run=run)
    assert sweep.execute(NOTHING)["status"] == "dry_run"
    assert sweep.started == []
    assert world.data() == before


@pytest.mark.parametrize(
    ("settings", "started"),
    [
        ({}, ["submit"]),
        ({"spark_engine": "connect"}, ["connect"]),
        ({"spark_rows_min": 8}, ["submit"]),
        ({"spark_rows_min": 9}, []),
    ],
)
def test_a_job_deletes_the_candidates_and_the_worker_does_where_they_are_few(
    settings: dict[str, Any], started: list[str]
) -> None:
    world, kept, run = marked()
    sweep = Sweep(run=run, **settings)
    done = sweep.execute(NOTHING)
    assert (done["status"], done["counts"]["deleted_objects"]) == ("success", 7)
    assert (sweep.started, world.data()) == (started, kept)
    assert sweep.lineage is not None
    assert (sweep.lineage.run_id, sweep.lineage.figures["deleted_objects"]) == (run.plan.run_id, 7)


def test_a_step_with_more_rows_than_the_worker_takes_starts_anew_on_spark() -> None:
    world, _, _ = busy_world()
    run = world.plan()
    steps.slice_listing(run, LocalRunner())
    steps.mark_uncommitted(run)
    task = ListCommitted(run=run, spark_rows_min=1_000)
    assert (task.execute(NOTHING)["status"], task.started) == ("success", ["submit"])
    summary = run.folder.read_summary("list_committed")
    assert summary is not None
    assert (summary.try_number, summary.counts["range_rows"]) == (2, 4)
    assert run.folder.read_failure("list_committed") is None


def test_a_job_that_left_no_summary_is_no_success() -> None:
    sweep = Sweep(run=marked()[2])
    sweep.works = False
    with pytest.raises(FormatError):
        sweep.execute(NOTHING)


def test_work_in_the_worker_has_what_a_job_would_have() -> None:
    world, _, run = marked()
    run.options = StorageOptions(region="here", access_key_id="K", secret_access_key="store-hunter2")
    seen: dict[str, str] = {}
    world.client.before = lambda *_: seen.update(os.environ)
    sweep = Sweep(run=run, spark_rows_min=9, kv_conn_id="kv")
    with connections(kv={"conn_type": "sqlite", "host": "/kv.db"}):
        secrets = sweep.secrets(run)
        sweep.execute(NOTHING)
    own = {"LAKECTL": "lakefs-hunter2", URL: "sqlite:///kv.db"}
    assert own.items() <= secrets.items()
    told = StorageOptions.from_env(seen)
    assert (told.region, told.secret_access_key) == ("here", "store-hunter2")
    assert secrets.items() <= seen.items()
    assert not {*own, S3_SETTINGS} & os.environ.keys()
