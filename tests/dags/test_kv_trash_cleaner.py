"""The trash cleaner's DAG: its wiring, its connection, and whole runs in this process on PostgreSQL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from airflow.sdk import DAG

from airflow_dredge.operators.kv.clean import LakeFSKVCleanTrashOperator
from airflow_dredge.operators.kv.scan import LakeFSKVScanTrashOperator
from dredge.errors import ConfigError, LeaseHeldError, RefusedError
from dredge.kv import open_store
from dredge.storage import open_writer
from dredge.trash.state import TrashState
from tests.support.airflow import FILTERS, Airflow, connections
from tests.support.kv_world import World
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]
ROOT = Path(__file__).resolve().parents[2]
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


@pytest.fixture(scope="module")
def dag() -> DAG:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags"))
    assert bag.import_errors == {}
    return bag.dags["kv_trash_cleaner"]


def rows_in(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM kv").fetchone()
        assert found is not None
        return int(found[0])


@pytest.mark.parametrize("task_id", ["scan", "clean"])
def test_a_task_names_the_module_of_its_operator(dag: DAG, task_id: str) -> None:
    assert type(dag.get_task(task_id)).__module__ == f"airflow_dredge.operators.kv.{task_id}"


def test_params_are_these(dag: DAG) -> None:
    """Their names are a public interface: triggers and DAG files of users have them."""
    assert set(dag.params) == {
        "kv_conn_id",
        "state_uri",
        "dry_run",
        "grace_hours",
        "unsafe_grace_seconds",
        "kinds",
        "max_partitions",
        "max_rows",
        "read_rate",
    }


def test_a_clean_waits_for_the_look_whose_plan_bounds_it(dag: DAG) -> None:
    assert set(dag.task_ids) == {"scan", "clean"}
    clean = dag.get_task("clean")
    assert clean.upstream_task_ids == {"scan"}
    assert "xcom_pull(task_ids='scan')" in clean.planned
    assert "get('digest'" in clean.planned_digest


def test_the_dag_is_a_dry_run_without_backfills(dag: DAG) -> None:
    assert dag.params["dry_run"] is True
    assert dag.max_active_runs == 1
    assert "backfill" not in {str(kind) for kind in dag.allowed_run_types or ()}


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
        path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file()
    )
    assert "s3cret" not in written

    asked = {"state_uri": conf["state_uri"], "run": run.returned["clean"]["run_id"]}
    counted = airflow.run("kv_trash_restore", asked)
    assert counted.returned["restore"] == {
        "run_id": asked["run"],
        "status": "dry_run",
        "rows": 2,
        "markers_of_live_tokens": 0,
    }
    assert rows_in(database) == before - 2, "a dry run unless told"
    wrong = airflow.run("kv_trash_restore", asked | {"dry_run": False, "partition": "graveler"})
    assert (wrong.state, rows_in(database)) == ("failed", before - 2)
    put_back = airflow.run("kv_trash_restore", asked | {"dry_run": False})
    assert put_back.returned["restore"]["rows_written"] == 2
    assert rows_in(database) == before


def test_a_limit_holds_the_run(airflow: Airflow, database: str, tmp_path: Path) -> None:
    conf: dict[str, Any] = {
        "state_uri": f"file://{tmp_path}/state",
        "unsafe_grace_seconds": 1,
        "dry_run": False,
    }
    airflow.run("kv_trash_cleaner", conf)
    time.sleep(1.2)
    before = rows_in(database)
    run = airflow.run("kv_trash_cleaner", conf | {"max_rows": 1})
    assert run.tasks == {"scan": "success", "clean": "failed"}
    assert rows_in(database) == before


def test_a_plan_that_the_scan_did_not_report_is_not_executed(database: str, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/state"
    found = LakeFSKVScanTrashOperator(task_id="scan", config={"state_uri": uri}).execute({})  # type: ignore[typeddict-item]
    operator = LakeFSKVCleanTrashOperator(
        task_id="clean",
        config={"state_uri": uri, "dry_run": False},
        planned=found["run_id"],
        planned_digest="0" * 64,
    )
    before = rows_in(database)
    with pytest.raises(RefusedError, match="is not the plan"):
        operator.execute({})  # type: ignore[typeddict-item]
    assert rows_in(database) == before


def test_a_retry_fences_its_lost_try_off_and_another_run_waits(database: str, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/state"
    operator = LakeFSKVScanTrashOperator(task_id="scan", config={"state_uri": uri})
    context: Any = {"run_id": "manual__1"}
    with TrashState(open_writer(uri)).held(operator.holder(context) or "") as lost:
        operator.execute(context)
        with pytest.raises(LeaseHeldError, match="is lost"):
            lost.check_right()
    with TrashState(open_writer(uri)).held("somebody else"), pytest.raises(LeaseHeldError, match="works on"):
        operator.execute(context)


def test_a_clean_without_a_scan_does_nothing(database: str, tmp_path: Path) -> None:
    operator = LakeFSKVCleanTrashOperator(
        task_id="clean", config={"state_uri": f"file://{tmp_path}", "dry_run": False}, planned=""
    )
    with pytest.raises(ConfigError, match="no plan"):
        operator.execute({})  # type: ignore[typeddict-item]


def test_airflow_asks_for_the_check_and_nothing_is_read(airflow: Airflow, tmp_path: Path) -> None:
    """There is neither a connection nor a store, and the first error is that of the name."""
    done = airflow.run("kv_trash_cleaner", {"state_uri": f"file://{tmp_path}/state", "dry_runs": False})
    assert (done.state, done.tasks["scan"]) == ("failed", "failed")
    assert "nearest is dry_run;" in done.failures["scan"]
    assert [*tmp_path.iterdir()] == []
