"""Ten runs of a backfill that all want an approval, with a real scheduler, its API and PostgreSQL: one asks at a time,
the others wait without a worker, a no lets the next one ask, and nothing is deleted before a yes. Only
`./run test long` makes them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.xid import new_descending_xid
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server
from tests.support.live_airflow import LiveAirflow, live_airflow
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(7200)]

WAIT = 900 * float(os.environ.get("DREDGE_TEST_PATIENCE", "1"))
DAY = timedelta(days=1)
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
RUNS = 10
FIRST, LAST = TODAY - (RUNS + 1) * DAY, TODAY - 2 * DAY
CONF: dict[str, Any] = {
    "unsafe_min_age_seconds": 1,
    "unsafe_grace_seconds": 0,
    "slice_margin_hours": 26,
    "approval": "always",
    "dry_run": False,
}
STATE = "select state from task_instance where run_id = %s and task_id = %s"
BUSY = (
    "select run_id, task_id from task_instance where state in ('running', 'queued', 'deferred', 'scheduled')"
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """An object that a commit names, and one that nothing does in the slice of each day."""
    with lakefs_server(tmp_path_factory.mktemp("lake")) as found:
        branch = found.repository("lake").branch("main")
        branch.object("kept").upload(b"kept")
        branch.commit("kept")
        for number in range(RUNS):
            found.writer("lake").put(f"data/{new_descending_xid(FIRST + number * DAY)}/garbage", b"garbage")
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
    with live_airflow(home, postgres, environ, "triggerer") as running:
        running.wait("the DAGs", lambda: len(running.rows("select 1 from serialized_dag")) == 3, WAIT)
        yield running


def present(lake: Lake) -> set[str]:
    return {key for batch in lake.writer("lake").list("data/") for key in batch["key"].to_pylist()}


def outcomes(lake: Lake) -> dict[str, str]:
    """How each run that had to ask ended, by its id; that of the schedule follows the last one, and asks nobody."""
    folder = Path(lake.namespace("lake").partition("://")[2]) / "_lakefs/retention/gc/unified"
    return {
        path.name: json.loads((path / "report.json").read_text())["outcome"]
        for path in folder.iterdir()
        if json.loads((path / "plan.json").read_text())["config"]["approval"] == "always"
    }


def questions(airflow: LiveAirflow, runs: list[str]) -> list[str]:
    """The runs that wait for an answer."""
    found = airflow.rows(
        "select run_id from task_instance where task_id = 'approve' and state = 'awaiting_input' and run_id = any(%s)",
        runs,
    )
    return [run_id for (run_id,) in found]


def answer(airflow: LiveAirflow, run_id: str, option: str) -> None:
    path = f"/api/v2/dags/gc_windows/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    airflow.call("PATCH", path, {"chosen_options": [option]})


def test_ten_runs_of_a_backfill_ask_one_after_the_other_and_delete_nothing_before_a_yes(
    lake: Lake, airflow: LiveAirflow
) -> None:
    before = present(lake)
    garbage = {key for key in before if key.endswith("/garbage")}
    backfill = airflow.call(
        "POST",
        "/api/v2/backfills",
        {
            "dag_id": "gc_windows",
            "from_date": FIRST.isoformat(),
            "to_date": LAST.isoformat(),
            "max_active_runs": RUNS,
            "reprocess_behavior": "failed",
            "dag_run_conf": CONF,
        },
    )
    runs = [
        run_id
        for (run_id,) in airflow.rows(
            "select run_id from dag_run where backfill_id = %s order by logical_date", backfill["id"]
        )
    ]
    assert len(runs) == RUNS
    airflow.call("PATCH", "/api/v2/dags/gc_windows", {"is_paused": False})
    for number, run_id in enumerate(runs):
        airflow.wait("a question", lambda run_id=run_id: questions(airflow, runs) == [run_id], WAIT)  # type: ignore[misc]
        # The process that asked lives on for some seconds, and an answer before then costs a try (P8).
        time.sleep(10)
        assert questions(airflow, runs) == [run_id], "one at a time, in the order of the windows"
        assert [item for item in airflow.rows(BUSY) if item[0] in runs] == [], "nobody waits with a worker"
        started = "select 1 from task_instance where run_id = any(%s) and start_date is not null"
        assert airflow.rows(started, runs[number + 1 :]) == []
        assert present(lake) == before
        answer(airflow, run_id, "Approve" if number == RUNS - 1 else "Reject")
    airflow.wait(
        "the end",
        lambda: (
            {state for (state,) in airflow.rows("select state from dag_run where run_id = any(%s)", runs)}
            == {"success"}
        ),
        WAIT,
    )
    for run_id in runs[:-1]:
        assert airflow.rows(STATE, run_id, "bulk_delete") == [("skipped",)]
    found = sorted(outcomes(lake).values())
    assert found.count("rejected") == RUNS - 1
    assert found.count("success") == 1
    assert present(lake) == before - garbage
