"""The small operators: arguments, what they return, what they refuse."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSensorTimeout, AirflowSkipException

from dredge.errors import ConfigError, DefectError, FormatError, RefusedError
from dredge.gc import steps
from dredge.gc.plan import PLAN
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.summary import StepSummary
from dredge.storage import StorageOptions, open_writer
from operators.lakefs import base, save_report
from operators.lakefs.lease import LakeFSAcquireLeaseOperator, LakeFSReleaseLeaseOperator
from operators.lakefs.mark_uncommitted import LakeFSMarkUncommittedOperator
from operators.lakefs.plan import LakeFSPlanRunOperator, data_window, number, truth
from operators.lakefs.save_report import LakeFSSaveReportOperator, ReportLink
from tests.support.airflow import FILTERS

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


def summary(**changes: Any) -> StepSummary:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    values: dict[str, Any] = {
        "step": "mark_uncommitted",
        "run_id": "r",
        "status": "success",
        "counts": {"rows": 3},
    }
    return StepSummary(started_at=now, finished_at=now + timedelta(seconds=2), **(values | changes))


@pytest.mark.parametrize(
    ("value", "expected"), [("24", 24.0), (7, 7.0), ("None", None), ("", None), (None, None)]
)
def test_rendered_numbers(value: Any, expected: float | None) -> None:
    assert number("x", value) == expected


def test_rendered_text_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_delete_objects is 'many'"):
        number("max_delete_objects", "many")


@pytest.mark.parametrize(
    ("value", "expected"), [("True", True), ("false", False), (True, True), (False, False)]
)
def test_rendered_truth(value: Any, expected: bool) -> None:
    assert truth("x", value) is expected


@pytest.mark.parametrize("value", ["", "None", "no", "0", None])
def test_nothing_vague_is_taken_for_permission_to_delete(value: Any) -> None:
    with pytest.raises(ConfigError):
        truth("report_only", value)


def test_plan_is_a_dry_run_unless_told() -> None:
    assert LakeFSPlanRunOperator(task_id="plan", repository="lake").config().dry_run


def test_plan_reads_rendered_values() -> None:
    operator = LakeFSPlanRunOperator(
        task_id="plan",
        repository="lake",
        report_only="False",
        min_age_hours="48",
        unsafe_min_age_seconds="None",
        max_delete_objects="10",
        max_delete_percent="2.5",
        run_root="None",
    )
    config = operator.config()
    assert (config.dry_run, config.min_age_hours, config.max_delete_objects) == (False, 48.0, 10)
    assert (config.max_delete_percent, config.run_root, config.unsafe_min_age_seconds) == (2.5, None, None)


@pytest.mark.parametrize(("given", "days"), [("30", 30.0), ("None", None), ("", None), (90, 90.0)])
def test_plan_keeps_run_folders_for_as_long_as_asked(given: float | str, days: float | None) -> None:
    config = LakeFSPlanRunOperator(task_id="plan", repository="lake", keep_runs_days=given).config()
    assert config.keep_runs_days == days
    assert LakeFSPlanRunOperator(task_id="plan", repository="lake").config().keep_runs_days == 90


def test_plan_takes_the_policy_itself_along_and_of_the_database_only_that_there_is_one() -> None:
    operator = LakeFSPlanRunOperator(
        task_id="plan",
        repository="lake",
        keep_tags="False",
        retention_policy="version: 1\nkeep:\n  - {name: releases, branches: 'release-*', last: 3}\n",
        kv_conn_id="lakefs_kv_default",
        aws_conn_id=None,
    )
    config = operator.config()
    assert config.keep_tags is False
    assert config.read_kv is True
    assert config.policy is not None
    assert [rule.name for rule in config.policy.rules] == ["releases"]
    assert "lakefs_kv_default" not in json.dumps(config.to_json())


@pytest.mark.parametrize("empty", [None, "", "None", " "])
def test_plan_without_a_policy_keeps_tags_and_asks_the_server_only(empty: str | None) -> None:
    operator = LakeFSPlanRunOperator(task_id="plan", repository="lake", retention_policy=empty)
    config = operator.config()
    assert (config.keep_tags, config.policy, config.read_kv) == (True, None, False)


def test_plan_names_the_line_of_a_policy_that_is_wrong() -> None:
    operator = LakeFSPlanRunOperator(
        task_id="plan", repository="lake", retention_policy="version: 1\nkeep:\n  - last: 0\n"
    )
    with pytest.raises(ConfigError, match=r"retention_policy:3: "):
        operator.config()


def test_plan_refuses_a_minimum_age_below_a_day() -> None:
    with pytest.raises(ConfigError, match="min_age_hours is 1"):
        LakeFSPlanRunOperator(task_id="plan", repository="lake", min_age_hours="1").config()


def test_plan_reads_what_an_optimized_run_is_to_do() -> None:
    operator = LakeFSPlanRunOperator(
        task_id="plan",
        repository="lake",
        mode="optimized",
        slice_margin_hours="60.5",
        clean_every_days="7",
    )
    config = operator.config((WINDOW[0], WINDOW[1]))
    assert (config.mode, config.slice_margin_hours, config.clean_every_days) == ("optimized", 60.5, 7.0)
    assert config.window == WINDOW
    assert operator.config().window == (None, None)


def test_plan_refuses_a_margin_in_which_uploads_may_still_come_alive() -> None:
    operator = LakeFSPlanRunOperator(task_id="plan", repository="lake", slice_margin_hours="48")
    with pytest.raises(ConfigError, match="slice_margin_hours is 48"):
        operator.config()


WINDOW = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC))


@pytest.mark.parametrize("kind", ["scheduled", "backfill", DagRunType.SCHEDULED, DagRunType.BACKFILL])
def test_a_run_on_a_schedule_works_on_its_data_interval(kind: Any) -> None:
    assert data_window(started(kind, *WINDOW)) == WINDOW


@pytest.mark.parametrize("kind", ["manual", "asset_triggered", "operator_triggered", DagRunType.MANUAL])
def test_a_run_by_hand_works_on_everything_whatever_interval_it_is_given(kind: Any) -> None:
    assert data_window(started(kind, *WINDOW)) is None


@pytest.mark.parametrize("kind", ["manual", "scheduled", "backfill"])
def test_a_run_without_an_interval_works_on_everything(kind: str) -> None:
    assert data_window(started(kind, WINDOW[0], WINDOW[0])) is None
    assert data_window(started(kind, None, None)) is None
    assert data_window({"dag_run": SimpleNamespace(run_type=kind)}) is None  # type: ignore[typeddict-item]
    assert data_window({}) is None  # type: ignore[typeddict-item]


def started(kind: Any, begin: datetime | None, end: datetime | None) -> Any:
    run = SimpleNamespace(run_type=kind)
    return {"dag_run": run, "data_interval_start": begin, "data_interval_end": end}


def test_step_without_a_plan_says_where_to_look() -> None:
    operator = LakeFSMarkUncommittedOperator(task_id="m", run_uri="")
    with pytest.raises(ConfigError, match="no plan, because an earlier task failed"):
        operator.execute({})  # type: ignore[arg-type]


def test_step_returns_figures_and_sends_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    monkeypatch.setattr(base.stats, "gauge", lambda name, value, tags: sent.update({name: (value, tags)}))
    monkeypatch.setattr(base.stats, "timing", lambda name, value, tags: sent.update({name: (value, tags)}))
    returned = base.told("mark_uncommitted", summary(), "lake")
    assert returned["counts"] == {"rows": 3}
    assert sent == {
        "dredge.mark_uncommitted.rows": (3, {"repository": "lake"}),
        "dredge.mark_uncommitted.duration": (2000.0, {"repository": "lake"}),
    }


def failing_run() -> tuple[DAG, Pushed]:
    """A DAG in which the plan fails, and what its tasks push."""
    with DAG("d", schedule=None) as dag:
        lease = LakeFSAcquireLeaseOperator(task_id="acquire_lease", repository="lake")
        planned = LakeFSPlanRunOperator(task_id="plan", repository="lake", min_age_hours="many")
        step = LakeFSMarkUncommittedOperator(task_id="mark_uncommitted", run_uri="")
        report = LakeFSSaveReportOperator(task_id="save_report", run_uri="", trigger_rule="all_done")
        lease >> planned >> step >> report
    return dag, Pushed()


def test_report_of_a_run_without_a_plan_says_the_first_error() -> None:
    dag, pushed = failing_run()
    for task_id in ("plan", "mark_uncommitted"):
        pushed.task_id = task_id
        with pytest.raises(ConfigError):
            dag.get_task(task_id).execute({"ti": pushed})
    with pytest.raises(RefusedError, match=r"nothing was deleted\. .* task plan: min_age_hours is 'many'"):
        dag.get_task("save_report").execute({"ti": pushed})


def test_report_of_a_run_whose_worker_was_lost_says_where_to_look() -> None:
    dag, pushed = failing_run()
    with pytest.raises(RefusedError, match="before it could say why; see the log"):
        dag.get_task("save_report").execute({"ti": pushed})


def test_task_reports_what_nobody_foresaw_as_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    dag, pushed = failing_run()
    monkeypatch.setattr(LakeFSPlanRunOperator, "config", lambda *_: {}["window"])
    pushed.task_id = "plan"
    with pytest.raises(DefectError, match="task plan: KeyError: 'window'") as caught:
        dag.get_task("plan").execute({"ti": pushed})
    assert isinstance(caught.value.__cause__, KeyError)
    assert "Please report it" in pushed["plan", "failure"]


@pytest.mark.parametrize("error", [AirflowSkipException("skip"), MemoryError()])
def test_task_lets_airflows_own_words_pass(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def config(*_: Any) -> None:
        raise error

    dag, pushed = failing_run()
    monkeypatch.setattr(LakeFSPlanRunOperator, "config", config)
    with pytest.raises(type(error)):
        dag.get_task("plan").execute({"ti": pushed})
    assert pushed == {}


class Pushed(dict[Any, Any]):
    """A task instance that only keeps what is pushed."""

    task_id = "save_report"

    def xcom_push(self, key: str, value: Any) -> None:
        self[self.task_id, key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return self.get((task_ids, key))


@pytest.mark.parametrize("outcome", ["failed", "awaiting_approval", "refused", "partial", "unfinished"])
def test_report_of_a_run_that_did_not_end_well_fails_the_task_but_keeps_its_link(
    monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    folder = SimpleNamespace(read_json=lambda name: {"problems": ["guard: too many objects"]})
    run = SimpleNamespace(plan=SimpleNamespace(run_id="r", repository="lake"), folder=folder)
    done = summary(step="save_report", details={"outcome": outcome, "page": "s3://b/r/report.html"})
    monkeypatch.setattr(save_report, "open_run", lambda *_: run)
    monkeypatch.setattr(save_report.steps, "finish_run", lambda _: done)
    released: list[Any] = []
    monkeypatch.setattr(save_report.steps, "release_lease", released.append)
    pushed = Pushed()
    operator = LakeFSSaveReportOperator(task_id="save_report", run_uri="s3://b/r")
    with pytest.raises(RefusedError, match=f"run r is {outcome}. guard: too many objects"):
        operator.execute({"ti": pushed})  # type: ignore[typeddict-item]
    assert pushed["save_report", "report_uri"] == "s3://b/r/report.html"
    assert released == [run]


def test_link_leads_to_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_report.XCom, "get_value", lambda ti_key, key: "s3://b/r/report.html")
    assert ReportLink().get_link(None, ti_key=None) == "s3://b/r/report.html"  # type: ignore[arg-type]
    monkeypatch.setattr(save_report.XCom, "get_value", lambda ti_key, key: None)
    assert ReportLink().get_link(None, ti_key=None) == ""  # type: ignore[arg-type]


class FakeServer:
    """A lakeFS with one repository."""

    def __init__(self, namespace: str) -> None:
        self.found = SimpleNamespace(name="lake", namespace=namespace, default_branch="main", read_only=False)

    def repository(self, name: str) -> Any:
        return self.found

    def clock(self) -> None:
        return None

    def repositories(self) -> list[Any]:
        return [self.found]


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    (tmp_path / "lake").mkdir()
    return f"file://{tmp_path}/lake"


def hooked(operator: Any, namespace: str) -> Any:
    operator.hook = SimpleNamespace(client=FakeServer(namespace))
    operator.aws_conn_id = None
    return operator


def acquire(namespace: str, run_id: str, run_uri: str = "", **settings: Any) -> dict[str, Any]:
    operator = LakeFSAcquireLeaseOperator(
        task_id="acquire_lease", repository="lake", run_uri=run_uri, **settings
    )
    returned: dict[str, Any] = hooked(operator, namespace).execute({"run_id": run_id, "ti": FirstTry()})
    return returned


class FirstTry:
    """A task that has not waited before."""

    def get_first_reschedule_date(self, _context: Any) -> None:
        return None


def release(namespace: str, grant: Any) -> Any:
    return hooked(LakeFSReleaseLeaseOperator(task_id="release_lease", grant=grant), namespace).execute({})


def plan(namespace: str, lease: dict[str, Any]) -> dict[str, Any]:
    operator = LakeFSPlanRunOperator(task_id="plan", repository="lake", lease=lease, report_only=False)
    returned: dict[str, Any] = hooked(operator, namespace).execute({})
    return returned


def test_lease_keeps_a_second_run_out_until_it_is_given_back(namespace: str) -> None:
    first = acquire(namespace, "manual__1")
    with pytest.raises(AirflowRescheduleException):
        acquire(namespace, "manual__2")
    release(namespace, first)
    assert acquire(namespace, "manual__2")["fencing"] > first["fencing"]


def test_waiting_for_another_run_ends_some_time(namespace: str) -> None:
    acquire(namespace, "manual__1")
    with pytest.raises(AirflowSensorTimeout):
        acquire(namespace, "manual__2", timeout=0)


def test_lease_object_that_cannot_be_read_is_no_reason_to_wait(namespace: str) -> None:
    acquire(namespace, "manual__1")
    open_writer(f"{namespace}/_lakefs/retention/gc/dredge").put("lease.json", b"what")
    with pytest.raises(FormatError):
        acquire(namespace, "manual__2")


def test_second_try_of_the_same_run_is_not_locked_out_by_the_first(namespace: str) -> None:
    first = acquire(namespace, "manual__1")
    assert acquire(namespace, "manual__1")["fencing"] == first["fencing"] + 1


def test_late_release_leaves_the_lease_of_the_next_run_alone(namespace: str) -> None:
    first = acquire(namespace, "manual__1")
    release(namespace, first)
    acquire(namespace, "manual__2")
    release(namespace, first)
    with pytest.raises(AirflowRescheduleException):
        acquire(namespace, "manual__3")


def test_release_without_a_lease_says_so(namespace: str) -> None:
    with pytest.raises(ConfigError, match="no lease was taken"):
        release(namespace, None)


def test_cleared_tasks_go_on_with_the_plan_under_a_new_lease(namespace: str) -> None:
    lease = acquire(namespace, "manual__1")
    planned = plan(namespace, lease)
    release(namespace, lease)
    again = acquire(namespace, "manual__1", planned["run_uri"])
    writer = open_writer(planned["run_uri"])
    stored = steps.Plan.from_json(read_json(writer, PLAN))
    assert stored.lease.fencing == again["fencing"] > lease["fencing"]
    assert stored.run_id == planned["run_id"]
    steps.Run.open(planned["run_uri"]).lease.check(stored.lease)


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
    monkeypatch.setattr(save_report.steps, "finish_run", lambda _: done)
    operator = LakeFSSaveReportOperator(task_id="save_report", run_uri=planned["run_uri"])
    hooked(operator, namespace).execute({"ti": Pushed()})
    assert acquire(namespace, "manual__2")["fencing"] == lease["fencing"] + 1


def test_another_dag_run_cannot_take_over_a_plan(namespace: str) -> None:
    lease = acquire(namespace, "manual__1")
    planned = plan(namespace, lease)
    release(namespace, lease)
    acquire(namespace, "manual__2", planned["run_uri"])
    folder = RunFolder(open_writer(planned["run_uri"]), planned["run_id"])
    assert folder.read_json(PLAN)["lease"]["fencing"] == lease["fencing"]


def test_lease_is_taken_even_when_the_folder_of_an_earlier_try_is_gone(
    namespace: str, tmp_path: Path
) -> None:
    assert acquire(namespace, "manual__1", f"file://{tmp_path}/gone")["fencing"] == 1


def test_tasks_in_the_worker_see_the_stores_credentials_only_while_the_step_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "before")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    options = StorageOptions(region="inside", access_key_id="K", secret_access_key="hunter2")
    with base.tasks_environment(SimpleNamespace(options=options)):  # type: ignore[arg-type]
        seen = StorageOptions.from_env()
    assert (seen.region, seen.access_key_id, seen.secret_access_key) == ("inside", "K", "hunter2")
    assert os.environ["AWS_REGION"] == "before"
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ
