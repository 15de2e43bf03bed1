"""docker-compose.yaml without Docker: its services as processes, with its settings, and a run through all of them.

It shows that components that share nothing but the file work together, and that executors in other processes find
Dredge and the credentials of the store, which only Airflow's connection has.
"""

import base64
import json
import os
import secrets
import urllib.request
from collections.abc import Iterator
from typing import Any

import lakefs
import pytest

from tests.support.compose import secrets_wanted
from tests.support.compose_stack import Stack, compose_stack
from tests.support.installed import build_wheel, install
from tests.support.planted import PlantedLake
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(1800)]

WAIT = 600 * float(os.environ.get("DREDGE_TEST_PATIENCE", "1"))
CONF = {
    "repository": "lake",
    "dry_run": False,
    "unsafe_min_age_seconds": 1,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "spark_rows_min": 0,
}
TASKS = "/api/v2/dags/lakefs_gc/dagRuns/{run}/taskInstances"


@pytest.fixture(scope="module")
def dot_env() -> dict[str, str]:
    made = {name: secrets.token_hex(24) for name in secrets_wanted()}
    return made | {"AIRFLOW_FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()}


@pytest.fixture(scope="module")
def stack(
    dot_env: dict[str, str], postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    python = install(build_wheel(tmp_path_factory.mktemp("wheel")), tmp_path_factory.mktemp("environment"))
    with compose_stack(tmp_path_factory.mktemp("stack"), python, postgres, dot_env) as running:
        yield running


def test_a_collection_through_every_service_of_the_compose_file(
    stack: Stack, dot_env: dict[str, str]
) -> None:
    client = lakefs.Client(
        host=f"{stack.lakefs_url}/api/v1",
        username=dot_env["LAKEFS_ACCESS_KEY_ID"],
        password=dot_env["LAKEFS_SECRET_ACCESS_KEY"],
    )
    planted = PlantedLake.plant(client, f"{stack.bucket.uri}/lake", options=stack.bucket.options)
    planted.age(2)
    known = stack.wait("DAG", lambda: has_dag(stack), WAIT)
    assert known["is_paused"]
    stack.call("PATCH", "/api/v2/dags/lakefs_gc", {"is_paused": False})
    body = {"logical_date": None, "conf": CONF}
    run = stack.call("POST", "/api/v2/dags/lakefs_gc/dagRuns", body)["dag_run_id"]
    state = stack.wait("end of the run", lambda: ended(stack, run), WAIT)
    found = stack.call("GET", TASKS.format(run=run))["task_instances"]
    states = {task["task_id"]: task["state"] for task in found}
    assert state == "success", f"{states}\n{stack.log('scheduler')[-5000:]}"
    planted.assert_swept()

    # Executors on both workers, and none of them was told a secret by argument, setting or variable.
    assert executors(stack) == {"spark-worker-0", "spark-worker-1"}
    secret = dot_env["S3_SECRET_ACCESS_KEY"].encode()
    spark = [path for path in stack.folder.glob("spark-*/**/*") if path.is_file()]
    assert not [path for path in [*spark, *stack.folder.glob("spark-*.log")] if secret in path.read_bytes()]

    # The api-server reads the log of a task from the scheduler's service, whose folder it does not see.
    log = json.dumps(stack.call("GET", f"{TASKS.format(run=run)}/slice_listing/logs/1"))
    assert "slice_listing" in log
    assert "Could not read" not in log
    assert not list((stack.folder / "api-server").glob("logs/dag_id=lakefs_gc/**/*.log"))


def has_dag(stack: Stack) -> Any:
    dags = stack.call("GET", "/api/v2/dags?dag_id_pattern=lakefs_gc")["dags"]
    return next((dag for dag in dags if dag["dag_id"] == "lakefs_gc"), None)


def ended(stack: Stack, run: str) -> str | None:
    state: str = stack.call("GET", f"/api/v2/dags/lakefs_gc/dagRuns/{run}")["state"]
    return state if state in ("success", "failed") else None


def executors(stack: Stack) -> set[str]:
    with urllib.request.urlopen(f"{stack.master_url}/json/", timeout=30) as answer:
        assert json.loads(answer.read())["aliveworkers"] == stack.services["spark-worker"].replicas
    workers = stack.folder.glob("spark-worker-*")
    return {worker.name for worker in workers if any((worker / "work").glob("app-*/*"))}
