"""The DAG run in this process on a local lake. Spark steps run the same step without Spark, to be quick; the
real way is in tests/system."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dredge.errors import UnavailableError
from dredge.gc import steps
from dredge.runs.tasks import LocalRunner
from operators.spark import LakeFSSparkOperator
from tests.support.airflow import FILTERS, Airflow, connections
from tests.support.lakefs_server import KEY_PAIR, lakefs_server
from tests.support.lakefs_server import Lake as Server
from tests.support.planted import PlantedLake

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

CONF: dict[str, Any] = {"repository": "lake", "dry_run": False, "unsafe_min_age_seconds": 1}


class InProcess:
    """Does what a job does, without Spark, and notes what it was given."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.before: Callable[[str], None] = lambda step: None

    def submit(self, operator: LakeFSSparkOperator, context: Any, secrets: Mapping[str, str]) -> None:
        self.started.append(operator.step)
        self.before(operator.step)
        with mock.patch.dict(os.environ, secrets):
            getattr(steps, operator.step)(steps.Context.open(operator.run_uri), LocalRunner())


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    stand_in = InProcess()
    monkeypatch.setattr(
        LakeFSSparkOperator, "submit", lambda operator, *arguments: stand_in.submit(operator, *arguments)
    )
    return stand_in


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with lakefs_server(tmp_path) as found:
        yield found


@pytest.fixture
def planted(server: Server) -> PlantedLake:
    return PlantedLake.plant(server.client, server.namespace("lake"))


@pytest.fixture(autouse=True)
def lakefs_connection(server: Server) -> Iterator[None]:
    lakefs = {
        "conn_type": "lakefs",
        "host": server.server.endpoint,
        "login": KEY_PAIR.access_key_id,
        "password": KEY_PAIR.secret_access_key,
    }
    with connections(lakefs_default=lakefs, aws_default=None, spark_default=None):
        yield


def test_run_deletes_the_garbage_and_nothing_else(
    airflow: Airflow, planted: PlantedLake, jobs: InProcess
) -> None:
    planted.age(2)
    run = airflow.run("lakefs_gc", CONF)
    assert run.state == "success"
    assert set(run.tasks.values()) == {"success"}
    planted.assert_swept()
    assert jobs.started == ["slice_listing", "list_committed", "subtract", "bulk_delete"]
    assert run.returned["bulk_delete"]["counts"]["deleted_objects"] >= len(planted.garbage)
    assert run.returned["save_report"]["outcome"] == "success"
    page = Path(run.returned["save_report"]["report_uri"].partition("://")[2])
    assert "Garbage collection of lake" in page.read_text()


def test_dry_run_deletes_nothing_and_starts_no_job_to_delete(
    airflow: Airflow, planted: PlantedLake, jobs: InProcess
) -> None:
    planted.age(2)
    run = airflow.run("lakefs_gc", {"repository": "lake", "unsafe_min_age_seconds": 1})
    assert run.state == "success"
    planted.assert_untouched()
    assert "bulk_delete" not in jobs.started
    assert run.returned["bulk_delete"]["status"] == "dry_run"
    assert run.returned["save_report"]["outcome"] == "dry_run"


def test_run_with_a_failed_step_is_never_a_success(
    airflow: Airflow, planted: PlantedLake, jobs: InProcess
) -> None:
    def fail(step: str) -> None:
        if step == "subtract":
            raise RuntimeError("the worker fell over")

    jobs.before = fail
    with mock.patch.object(LakeFSSparkOperator, "retries", 0, create=True):
        run = airflow.run("lakefs_gc", CONF)
    assert run.state == "failed"
    assert run.tasks["subtract"] == "failed"
    assert run.tasks["bulk_delete"] == "upstream_failed"
    assert run.tasks["save_report"] == "failed"
    assert run.tasks["release_lease"] == "success"
    planted.assert_untouched()


def test_limit_holds_the_run_and_says_so(airflow: Airflow, planted: PlantedLake, jobs: InProcess) -> None:
    planted.age(2)
    run = airflow.run("lakefs_gc", CONF | {"max_delete_objects": 3})
    assert run.state == "failed"
    assert run.tasks["check_limits"] == "failed"
    assert run.tasks["bulk_delete"] == "upstream_failed"
    assert "bulk_delete" not in jobs.started
    planted.assert_untouched()


def test_optimized_mode_comes_later(airflow: Airflow, planted: PlantedLake, jobs: InProcess) -> None:
    run = airflow.run("lakefs_gc", CONF | {"mode": "optimized"})
    assert run.state == "failed"
    assert run.tasks["plan"] == "failed"
    assert jobs.started == []
    assert run.tasks["release_lease"] == "success"


def test_second_run_cannot_start_while_one_holds_the_lease(
    airflow: Airflow, planted: PlantedLake, server: Server, jobs: InProcess
) -> None:
    from dredge.gc.config import GCConfig
    from dredge.lakefs import LakeFSClient

    client = LakeFSClient(server.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
    steps.acquire_lease(GCConfig(repository="lake"), "somebody else", client)
    run = airflow.run("lakefs_gc", CONF)
    assert run.state == "failed"
    assert run.tasks["acquire_lease"] == "failed"
    assert jobs.started == []
    planted.assert_untouched()


def test_two_runs_follow_each_other(airflow: Airflow, planted: PlantedLake, jobs: InProcess) -> None:
    planted.age(2)
    first, second = airflow.run("lakefs_gc", CONF), airflow.run("lakefs_gc", CONF)
    assert (first.state, second.state) == ("success", "success")
    assert first.returned["plan"]["run_id"] > second.returned["plan"]["run_id"]  # newer sort first
    assert second.returned["bulk_delete"]["counts"].get("deleted_objects", 0) == 0
    planted.assert_swept()


def test_busy_store_is_retried_and_the_run_goes_on(
    airflow: Airflow, planted: PlantedLake, jobs: InProcess
) -> None:
    planted.age(2)
    seen: list[str] = []

    def busy_once(step: str) -> None:
        seen.append(step)
        if step == "bulk_delete" and seen.count(step) == 1:
            raise UnavailableError("slow down")

    jobs.before = busy_once
    run = airflow.run("lakefs_gc", CONF)
    assert seen.count("bulk_delete") == 2
    assert run.state == "success"
    planted.assert_swept()


def test_no_secret_is_rendered_returned_or_in_the_run_folder(
    airflow: Airflow, planted: PlantedLake, jobs: InProcess, tmp_path: Path
) -> None:
    run = airflow.run("lakefs_gc", CONF)
    secret = KEY_PAIR.secret_access_key
    assert run.rendered
    assert secret not in json.dumps(run.rendered)
    assert secret not in json.dumps(run.returned)
    folder = Path(run.returned["plan"]["run_uri"].partition("://")[2])
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
