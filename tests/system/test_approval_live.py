"""Approvals with a real scheduler, its API and its time-outs: a run waits without a worker, and each answer ends it as
it says. Three whole DAG runs, so only `./run test long` makes them."""

from __future__ import annotations

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
CONF: dict[str, Any] = {
    "repository": "lake",
    "dry_run": False,
    "unsafe_min_age_seconds": 1,
    "slice_margin_hours": 26,
    "spark_rows_min": 0,
    "approval": "always",
}
ORPHAN = "data/orphan"
STATE = "select state from task_instance where run_id = %s and task_id = %s"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakefs_server(tmp_path_factory.mktemp("lake")) as found:
        branch = found.repository("lake").branch("main")
        branch.object("kept").upload(b"kept")
        branch.commit("kept")
        found.writer().put(ORPHAN, b"orphan")
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


def present(lake: Lake) -> set[str]:
    return {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}


def waiting(airflow: LiveAirflow) -> str:
    """Start a run, and wait until it waits for a person."""
    run_id = airflow.trigger("lakefs_gc", None, CONF)
    airflow.wait(
        "the question", lambda: airflow.rows(STATE, run_id, "approve") == [("awaiting_input",)], WAIT
    )
    assert airflow.rows("select 1 from task_instance where state in ('running', 'queued', 'deferred')") == []
    time.sleep(
        10
    )  # the process that asked lives on for some seconds, and an answer before then costs a try (P8)
    return run_id


def answer(airflow: LiveAirflow, run_id: str, option: str) -> Any:
    path = f"/api/v2/dags/lakefs_gc/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    return airflow.call("PATCH", path, {"chosen_options": [option]})


def ended(airflow: LiveAirflow, run_id: str) -> str:
    def state() -> str:
        ((found,),) = airflow.rows("select state from dag_run where run_id = %s", run_id)
        return found if found in ("success", "failed") else ""

    return str(airflow.wait("the end", state, WAIT))


def report(lake: Lake) -> dict[str, Any]:
    """Of the newest run."""
    folder = Path(lake.namespace("lake").partition("://")[2]) / "_lakefs/retention/gc/unified"
    newest = min(path for path in folder.iterdir() if (path / "plan.json").exists())
    found: dict[str, Any] = json.loads((newest / "report.json").read_text())
    return found


def test_a_rejected_run_ends_well_and_an_approved_one_deletes(lake: Lake, airflow: LiveAirflow) -> None:
    before = present(lake)
    rejected = waiting(airflow)
    assert present(lake) == before
    answer(airflow, rejected, "Reject")
    assert ended(airflow, rejected) == "success"
    assert airflow.rows(STATE, rejected, "bulk_delete") == [("skipped",)]
    assert report(lake)["outcome"] == "rejected"
    assert present(lake) == before

    unanswered = waiting(airflow)
    overdue = datetime.now(UTC) - timedelta(minutes=1)
    airflow.rows(
        "update task_instance set trigger_timeout = %s where run_id = %s and task_id = 'approve' returning 1",
        overdue,
        unanswered,
    )
    assert ended(airflow, unanswered) == "failed", "somebody has to notice"
    assert airflow.rows(STATE, unanswered, "save_report") == [("failed",)]
    assert report(lake)["approval"]["by"] == ""
    assert present(lake) == before

    approved = waiting(airflow)
    answer(airflow, approved, "Approve")
    assert ended(airflow, approved) == "success"
    assert report(lake)["approval"]["through"] == "Airflow"
    assert report(lake)["approval"]["by"]
    assert present(lake) == before - {ORPHAN}
