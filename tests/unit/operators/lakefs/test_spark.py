"""A step of a lakeFS collection is done in the Spark application of its run."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_dredge.operators import spark
from airflow_dredge.operators.lakefs.bulk_delete import LakeFSBulkDeleteOperator
from airflow_dredge.operators.lakefs.slice_listing import LakeFSSliceListingOperator
from airflow_dredge.operators.lakefs.spark import LakeFSSparkOperator
from airflow_dredge.operators.spark import job_file
from dredge.errors import RefusedError, UnavailableError
from tests.support.airflow import connections

SECRETS = {"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "lakefs-hunter2", "AWS_SECRET_ACCESS_KEY": "aws-hunter2"}


class FakeApplication:
    """Stands in for the application of a run."""

    def __init__(self) -> None:
        self.answer: tuple[int | None, str] = (0, "")
        self.started: list[tuple[str, list[str], dict[str, str]]] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.killed = False
        self.fails: Exception | None = None

    def __call__(
        self,
        run_uri: str,
        command: Sequence[str],
        env: Mapping[str, str],
        own_secrets: Mapping[str, str] | None = None,
    ) -> FakeApplication:
        self.started.append((run_uri, list(command), dict(env)))
        self.own_secrets = dict(own_secrets or {})
        return self

    def do(self, step: str, secrets: Mapping[str, str]) -> tuple[int | None, str]:
        if self.fails is not None:
            raise self.fails
        self.asked.append((step, dict(secrets)))
        return self.answer

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> FakeApplication:
    fake = FakeApplication()
    monkeypatch.setattr(spark, "SparkApplication", fake)
    monkeypatch.setattr(spark, "submit_conf", lambda: {"spark.ui.enabled": "false"})
    return fake


def test_over_connect_the_steps_of_a_run_share_a_client(application: FakeApplication) -> None:
    operator = LakeFSSliceListingOperator(task_id="slice_listing", run_uri="s3://bucket/runs/d4")
    operator.env_vars = {"SETTING": 7}
    server = {"conn_type": "spark_connect", "host": "sc://h", "port": 15002, "password": "hunter2"}
    with connections(spark_connect_default=server):
        operator.connect(SECRETS)
    ((run_uri, command, env),) = application.started
    assert (run_uri, env) == ("s3://bucket/runs/d4", {"SETTING": "7"})
    assert command[:3] == [sys.executable, str(job_file()), "--remote"]
    assert command[3].startswith("sc://h:15002/;")
    assert "session_id=" in command[3]
    assert "hunter2" not in "".join(command)
    assert application.own_secrets == {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "hunter2"}
    assert application.asked == [("slice_listing", SECRETS)]
    operator.on_kill()
    assert application.killed


def submit(
    operator_type: type[LakeFSSparkOperator] = LakeFSSliceListingOperator,
    host: str = "local[2]",
    **settings: Any,
) -> Any:
    operator = operator_type(task_id=operator_type.step, run_uri="s3://bucket/runs/d4", **settings)
    with connections(spark_default={"conn_type": "spark", "host": host}):
        operator.submit({}, SECRETS)  # type: ignore[arg-type]
    return operator


def test_steps_of_a_run_start_spark_in_the_same_way_and_ask_for_themselves(
    application: FakeApplication,
) -> None:
    submit()
    submit(LakeFSBulkDeleteOperator)
    first, second = application.started
    assert first == second
    run_uri, command, _ = first
    assert run_uri == "s3://bucket/runs/d4"
    assert command[:3] == ["spark-submit", "--master", "local[2]"]
    assert command[-1] == str(job_file())
    assert command[command.index("--name") + 1] == "dredge d4"
    assert [step for step, _ in application.asked] == ["slice_listing", "bulk_delete"]


def test_secrets_are_handed_to_the_step_only(
    application: FakeApplication, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        operator = submit()
    assert application.asked == [("slice_listing", SECRETS)]
    assert "hunter2" not in repr(application.started)
    assert "hunter2" not in caplog.text
    for field in operator.template_fields:
        assert "hunter2" not in repr(getattr(operator, field)), field


def test_the_application_gets_this_python_a_spark_submit_and_the_users_settings(
    application: FakeApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    submit(conf={"spark.executor.memory": "2g"}, env_vars={"HADOOP_CONF_DIR": "/etc/hadoop"})
    _, command, env = application.started[0]
    assert env["PYSPARK_PYTHON"] == env["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert str(Path(sys.executable).parent) in env["PATH"].split(os.pathsep)
    assert env["SPARK_LOCAL_IP"] == "127.0.0.1", "nobody else is to reach a driver that is alone"
    assert env["HADOOP_CONF_DIR"] == "/etc/hadoop"
    assert "spark.executor.memory=2g" in command
    assert "spark.ui.enabled=false" in command


@pytest.mark.parametrize(
    ("answer", "family"),
    [
        ((3, "dredge: refused: head of main is new."), RefusedError),
        ((None, ""), UnavailableError),
        ((143, "dredge: stopped: it was asked to"), UnavailableError),
    ],
)
def test_error_of_the_step_comes_back_with_its_family(
    application: FakeApplication, answer: tuple[int | None, str], family: type[Exception]
) -> None:
    application.answer = answer
    with pytest.raises(family) as caught:
        submit()
    assert type(caught.value) is family


@pytest.mark.parametrize(
    ("extra", "conf"), [({"deploy-mode": "cluster"}, {}), ({}, {"spark.submit.deployMode": "cluster"})]
)
def test_a_driver_elsewhere_is_started_for_its_step_and_no_secret_goes_there(
    application: FakeApplication,
    monkeypatch: pytest.MonkeyPatch,
    extra: dict[str, str],
    conf: dict[str, str],
) -> None:
    begun = []

    def execute(operator: LakeFSSparkOperator, context: Any) -> None:
        assert operator._hook is not None
        begun.append(operator._hook._build_spark_submit_command(operator.application))
        assert "hunter2" not in repr(operator._hook._env)

    monkeypatch.setattr("airflow_dredge.operators.spark.SparkSubmitOperator.execute", execute)
    operator = LakeFSSliceListingOperator(
        task_id="slice_listing", run_uri="s3://bucket/run", conf=conf, env_vars={"OF_THE_USER": "x"}
    )
    with connections(spark_default={"conn_type": "spark", "host": "yarn", "extra": extra}):
        operator.submit({}, SECRETS)  # type: ignore[arg-type]
    assert "spark.yarn.appMasterEnv.OF_THE_USER=x" in begun[0]
    assert application.started == []
    assert begun[0][-4:] == ["--step", "slice_listing", "--run", "s3://bucket/run"]
    assert "hunter2" not in repr(begun)
