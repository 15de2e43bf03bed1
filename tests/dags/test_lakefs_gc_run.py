"""The DAG run in this process on a local lake. Spark steps run the same step without Spark, to be quick; the
real way is in tests/system."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators import gates
from airflow_dredge.operators.lakefs.run import LakeFSPlanRunOperator
from airflow_dredge.operators.reporting import EVENT
from dredge.gc import steps
from dredge.gc.run import make_lease, open_state
from dredge.lakefs import LakeFSClient
from tests.support.airflow import Airflow, StepsHere, connections, load_dag, no_retries
from tests.support.lakefs_server import KEY_PAIR
from tests.support.lakefs_server import Lake as Server
from tests.support.planted import PlantedLake, PlantedServer, planted_server

CONF: dict[str, Any] = {
    "repository": "lake",
    "dry_run": False,
    "unsafe_min_age_seconds": 1,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "keep_unnamed_days": 0,  # the files of expired commits are just written
    "spark_rows_min": 0,
}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlantedServer]:
    with planted_server(tmp_path_factory.mktemp("lake")) as made:
        yield made


@pytest.fixture
def server(ground: PlantedServer) -> Server:
    return ground.server


@pytest.fixture
def planted(ground: PlantedServer) -> PlantedLake:
    return ground.planted()


@pytest.fixture(autouse=True)
def few_canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the server for a handful: all of them, as in tests/system, take a third of a run's time."""
    checked = LakeFSPlanRunOperator.checked

    def fewer(operator: LakeFSPlanRunOperator, *window: Any) -> steps.GCConfig:
        config = checked(operator, *window)
        return replace(config, safety=replace(config.safety, canary_branches=1, canary_objects=3))

    monkeypatch.setattr(LakeFSPlanRunOperator, "checked", fewer)


class Held:
    def __init__(self, server: Server) -> None:
        client = LakeFSClient(server.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
        self.grant = steps.acquire_lease(steps.GCConfig(repository="lake"), "somebody else", client)
        self.folder = open_state(server.namespace("lake"))

    def release(self) -> None:
        make_lease(self.folder, 3600).release(self.grant)


@pytest.fixture
def held(planted: PlantedLake, server: Server) -> Held:
    return Held(server)


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
    airflow: Airflow, planted: PlantedLake, jobs: StepsHere
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
    folders = {path.name for path in page.parent.iterdir() if path.is_dir()}
    without = {"check", "acquire_lease", "plan", "approve", "purge", "release_lease"}
    assert set(run.tasks) - without <= folders
    assert run.returned["approve"]["status"] == "not_asked"
    assert folders.isdisjoint({"approve", "purge"}), "no person was asked, and no purge_days were given"
    secret = KEY_PAIR.secret_access_key
    assert run.rendered
    assert secret not in json.dumps(run.rendered) + json.dumps(run.returned)
    files = [path for path in page.parent.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_a_check_asks_for_all_and_begins_no_run(
    airflow: Airflow, planted: PlantedLake, jobs: StepsHere
) -> None:
    run = airflow.run("lakefs_gc", CONF | {"check_only": True, "undo": "quarantine"})
    assert run.returned["check"]["status"] in ("ok", "warning")
    assert run.returned["check"]["lines"]
    assert run.state == "success"
    assert {name for name, state in run.tasks.items() if state != "skipped"} == {"check"}
    assert jobs.started == ["check_executors"]
    planted.assert_untouched()


def test_a_check_fails_where_a_run_would(airflow: Airflow, held: Held, jobs: StepsHere) -> None:
    held.folder.put("alarms/x.json", b"an alarm that cannot be read counts as open")
    run = airflow.run("lakefs_gc", CONF | {"check_only": True})
    assert run.state == "failed"
    assert run.tasks["check"] == "failed"
    assert jobs.started == ["check_executors"]


def test_run_with_a_failed_step_is_never_a_success(
    airflow: Airflow, planted: PlantedLake, jobs: StepsHere
) -> None:
    def fail(step: str, _secrets: object) -> None:
        if step == "subtract":
            raise RuntimeError("the worker fell over")

    jobs.before = fail
    with no_retries():
        run = airflow.run("lakefs_gc", CONF)
    assert run.state == "failed"
    assert run.tasks["subtract"] == "failed"
    assert run.tasks["bulk_delete"] == "upstream_failed"
    assert run.tasks["save_report"] == "failed"
    assert run.tasks["release_lease"] == "success"
    planted.assert_untouched()


class Person:
    def __init__(self, option: str, user: str = "ada") -> None:
        self.option = option
        self.user = user
        self.asked: list[Any] = []

    def answer(self) -> None:
        from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
        from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
        from airflow.models.hitl import HITLDetail
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            for detail in session.scalars(select(HITLDetail).where(HITLDetail.responded_at.is_(None))).all():
                self.asked.append(
                    SimpleNamespace(
                        subject=detail.subject,
                        body=detail.body,
                        defaults=detail.defaults,
                        assignees=detail.assignees,
                    )
                )
                task = detail.task_instance
                update_hitl_detail(
                    task.dag_id,
                    task.run_id,
                    task.task_id,
                    UpdateHITLDetailPayload(chosen_options=[self.option]),
                    SimpleNamespace(get_id=lambda: self.user, get_name=lambda: self.user.title()),
                    session,
                )


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Person], None]:
    def answering(person: Person) -> None:
        monkeypatch.setattr(gates, "_in_dag_test", lambda: False)
        honest = time.sleep

        def sleep(seconds: float) -> None:
            # The pause that `dag.test()` makes while a task awaits input.
            if seconds == 1 and threading.current_thread() is threading.main_thread():
                person.answer()
            else:
                honest(seconds)

        monkeypatch.setattr(time, "sleep", sleep)

    return answering


