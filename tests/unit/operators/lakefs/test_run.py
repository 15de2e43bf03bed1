"""Lease, plan and report of a lakeFS run."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_dredge.operators import gates, reporting
from airflow_dredge.operators.lakefs.run import (
    LakeFSAcquireLeaseOperator,
    LakeFSPlanRunOperator,
    LakeFSSaveReportOperator,
)
from airflow_dredge.operators.reporting import EVENT, REPORT
from dredge.errors import AwaitingApprovalError, ConfigError, LeaseHeldError, RefusedError, RejectedError
from dredge.gc import steps
from dredge.gc.run import PLAN, Run
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json, to_json
from dredge.storage import open_writer
from tests.support.approvals import said, waiting_run
from tests.support.gc import make_world
from tests.support.lakefs_operators import Pushed, acquire, hooked, namespace_in, plan, release, summary


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return namespace_in(tmp_path)


def test_lease_keeps_a_second_run_out_until_it_is_given_back(namespace: str) -> None:
    first = acquire(namespace, "manual__1")
    with pytest.raises(AirflowRescheduleException):
        acquire(namespace, "manual__2")
    release(namespace, first)
    assert acquire(namespace, "manual__2")["fencing"] > first["fencing"]


def test_a_task_that_waits_for_a_run_that_is_gone_says_so(
    namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    acquire(namespace, "manual__1")
    with pytest.raises(AirflowRescheduleException):
        acquire(namespace, "manual__2")
    warned = [record for record in caplog.records if record.levelname == "WARNING"]
    assert any("manual__1" in record.getMessage() for record in warned)


def test_cleared_tasks_go_on_with_the_plan_under_a_new_lease(namespace: str) -> None:
    lease = acquire(namespace, "manual__1")
    planned = plan(namespace, lease)
    release(namespace, lease)
    again = acquire(namespace, "manual__1", planned["run_uri"])
    writer = open_writer(planned["run_uri"])
    stored = from_json(steps.Plan, read_json(writer, PLAN))
    assert stored.lease.fencing == again["fencing"] > lease["fencing"]
    assert stored.run_id == planned["run_id"]
    steps.Run.open(planned["run_uri"]).lease.check(stored.lease)


def test_a_try_of_the_first_task_that_was_lost_does_not_put_its_older_lease_back(namespace: str) -> None:
    """It took its lease, hung, and comes to the plan after the try that took over had handed over a newer one."""
    lease = acquire(namespace, "manual__1")
    planned = plan(namespace, lease)
    release(namespace, lease)
    lost = LakeFSAcquireLeaseOperator(
        task_id="acquire_lease", repository="lake", run_uri=planned["run_uri"], aws_conn_id=None
    )
    older = from_json(LeaseGrant, acquire(namespace, "manual__1"))
    newer = acquire(namespace, "manual__1", planned["run_uri"])
    lost._resume(older)
    run = steps.Run.open(planned["run_uri"])
    assert run.plan.lease.fencing == newer["fencing"] > older.fencing
    run.lease.check(run.plan.lease)


def test_another_dag_run_cannot_take_over_a_plan(namespace: str) -> None:
    lease = acquire(namespace, "manual__1")
    planned = plan(namespace, lease)
    release(namespace, lease)
    acquire(namespace, "manual__2", planned["run_uri"])
    folder = RunFolder(open_writer(planned["run_uri"]), planned["run_id"])
    assert folder.read_json(PLAN)["lease"]["fencing"] == lease["fencing"]


def test_a_plan_that_was_given_no_lease_takes_it_itself(namespace: str) -> None:
    lease = acquire(namespace, "manual__1")
    with pytest.raises(LeaseHeldError):
        plan(namespace, None)
    release(namespace, lease)
    run = steps.Run.open(plan(namespace, None)["run_uri"])
    run.lease.check(run.plan.lease)
    with pytest.raises(AirflowRescheduleException):
        acquire(namespace, "manual__2")


def test_the_spark_application_of_the_run_ends_before_the_lease(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = acquire(namespace, "manual__1")
    ended: list[str] = []

    def end(run_uri: str) -> None:
        ended.append(run_uri)
        with pytest.raises(AirflowRescheduleException):  # it still has it
            acquire(namespace, "manual__2")

    monkeypatch.setattr(gates, "end_applications", end)
    release(namespace, grant, run_uri="file:///nowhere/run")
    assert ended == ["file:///nowhere/run"]
    acquire(namespace, "manual__2")


def planning(**settings: Any) -> LakeFSPlanRunOperator:
    """The operator with rendered settings, and without a connection of a store."""
    own = {name: settings.pop(name) for name in ("kv_conn_id",) if name in settings}
    config = {"repository": "lake", **settings}
    return LakeFSPlanRunOperator(task_id="plan", config=config, aws_conn_id=None, **own)


@pytest.mark.parametrize("value", ["", "None", "no", "0", None])
def test_nothing_vague_is_taken_for_permission_to_delete(value: Any) -> None:
    with pytest.raises(ConfigError):
        planning(dry_run=value).checked()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dryrun", "False"),
        ("min_age_hours", "many"),
        ("min_age_hours", "1"),
        ("slice_margin_hours", "48"),
        ("max_delete_percent", "nan"),
        ("mode", "fast"),
        ("repository", ""),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(name: str, value: Any) -> None:
    operator = planning(**{name: value})
    operator.hook = None  # a server that nobody may ask
    with pytest.raises(ConfigError):
        operator.execute({})  # type: ignore[typeddict-item]


def test_plan_takes_the_policy_itself_along_and_of_the_database_only_that_there_is_one() -> None:
    operator = planning(
        keep_tags="False",
        retention_policy="version: 1\nkeep:\n  - {name: releases, branches: 'release-*', last: 3}\n",
        kv_conn_id="lakefs_kv_default",
    )
    config = operator.checked()
    assert config.keep_tags is False
    assert config.read_kv is True
    assert config.policy is not None
    assert [rule.name for rule in config.policy.rules] == ["releases"]
    assert "lakefs_kv_default" not in json.dumps(to_json(config))


def test_plan_is_a_dry_run_unless_told() -> None:
    assert planning().checked().dry_run


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
