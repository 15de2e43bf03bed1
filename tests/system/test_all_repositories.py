"""`lakefs_gc_all` with a real scheduler and triggerer: three repositories, one of them broken, another one foreign."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dredge.xid import new_descending_xid
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server
from tests.support.live_airflow import live_airflow
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.system, pytest.mark.long]

NAMES = ("broken", "foreign", "lake", "pond")
CONF = {
    "dry_run": False,
    "unsafe_min_age_seconds": 1,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "spark_rows_min": 0,
}
WAIT = 600 * float(os.environ.get("DREDGE_TEST_PATIENCE", "1"))


def planted(server: Lake) -> None:
    """Give each repository an object that is live and one that is garbage; break one, let another have its own
    collector."""
    for name in NAMES:
        server.repository(name).branch("main").object("kept").upload(b"kept")
        server.writer(name).put("data/orphan", b"orphan")
    server.writer("broken").put("_lakefs/retention/gc/dredge/lease.json", b"not a lease")
    run_id = new_descending_xid(datetime.now(UTC))
    server.writer("foreign").put(f"_lakefs/retention/gc/unified/{run_id}/summary.json", b"{}")
    time.sleep(1.1)


def keys(server: Lake, name: str) -> list[str]:
    return [key for batch in server.writer(name).list("data/") for key in batch["key"].to_pylist()]


def test_a_broken_repository_stops_no_other_and_the_page_tells_of_all(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with lakefs_server(tmp_path) as server:
        planted(server)
        connection = {
            "conn_type": "lakefs",
            "host": server.server.endpoint,
            "login": KEY_PAIR.access_key_id,
            "password": KEY_PAIR.secret_access_key,
        }
        environ = {
            "AIRFLOW_CONN_LAKEFS_DEFAULT": json.dumps(connection),
            "DREDGE_TEST_FAIL": str(tmp_path / "never"),
            "AIRFLOW__CORE__MAX_MAP_LENGTH": "2",  # so one task has two repositories, one after the other
        }
        with live_airflow(tmp_path / "home", postgres, environ, "triggerer") as airflow:
            airflow.wait("the DAGs", lambda: len(airflow.rows("select 1 from serialized_dag")) == 3, WAIT)
            for dag_id in ("lakefs_gc", "lakefs_gc_all"):
                airflow.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
            run_id = airflow.trigger("lakefs_gc_all", None, CONF)

            def ended() -> Any:
                (state,) = airflow.rows("select state from dag_run where run_id = %s", run_id)[0]
                return state if state in ("success", "failed") else None

            assert airflow.wait("all repositories", ended, WAIT) == "failed", airflow.story()
            runs = dict(airflow.rows("select run_id, state from dag_run where dag_id = 'lakefs_gc'"))
            assert {name.split("__")[-2]: state for name, state in runs.items()} == {
                "broken": "failed",
                "lake": "success",
                "pond": "success",
            }
            states = dict(
                airflow.rows(
                    "select task_id || map_index, state from task_instance where run_id = %s", run_id
                )
            )
            assert states["save_summary-1"] == "success"
            assert states["all_collected-1"] == "failed"
            assert [states[f"collect_repository{at}"] for at in range(2)] == ["failed", "success"]
            events = airflow.rows(
                "select asset_event.extra from asset_event join asset on asset.id = asset_id"
                " where name = 'dredge_lakefs_gc_all'"
            )
            assert len(events) == 1
            extra = events[0][0]
        assert (extra["repositories"], extra["collected_repositories"]) == (4, 2)
        assert (extra["failed_repositories"], extra["left_out_repositories"]) == (1, 1)
        page = Path(extra["report_uri"].partition("://")[2]).read_text()
        assert "is not a lease" in page
        assert "another collector works on it" in page
        for name in NAMES:
            assert ("data/orphan" in keys(server, name)) == (name in ("broken", "foreign"))
            assert len(keys(server, name)) >= 1
