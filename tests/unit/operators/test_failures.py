"""Retries by error family, and the error message that later tasks of the run repeat."""

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowSkipException

from airflow_dredge.operators.failures import RETRY_BY_FAMILY
from airflow_dredge.operators.lakefs.mark_sweep import LakeFSMarkUncommittedOperator
from airflow_dredge.operators.lakefs.run import (
    LakeFSAcquireLeaseOperator,
    LakeFSPlanRunOperator,
    LakeFSSaveReportOperator,
)
from dredge import errors
from dredge.errors import ConfigError, DefectError, RefusedError
from tests.support.lakefs_operators import Pushed

EXPECTED = {
    errors.ConfigError: RetryAction.FAIL,
    errors.RefusedError: RetryAction.FAIL,
    errors.LeaseHeldError: RetryAction.FAIL,
    errors.OvertakenError: RetryAction.FAIL,
    errors.AwaitingApprovalError: RetryAction.FAIL,
    errors.RejectedError: RetryAction.FAIL,
    errors.WitnessError: RetryAction.FAIL,
    errors.BlockedError: RetryAction.FAIL,
    errors.AlarmError: RetryAction.FAIL,
    errors.FormatError: RetryAction.FAIL,
    errors.NotFoundError: RetryAction.FAIL,
    errors.PartialError: RetryAction.FAIL,
    errors.UnavailableError: RetryAction.RETRY,
    errors.ConflictError: RetryAction.RETRY,
    errors.DefectError: RetryAction.RETRY,
}


@pytest.mark.parametrize(
    ("family", "action"), EXPECTED.items(), ids=lambda item: getattr(item, "__name__", "")
)
def test_family_decides(family: type[errors.DredgeError], action: RetryAction) -> None:
    decision = RETRY_BY_FAMILY.evaluate(family("x"), 1, 3)
    assert decision.action is action
    assert family.is_retried == (action is RetryAction.RETRY)
    assert (decision.retry_delay is not None) == (action is RetryAction.RETRY)


def test_no_family_is_forgotten() -> None:
    families = {
        value
        for value in vars(errors).values()
        if isinstance(value, type)
        and issubclass(value, errors.DredgeError)
        and value is not errors.DredgeError
    }
    assert families == set(EXPECTED)


def test_anything_else_follows_the_task() -> None:
    assert RETRY_BY_FAMILY.evaluate(RuntimeError("bug"), 1, 3).action is RetryAction.DEFAULT


class Plan(LakeFSPlanRunOperator):
    error: BaseException | None = None

    def checked(self, *window: Any) -> Any:
        if self.error is not None:
            raise self.error
        return super().checked(*window)


def failing_run(error: BaseException | None = None) -> tuple[DAG, Pushed]:
    with DAG("d", schedule=None) as dag:
        lease = LakeFSAcquireLeaseOperator(task_id="acquire_lease", repository="lake")
        planned = Plan(
            task_id="plan", config={"repository": "lake", "min_age_hours": "many"}, aws_conn_id=None
        )
        planned.error = error
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
    with pytest.raises(RefusedError):
        dag.get_task("save_report").execute({"ti": pushed})


@pytest.mark.parametrize(
    ("error", "family", "words"),
    [
        (KeyError("window"), DefectError, "KeyError: 'window'"),
        (RefusedError(), RefusedError, "RefusedError"),
        (AirflowSkipException("skip"), AirflowSkipException, None),
        (MemoryError(), MemoryError, None),
    ],
)
def test_what_a_task_leaves_of_its_error(
    error: BaseException, family: type[BaseException], words: str | None
) -> None:
    """What nobody foresaw is a defect, an error without words has its name, and Airflow's own ones pass."""
    dag, pushed = failing_run(error)
    pushed.task_id = "plan"
    with pytest.raises(family) as caught:
        dag.get_task("plan").execute({"ti": pushed})
    assert words in pushed["plan", "failure"] if words else pushed == {}
    assert error in (caught.value, caught.value.__cause__)


def test_a_task_whose_words_cannot_be_left_fails_with_its_own_error() -> None:
    class Deaf(Pushed):
        def xcom_push(self, key: str, value: Any) -> None:
            raise ConnectionError("Airflow is away")

    dag, _ = failing_run()
    with pytest.raises(ConfigError):
        dag.get_task("plan").execute({"ti": Deaf()})
