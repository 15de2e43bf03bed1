"""Tasks of an Icechunk collection."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.icechunk.base import IcechunkSparkOperator
from airflow_dredge.operators.icechunk.collection import (
    IcechunkApproveOperator,
    IcechunkCollectOperator,
    IcechunkMarkOperator,
    IcechunkPlanCollectionOperator,
    IcechunkSaveReportOperator,
)
from airflow_dredge.operators.reporting import REPORT
from dredge.errors import (
    ConfigError,
    DredgeError,
    LeaseHeldError,
    RefusedError,
    RejectedError,
)
from dredge.icechunk.collection.steps import (
    Run,
    find_garbage,
    run_steps,
)
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk import objects
from tests.support.icechunk_operators import NOTHING, Dated, acquire, plan
from tests.support.icechunk_repo import Repo
from tests.support.lakefs_operators import ApprovalTask, Pushed


def test_a_plan_of_nobody_waits_for_no_right_that_it_was_given(dated: Dated) -> None:
    """A plan without a lease of its run takes the right itself: beside another run there is none."""
    before = objects(dated.repo.folder)
    acquire(dated.repo, "manual__1")
    with pytest.raises(DredgeError):
        plan(dated.repo)
    assert objects(dated.repo.folder) == before


@pytest.mark.parametrize(
    "settings",
    [
        {"min_age_hours": "23"},
        {"grace_hours": "-1"},
        {"max_delete_percent": "101"},
        {"older_than": "30d"},
        {"dry_run": ""},
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(settings: Any) -> None:
    operator = IcechunkPlanCollectionOperator(
        task_id="plan_collection", storage="file:///repo", config=settings, aws_conn_id=None
    )
    with pytest.raises(ConfigError):
        operator.execute(NOTHING)


def test_the_plan_is_one_under_the_right_of_the_run(dated: Dated) -> None:
    lease = acquire(dated.repo, "manual__1")
    made = plan(dated.repo, lease, mode="spark", dry_run="False")
    run = Run.open(made["run_uri"])
    assert (made["run_id"], made["mode"], made["dry_run"]) == (run.plan.run_id, "spark", False)
    assert made["cutoff"] == run.plan.cutoff.isoformat()
    assert run.plan.lease.fencing == lease["fencing"]
    with pytest.raises(LeaseHeldError):
        plan(dated.repo, mode="local")
    with pytest.raises(ConfigError):
        plan(dated.repo, lease, mode="library")


WORK: dict[str, Any] = {"icechunk_mark": find_garbage, "icechunk_collect": run_steps}


def work(kind: type[IcechunkSparkOperator], planned: Any) -> dict[str, Any]:
    operator = kind(task_id=kind.step, plan=planned, aws_conn_id=None)
    done = operator.execute(NOTHING)
    assert operator.lineage is not None
    assert operator.lineage.run_id == planned["run_id"]
    return done


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Jobs, by step and run; each does its work here."""
    found: list[tuple[str, str]] = []

    def submit(operator: IcechunkSparkOperator, _secrets: Mapping[str, str]) -> None:
        found.append((operator.step, operator.run_uri))
        WORK[operator.step](Run.open(operator.run_uri), LocalRunner())

    monkeypatch.setattr(IcechunkSparkOperator, "submit", submit)
    return found


@pytest.mark.parametrize("mode", ["local", "spark"])
def test_what_is_garbage_is_marked_and_then_collected(
    garbage: Repo, started: list[tuple[str, str]], mode: str
) -> None:
    before = objects(garbage.folder)
    planned = plan(garbage, mode=mode, dry_run=False)
    marked = work(IcechunkMarkOperator, planned)
    assert marked["counts"]["deletable_objects"] == 20
    assert objects(garbage.folder) == before
    collected = work(IcechunkCollectOperator, planned)
    assert collected["counts"]["deleted_objects"] == 20
    assert sum(map(len, before.values())) - sum(map(len, objects(garbage.folder).values())) == 20
    steps = [("icechunk_mark", planned["run_uri"]), ("icechunk_collect", planned["run_uri"])]
    assert started == (steps if mode == "spark" else [])


ADA = {"id": "ada", "name": "Ada"}
HERE = LocalRunner()


@pytest.fixture
def repo(garbage: Repo) -> Repo:
    return garbage


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


def test_a_collection_whose_task_was_lost_is_no_success_and_gives_its_right_back(garbage: Repo) -> None:
    planned = plan(garbage, dry_run=False)
    pushed, event = Pushed(), SimpleNamespace(extra=None)
    context: Any = {"ti": pushed, "outlet_events": {"dredge_icechunk": event}}
    operator = IcechunkSaveReportOperator(
        task_id="save_report",
        storage=garbage.uri,
        plan=planned,
        aws_conn_id=None,
        outlets=["dredge_icechunk"],
    )
    with pytest.raises(RefusedError):
        operator.execute(context)
    assert operator.lineage is not None
    assert operator.lineage.run_id == planned["run_id"]
    assert pushed["save_report", REPORT] == f"{planned['run_uri']}/report.html"
    assert event.extra is None
    assert make_lease(open_state(garbage.uri)).acquire("the next run").holder == "the next run"
