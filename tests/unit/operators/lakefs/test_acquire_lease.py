"""Leases that tasks take, wait for, hand over and give back."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_dredge.operators.lakefs.acquire_lease import LakeFSAcquireLeaseOperator
from dredge.errors import LeaseHeldError
from dredge.gc import steps
from dredge.gc.run import PLAN
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json
from dredge.storage import open_writer
from tests.support.lakefs_operators import acquire, namespace_in, plan, release


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