def test_approved_run_goes_on(
    airflow: Airflow, planted: PlantedLake, jobs: StepsHere, asks: Callable[[Person], None]
) -> None:
    planted.age(2)
    person = Person("Approve")
    asks(person)
    run = airflow.run("lakefs_gc", CONF | {"max_delete_objects": 3})
    assert run.state == "success"
    assert set(run.tasks.values()) == {"success"}
    planted.assert_swept()
    (asked,) = person.asked
    assert asked.defaults == ["Reject"]
    assert run.rendered["approve"] == {"run_uri": run.returned["plan"]["run_uri"]}
    report = steps.read_report(steps.Run.open(run.returned["plan"]["run_uri"]))
    assert (report["approval"]["by"], report["approval"]["through"]) == ("ada", "Airflow")


def test_rejected_run_deletes_nothing_and_ends_well(
    airflow: Airflow, planted: PlantedLake, jobs: StepsHere, asks: Callable[[Person], None], server: Server
) -> None:
    planted.age(2)
    asks(Person("Reject", "eve"))
    run = airflow.run("lakefs_gc", CONF | {"approval": "always"})
    assert run.state == "success"
    assert (run.tasks["approve"], run.tasks["bulk_delete"], run.tasks["verify"]) == (
        "success",
        "skipped",
        "skipped",
    )
    assert run.returned["save_report"]["outcome"] == "rejected"
    planted.assert_untouched()
    assert Held(server).grant.holder == "somebody else", "the lease was given back"


def test_a_callback_of_the_last_task_gets_the_event_of_a_run_that_failed(airflow: Airflow) -> None:
    told: list[Any] = []

    def tell(context: Any) -> None:
        told.append(context["ti"].xcom_pull(task_ids="save_report", key=EVENT))

    dag = load_dag("lakefs_gc")
    dag.get_task("save_report").on_failure_callback = [tell]
    run = airflow.run_dag(dag, {"repository": "lake", "dry_runs": True})
    assert (run.state, run.tasks["check"], run.tasks["save_report"]) == ("failed", "failed", "failed")
    assert [(event["kind"], event["repository"]) for event in told] == [("failed", "lake")]
    assert "dry_runs" in told[0]["text"]
