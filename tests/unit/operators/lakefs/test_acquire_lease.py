"""Leases that tasks take, wait for, hand over and give back."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSensorTimeout

from airflow_dredge.operators.lakefs.acquire_lease import LakeFSAcquireLeaseOperator
from dredge.errors import LeaseHeldError
from dredge.gc import steps
from dredge.gc.plan import PLAN
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json
from dredge.storage import open_writer
from tests.support.airflow import FILTERS
from tests.support.lakefs_operators import acquire, namespace_in, plan, release

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return namespace_in(tmp_path)


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


def test_who_waits_keeps_no_worker_and_gives_up_after_a_day() -> None:
    operator = LakeFSAcquireLeaseOperator(task_id="acquire_lease", repository="lake")
    assert (operator.reschedule, operator.timeout) == (True, 24 * 3600)


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


def test_lease_is_taken_even_when_the_folder_of_an_earlier_try_is_gone(
    namespace: str, tmp_path: Path
) -> None:
    assert acquire(namespace, "manual__1", f"file://{tmp_path}/gone")["fencing"] == 1


def test_a_plan_that_was_given_no_lease_takes_it_itself(namespace: str) -> None:
    lease = acquire(namespace, "manual__1")
    with pytest.raises(LeaseHeldError):
        plan(namespace, None)
    release(namespace, lease)
    run = steps.Run.open(plan(namespace, None)["run_uri"])
    run.lease.check(run.plan.lease)
    with pytest.raises(AirflowRescheduleException):
        acquire(namespace, "manual__2")
