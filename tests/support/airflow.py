"""Airflow for tests: an empty database, connections by environment, DAG runs in this process."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from dredge.runs.tasks import LocalRunner

ROOT = Path(__file__).resolve().parent.parent.parent
DATABASE = "airflow.db"

#: Warnings of Airflow, its providers and their libraries on a run; ours stay errors.
FILTERS = (
    "ignore::DeprecationWarning:airflow.*",
    "ignore::DeprecationWarning:pydantic.*",
    "ignore::airflow.exceptions.RemovedInAirflow4Warning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::pytest.PytestUnhandledThreadExceptionWarning",
)


@dataclass(frozen=True)
class Airflow:
    home: Path

    @classmethod
    def prepare(cls, home: Path) -> Airflow:
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(empty_database(), home / DATABASE)
        _never_wait_for_the_disk()
        return cls(home)

    def run(self, dag_id: str, conf: Mapping[str, Any]) -> DagRun:
        """Run a DAG of the dags folder once, all in this process, and return the finished run."""
        return self.run_dag(load_dag(dag_id), conf)

    def run_dag(self, dag: Any, conf: Mapping[str, Any]) -> DagRun:
        with warnings.catch_warnings(), _schemas_checked_once():
            warnings.simplefilter("ignore")
            return DagRun.of(_without_waiting(dag).test(run_conf=dict(conf)))


@dataclass(frozen=True)
class DagRun:
    """A finished run: its state, its tasks' states, results and errors."""

    state: str
    tasks: dict[str, str]
    returned: dict[str, Any]
    rendered: dict[str, dict[str, Any]]
    failures: dict[str, str]
    xcom: dict[str, Any]  # every value, by `<task>.<key>`

    @classmethod
    def of(cls, run: Any) -> DagRun:
        from airflow.models.renderedtifields import RenderedTaskInstanceFields
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            pushed = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id)).all()
            values = {(row.task_id, row.key): XComModel.deserialize_value(row) for row in pushed}
            returned = {task: value for (task, key), value in values.items() if key == "return_value"}
            failures = {task: value for (task, key), value in values.items() if key == "failure"}
            fields = session.scalars(
                select(RenderedTaskInstanceFields).where(RenderedTaskInstanceFields.run_id == run.run_id)
            ).all()
            rendered = {row.task_id: dict(row.rendered_fields) for row in fields}
        tasks = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
        xcom = {f"{task}.{key}": value for (task, key), value in values.items()}
        return cls(str(run.state), tasks, returned, rendered, failures, xcom)


def empty_database() -> Path:
    """An empty database, made once for these versions of the dependencies (30 s)."""
    versions = (ROOT / "uv.lock").read_bytes() + sys.version.encode()
    folder = ROOT / ".dredge" / "test-airflow" / hashlib.sha256(versions).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / DATABASE
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes want it at once
        if not made.exists():
            with tempfile.TemporaryDirectory() as home:
                _migrate(home)
                shutil.copy(Path(home) / DATABASE, folder / "new")
            (folder / "new").replace(made)
    return made


def _migrate(home: str) -> None:
    command = [str(Path(sys.executable).with_name("airflow")), "db", "migrate"]
    env = {**os.environ, "AIRFLOW_HOME": home}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"airflow db migrate failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def _never_wait_for_the_disk() -> None:
    from airflow.settings import get_engine
    from sqlalchemy import event

    def relax(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(get_engine(), "connect", relax)


_checked_schemas: set[str] = set()


@contextmanager
def _schemas_checked_once() -> Iterator[None]:
    from jsonschema import Draft202012Validator

    honest = Draft202012Validator.check_schema

    def check(schema: Any, *more: Any, **named: Any) -> None:
        text = json.dumps(schema, sort_keys=True, default=repr)
        if text not in _checked_schemas:
            honest(schema, *more, **named)
            _checked_schemas.add(text)

    with mock.patch.object(Draft202012Validator, "check_schema", check):
        yield


class StepsHere:
    def __init__(self) -> None:
        self.started: list[str] = []
        self.before: Callable[[str, Mapping[str, str]], None] = lambda _step, _secrets: None

    def submit(self, operator: Any, secrets: Mapping[str, str] | None) -> None:
        from dredge.gc import steps

        if secrets is None:
            return
        self.started.append(operator.step)
        self.before(operator.step, secrets)
        if operator.step != "check_executors":
            with mock.patch.dict(os.environ, secrets):
                getattr(steps, operator.step)(steps.Run.open(operator.run_uri), LocalRunner())


@contextmanager
def steps_here() -> Iterator[StepsHere]:
    """Let Spark jobs of the lakeFS DAG do their steps in this process."""
    from airflow_dredge.operators.spark import SparkJobOperator

    found = StepsHere()
    with mock.patch.object(SparkJobOperator, "submit", lambda *given: found.submit(*given)):
        yield found


def no_retries() -> AbstractContextManager[Any]:
    """Let tasks that start a Spark job fail at once."""
    from airflow_dredge.operators.lakefs.base import LakeFSSparkOperator

    return mock.patch.object(LakeFSSparkOperator, "retries", 0, create=True)


@contextmanager
def connections(**values: Mapping[str, Any] | None) -> Iterator[None]:
    """Set connections by environment, by id; None removes one."""
    names = {f"AIRFLOW_CONN_{name.upper()}": value for name, value in values.items()}
    with mock.patch.dict(os.environ):
        for name, value in names.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = json.dumps(value)
        yield


def load_dag(dag_id: str) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / f"{dag_id}.py"))
    assert bag.import_errors == {}
    return bag.dags[dag_id]


def _without_waiting(dag: Any) -> Any:
    for task in dag.tasks:
        task.retry_delay = timedelta(0)
        rules = [replace(rule, retry_delay=timedelta(0)) for rule in task.retry_policy.rules]
        task.retry_policy = type(task.retry_policy)(rules)
    return dag
