"""lakeFS operators without Airflow around them: a server with one repository, leases, plans, what tasks push."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_dredge.operators.lakefs.acquire_lease import LakeFSAcquireLeaseOperator
from airflow_dredge.operators.lakefs.plan import LakeFSPlanRunOperator
from airflow_dredge.operators.lakefs.release_lease import LakeFSReleaseLeaseOperator
from dredge.lakefs import Environment
from dredge.runs.summary import StepSummary


def summary(**changes: Any) -> StepSummary:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    values: dict[str, Any] = {
        "step": "mark_uncommitted",
        "run_id": "r",
        "status": "success",
        "counts": {"rows": 3},
    }
    return StepSummary(started_at=now, finished_at=now + timedelta(seconds=2), **(values | changes))


class Pushed(dict[Any, Any]):
    """A task instance that only keeps what is pushed."""

    task_id = "save_report"

    def xcom_push(self, key: str, value: Any) -> None:
        self[self.task_id, key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return self.get((task_ids, key))


class FakeServer:
    """A lakeFS with one repository."""

    def __init__(self, namespace: str) -> None:
        self.found = SimpleNamespace(name="lake", namespace=namespace, default_branch="main", read_only=False)

    def repository(self, name: str) -> Any:
        return self.found

    def clock(self) -> None:
        return None

    def environment(self) -> Environment:
        return Environment("http://lakefs:8000")

    def set_metadata(self, _repository: str, _values: Mapping[str, str]) -> bool:
        return True

    def repositories(self) -> list[Any]:
        return [self.found]


class FirstTry:
    """A task that has not waited before."""

    def get_first_reschedule_date(self, _context: Any) -> None:
        return None


def namespace_in(tmp_path: Path) -> str:
    """The namespace of a new repository."""
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


def release(namespace: str, grant: Any, run_uri: str = "") -> Any:
    operator = LakeFSReleaseLeaseOperator(task_id="release_lease", grant=grant, run_uri=run_uri)
    return hooked(operator, namespace).execute({})


def plan(namespace: str, lease: dict[str, Any] | None) -> dict[str, Any]:
    operator = LakeFSPlanRunOperator(
        task_id="plan", config={"repository": "lake", "dry_run": False}, lease=lease
    )
    returned: dict[str, Any] = hooked(operator, namespace).execute({})
    return returned
