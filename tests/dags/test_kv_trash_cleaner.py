"""The trash cleaner's DAG: its wiring, its connection, and whole runs in this process on PostgreSQL."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lakefs_embedded.kv import open_store
from tests.support.airflow import Airflow, connections
from tests.support.kv_world import World
from tests.support.postgres import PostgresServer

PASSWORD = "p%ss/w@rd:s3cret"


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """A store with a live repository and an orphan, and the connection `lakefs_kv_default` to it."""
    url = postgres.new_database()
    world = World(datetime.now(UTC) - timedelta(days=3))
    _, token = world.repository("lake")
    world.stage(token)
    world.stage(world.token("lake", "main"))
    open_store(url).close()
    with psycopg.connect(url) as connection:
        rows = [tuple(row) for row in world.store.all_rows()]
        connection.cursor().executemany("INSERT INTO kv VALUES (%s, %s, %s)", rows)
    connection_fields = {
        "conn_type": "postgres",
        "host": str(postgres.folder),
        "schema": url.partition("@/")[2].partition("?")[0],
        "login": "postgres",
        "password": PASSWORD,
    }
    with connections(lakefs_kv_default=connection_fields, aws_default=None):
        yield url


def rows_in(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM kv").fetchone()
        assert found is not None
        return int(found[0])


def test_a_check_asks_for_all_and_removes_nothing(airflow: Airflow, database: str, tmp_path: Path) -> None:
    state, before = tmp_path / "state", rows_in(database)
    run = airflow.run("kv_trash_cleaner", {"state_uri": f"file://{state}", "check_only": True})
    lines = {line["check"]: line["level"] for line in run.returned["check"]["lines"]}
    assert (run.state, lines["kv"]) == ("success", "ok")
    assert {name for name, found in run.tasks.items() if found != "skipped"} == {"check"}
    assert rows_in(database) == before
    assert [path for path in state.rglob("*") if path.is_file()] == []


def test_two_days_of_the_dag_remove_the_trash_and_nothing_else(
    airflow: Airflow, database: str, tmp_path: Path
) -> None:
    conf: dict[str, Any] = {"state_uri": f"file://{tmp_path}/state", "unsafe_grace_seconds": 2}
    before = rows_in(database)

    first = airflow.run("kv_trash_cleaner", conf | {"dry_run": False})
    assert first.state == "success"
    assert first.returned["clean"]["rows_removed"] == 0, "a first look removes nothing"

    time.sleep(2.2)
    trial = airflow.run("kv_trash_cleaner", conf)
    assert trial.returned["clean"]["status"] == "dry_run"
    assert trial.returned["clean"]["trash_rows"] == 2
    assert rows_in(database) == before

    run = airflow.run("kv_trash_cleaner", conf | {"dry_run": False, "kinds": ["staging-orphan"]})
    assert run.state == "success"
    assert run.returned["clean"]["status"] == "done"
    assert run.returned["clean"]["fates"] == {"deleted": 1}
    assert rows_in(database) == before - 2
    page = Path(run.returned["clean"]["report_uri"].removeprefix("file://")).read_text()
    assert "staging-orphan" in page
    assert "deleted" in page

    written = json.dumps([run.returned, run.rendered]) + "".join(
        path.read_text(errors="replace") for path in (tmp_path / "state").rglob("*") if path.is_file()
    )
    assert "s3cret" not in written

    asked = {"state_uri": conf["state_uri"], "run": run.returned["clean"]["run_id"]}
    put_back = airflow.run("kv_trash_restore", asked | {"dry_run": False})
    assert put_back.returned["restore"]["rows_written"] == 2
    assert rows_in(database) == before


def test_airflow_asks_for_the_check_and_nothing_is_read(airflow: Airflow, tmp_path: Path) -> None:
    """There is neither a connection nor a store, and the first error is that of the name."""
    done = airflow.run("kv_trash_cleaner", {"state_uri": f"file://{tmp_path}/state", "dry_runs": False})
    assert (done.state, done.tasks["check"]) == ("failed", "failed")
    assert "dry_runs" in done.failures["check"]
    assert [*tmp_path.iterdir()] == []
