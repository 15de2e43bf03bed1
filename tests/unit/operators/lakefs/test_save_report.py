"""The last task but one: it tells what became of the run, and fails with it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators import reporting
from airflow_dredge.operators.lakefs.run import LakeFSSaveReportOperator
from airflow_dredge.operators.reporting import EVENT, REPORT
from dredge.errors import AwaitingApprovalError, RefusedError, RejectedError
from dredge.gc import steps
from dredge.gc.run import Run
from tests.support.approvals import said, waiting_run
from tests.support.gc import make_world
from tests.support.lakefs_operators import Pushed, acquire, hooked, namespace_in, plan, release, summary


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return namespace_in(tmp_path)


def test_run_whose_failed_tasks_alone_were_cleared_gives_the_lease_back_with_its_report(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first task and its last are not among them, so nobody else would."""
    lease = acquire(namespace, "manual__1")
    planned = plan(namespace, lease)
    release(namespace, lease)
    run = steps.Run.open(planned["run_uri"])
    run.lease.renew(run.plan.lease)  # as the cleared tasks do
    done = summary(step="save_report", details={"outcome": "success", "page": "s3://b/r/report.html"})
    monkeypatch.setattr(steps, "save_report", lambda _: done)
    operator = LakeFSSaveReportOperator(task_id="save_report", run_uri=planned["run_uri"])
    hooked(operator, namespace).execute({"ti": Pushed()})
    assert acquire(namespace, "manual__2")["fencing"] == lease["fencing"] + 1


OUTLET = "dredge_lakefs_gc"


class Report:
    """The task of a run, and what it tells."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        self.counted: list[str] = []
        monkeypatch.setattr(
            reporting, "report_run", lambda summary, _: self.counted.append(summary.details["outcome"])
        )
        self.event, self.pushed = SimpleNamespace(extra=None), Pushed()
        self.operator: Any = LakeFSSaveReportOperator(
            task_id="save_report", run_uri=run.plan.run_uri, outlets=[OUTLET]
        )
        self.operator.open_run = lambda _: run

    def save(self) -> dict[str, Any]:
        context: Any = {"ti": self.pushed, "outlet_events": {OUTLET: self.event}}
        done: dict[str, Any] = self.operator.execute(context)
        assert self.operator.lineage.outcome == done["outcome"]
        return done


def test_a_run_whose_task_was_lost_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_world().plan()
    report = Report(monkeypatch, run)
    with pytest.raises(RefusedError):
        report.save()
    assert report.pushed["save_report", REPORT] == f"{run.folder.uri}/report.html"
    assert report.operator.lineage.report == report.pushed["save_report", REPORT]
    assert report.event.extra is None
    event = report.pushed["save_report", EVENT]
    assert (event["kind"], event["repository"], event["run"]) == ("unfinished", "lake", run.plan.run_id)
    assert event["report"] == report.pushed["save_report", REPORT]
    assert event["text"]
    assert len(report.counted) == 1


@pytest.mark.parametrize(
    ("by", "through", "ends_well"),
    [("eve", steps.AIRFLOW, True), ("", steps.TIME_OUT, False)],
)
def test_who_rejects_a_run_ends_it_well_and_who_does_not_answer_does_not(
    monkeypatch: pytest.MonkeyPatch, by: str, through: str, ends_well: bool
) -> None:
    world, run, _, _ = waiting_run()
    with pytest.raises(AwaitingApprovalError):
        steps.approve(run)
    said(run, "rejected", by=by, through=through)
    with pytest.raises(RejectedError):
        world.run(run)
    report = Report(monkeypatch, run)
    if ends_well:
        assert report.save()["outcome"] == "rejected"
        return
    with pytest.raises(RefusedError):
        report.save()


def test_a_run_that_came_to_no_plan_has_an_event_as_well() -> None:
    pushed = Pushed()
    operator = LakeFSSaveReportOperator(task_id="save_report", run_uri="", repository="lake")
    with pytest.raises(RefusedError):
        operator.execute({"ti": pushed})  # type: ignore[typeddict-item]
    event = pushed["save_report", EVENT]
    assert (event["kind"], event["repository"], event["run"]) == ("failed", "lake", "")


def test_a_run_that_waits_for_an_answer_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    _, run, _, _ = waiting_run()
    with pytest.raises(RefusedError):
        Report(monkeypatch, run).save()
