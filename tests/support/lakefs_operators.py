"""lakeFS operators without Airflow around them: a server with one repository, leases, plans, XComs of tasks."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskAwaitingInput

from airflow_dredge.operators.lakefs.run import (
    LakeFSAcquireLeaseOperator,
    LakeFSPlanRunOperator,
    LakeFSReleaseLeaseOperator,
)
from dredge.lakefs import Environment
from dredge.runs.payload import StepSummary


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
    """A task instance that only stores XComs."""

    task_id = "save_report"

    def xcom_push(self, key: str, value: Any) -> None:
        self[self.task_id, key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return self.get((task_ids, key))


class FakeServer:
    def __init__(self, namespace: str) -> None:
        self.found = SimpleNamespace(
            name="lake", namespace=namespace, default_branch="main", read_only=False, created_at=None
        )

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
    """A task before its first wait."""

    def get_first_reschedule_date(self, _context: Any) -> None:
        return None

    def get_dr_count(self, dag_id: str, run_ids: list[str]) -> int:
        return 0


class ApprovalTask:
    def __init__(self, operator: Any, deletes: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operator = operator
        self.pushed = Pushed()
        self.asked: list[dict[str, Any]] = []
        self.skipped: list[str] = []
        self.kept: dict[str, Any] = {}
        after = [SimpleNamespace(is_teardown=False, task_id=deletes), SimpleNamespace(is_teardown=True)]
        operator.skip = lambda ti, tasks: self.skipped.extend(task.task_id for task in tasks)
        operator.get_direct_relatives = lambda upstream=False: [] if upstream else after
        monkeypatch.setattr(
            "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
            lambda **request: self.asked.append(request),
        )

    @property
    def context(self) -> Any:
        return {"ti": self.pushed, "task_instance": SimpleNamespace(id="ti"), "task": self.operator}

    def start(self) -> Any:
        return self.operator.execute(self.context)

    def wait(self) -> TaskAwaitingInput:
        with pytest.raises(TaskAwaitingInput) as parked:
            self.start()
        self.kept = parked.value.kwargs or {}
        return parked.value

    def answered(self, option: str, user: dict[str, str] | None) -> Any:
        event = {
            "chosen_options": [option],
            "params_input": {},
            "responded_at": datetime.now(UTC),
            "responded_by_user": user,
            "timedout": user is None,
        }
        return self.operator.execute_complete(self.context, event=event, **self.kept)


def namespace_in(tmp_path: Path) -> str:
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
