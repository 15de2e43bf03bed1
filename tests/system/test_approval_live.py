"""Approvals with a real scheduler, its API and its time-outs: a run waits without a worker, and each answer ends it as
it says. Three whole DAG runs, at once and of three repositories; only `./run test long` makes them."""

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server
from tests.support.live_airflow import LiveAirflow, live_airflow
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(1800)]

WAIT = 300 * float(os.environ.get("DREDGE_TEST_PATIENCE", "1"))
REPOSITORIES = ("rejected", "unanswered", "approved")
CONF: dict[str, Any] = {
    "dry_run": False,
    "unsafe_min_age_seconds": 1,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "slice_margin_hours": 26,
    "spark_rows_min": 0,
    "approval": "always",
}
ORPHAN = "data/orphan"
STATE = "select state from task_instance where run_id = %s and task_id = %s"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakefs_server(tmp_path_factory.mktemp("lake")) as found:
        for name in REPOSITORIES:
            branch = found.repository(name).branch("main")
            branch.object("kept").upload(b"kept")
            branch.commit("kept")
            found.writer(name).put(ORPHAN, b"orphan")
        time.sleep(1.1)  # the folder tells whole seconds
        yield found


@pytest.fixture(scope="module")
def airflow(
    lake: Lake, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveAirflow]:
    connection = {
        "conn_type": "lakefs",
        "host": lake.server.endpoint,
        "login": KEY_PAIR.access_key_id,
        "password": KEY_PAIR.secret_access_key,
    }
    home = tmp_path_factory.mktemp("airflow") / "home"
    environ = {
        "AIRFLOW_CONN_LAKEFS_DEFAULT": json.dumps(connection),
        "DREDGE_TEST_FAIL": str(home / "no-such-file"),
    }
    with live_airflow(home, postgres, environ) as running:
        running.wait(
            "the DAGs", lambda: running.rows("select 1 from serialized_dag where dag_id = 'lakefs_gc'"), WAIT
        )
        running.call("PATCH", "/api/v2/dags/lakefs_gc", {"is_paused": False})
        yield running


def present(lake: Lake, repository: str) -> set[str]:
    return {key for batch in lake.writer(repository).list("data/") for key in batch["key"].to_pylist()}


def waiting(airflow: LiveAirflow) -> dict[str, str]:
    """Start a run for each repository, and wait until all wait for a person; gives their ids."""
    runs = {name: airflow.trigger("lakefs_gc", None, {**CONF, "repository": name}) for name in REPOSITORIES}
    for run_id in runs.values():
        airflow.wait(
            "the question",
            lambda run_id=run_id: airflow.rows(STATE, run_id, "approve") == [("awaiting_input",)],  # type: ignore[misc]
            WAIT,
        )
    assert airflow.rows("select 1 from task_instance where state in ('running', 'queued', 'deferred')") == []
    # The process that asked lives on for some seconds, and an answer before then costs a try (P8).
    time.sleep(10)
    return runs


def answer(airflow: LiveAirflow, run_id: str, option: str) -> Any:
    path = f"/api/v2/dags/lakefs_gc/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    return airflow.call("PATCH", path, {"chosen_options": [option]})


def ended(airflow: LiveAirflow, run_id: str) -> str:
    def state() -> str:
        ((found,),) = airflow.rows("select state from dag_run where run_id = %s", run_id)
        return found if found in ("success", "failed") else ""

    return str(airflow.wait("the end", state, WAIT))


def report(lake: Lake, repository: str) -> dict[str, Any]:
    folder = Path(lake.namespace(repository).partition("://")[2]) / "_lakefs/retention/gc/unified"
    (run,) = (path for path in folder.iterdir() if (path / "plan.json").exists())
    found: dict[str, Any] = json.loads((run / "report.json").read_text())
    return found


def test_a_rejected_run_ends_well_and_an_approved_one_deletes(lake: Lake, airflow: LiveAirflow) -> None:
    before = {name: present(lake, name) for name in REPOSITORIES}
    runs = waiting(airflow)
    assert {name: present(lake, name) for name in REPOSITORIES} == before
    answer(airflow, runs["rejected"], "Reject")
    answer(airflow, runs["approved"], "Approve")
    with pytest.raises(AssertionError):
        answer(airflow, runs["approved"], "Reject")
    airflow.rows(
        "update task_instance set trigger_timeout = %s where run_id = %s and task_id = 'approve' returning 1",
        datetime.now(UTC) - timedelta(minutes=1),
        runs["unanswered"],
    )
    assert {name: ended(airflow, run_id) for name, run_id in runs.items()} == {
        "rejected": "success",
        "unanswered": "failed",  # somebody has to notice
        "approved": "success",
    }
    assert airflow.rows(STATE, runs["rejected"], "bulk_delete") == [("skipped",)]
    assert airflow.rows(STATE, runs["unanswered"], "save_report") == [("failed",)]
    reports = {name: report(lake, name) for name in REPOSITORIES}
    assert reports["rejected"]["outcome"] == reports["unanswered"]["outcome"] == "rejected"
    assert reports["unanswered"]["approval"]["by"] == ""
    assert reports["approved"]["approval"]["through"] == "Airflow"
    assert reports["approved"]["approval"]["by"]
    before["approved"].discard(ORPHAN)
    assert {name: present(lake, name) for name in REPOSITORIES} == before
