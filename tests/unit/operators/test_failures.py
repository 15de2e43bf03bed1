"""Why a task failed, in words that the last task of the run can repeat."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

from airflow_dredge.operators.lakefs.acquire_lease import LakeFSAcquireLeaseOperator
from airflow_dredge.operators.lakefs.mark_uncommitted import LakeFSMarkUncommittedOperator
from airflow_dredge.operators.lakefs.plan import LakeFSPlanRunOperator
from airflow_dredge.operators.lakefs.save_report import LakeFSSaveReportOperator
from dredge.errors import ConfigError, DefectError, RefusedError
from tests.support.airflow import FILTERS
from tests.support.lakefs_operators import Pushed

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


def failing_run() -> tuple[DAG, Pushed]:
    """A DAG in which the plan fails, and what its tasks push."""
    with DAG("d", schedule=None) as dag:
        lease = LakeFSAcquireLeaseOperator(task_id="acquire_lease", repository="lake")
        planned = LakeFSPlanRunOperator(
            task_id="plan", config={"repository": "lake", "min_age_hours": "many"}, aws_conn_id=None
        )
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
    monkeypatch.setattr(LakeFSPlanRunOperator, "checked", lambda *_: {}["window"])
    pushed.task_id = "plan"
    with pytest.raises(DefectError, match="task plan: KeyError: 'window'") as caught:
        dag.get_task("plan").execute({"ti": pushed})
    assert isinstance(caught.value.__cause__, KeyError)
    assert "Please report it" in pushed["plan", "failure"]


@pytest.mark.parametrize("error", [AirflowSkipException("skip"), MemoryError()])
def test_task_lets_airflows_own_words_pass(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def checked(*_: Any) -> None:
        raise error

    dag, pushed = failing_run()
    monkeypatch.setattr(LakeFSPlanRunOperator, "checked", checked)
    with pytest.raises(type(error)):
        dag.get_task("plan").execute({"ti": pushed})
    assert pushed == {}


def test_an_error_without_words_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(*_: Any) -> None:
        raise RefusedError

    dag, pushed = failing_run()
    pushed.task_id = "plan"
    monkeypatch.setattr(LakeFSPlanRunOperator, "checked", checked)
    with pytest.raises(RefusedError):
        dag.get_task("plan").execute({"ti": pushed})
    assert pushed["plan", "failure"] == "RefusedError"


def test_a_task_whose_words_cannot_be_left_fails_with_its_own_error() -> None:
    class Deaf(Pushed):
        def xcom_push(self, key: str, value: Any) -> None:
            raise ConnectionError("Airflow is away")

    dag, _ = failing_run()
    with pytest.raises(ConfigError, match="min_age_hours is 'many'"):
        dag.get_task("plan").execute({"ti": Deaf()})


def test_a_task_that_no_other_comes_before_says_where_to_look() -> None:
    task = LakeFSSaveReportOperator(task_id="save_report", run_uri="")
    context: Any = {"ti": Pushed()}
    with pytest.raises(RefusedError, match="before it could say why; see the log"):
        task.execute(context)
