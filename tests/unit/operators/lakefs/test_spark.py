"""A step of a lakeFS collection is done in the Spark application of its run."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_dredge.operators import spark
from airflow_dredge.operators.lakefs.base import LakeFSSparkOperator
from airflow_dredge.operators.lakefs.mark_sweep import LakeFSBulkDeleteOperator, LakeFSSliceListingOperator
from airflow_dredge.operators.spark import job_file
from dredge.errors import ConfigError, FormatError, PartialError, RefusedError, UnavailableError
from tests.support.airflow import connections
from tests.support.spark import free_port

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
        operator.submit(SECRETS)
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
        ((2, "dredge: config: no such plan."), ConfigError),
        ((4, "dredge: unavailable: 503"), UnavailableError),
        ((5, "dredge: format: damaged"), FormatError),
        ((9, "dredge: partial: some are left"), PartialError),
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
def test_a_driver_elsewhere_is_refused(
    application: FakeApplication, extra: dict[str, str], conf: dict[str, str]
) -> None:
    operator = LakeFSSliceListingOperator(task_id="slice_listing", run_uri="s3://bucket/run", conf=conf)
    with (
        connections(spark_default={"conn_type": "spark", "host": "yarn", "extra": extra}),
        pytest.raises(ConfigError),
    ):
        operator.submit(SECRETS)
    assert application.started == []


def test_a_master_on_kubernetes_without_airflows_provider_is_told(application: FakeApplication) -> None:
    with pytest.raises(ConfigError, match="apache-airflow-providers-cncf-kubernetes"):
        submit(host="k8s://https://nowhere:6443")
    assert application.started == []


def test_a_master_that_does_not_answer_is_told_before_spark_starts(application: FakeApplication) -> None:
    silent = [free_port(), free_port()]
    with pytest.raises(UnavailableError):
        submit(host=f"spark://127.0.0.1:{silent[0]},127.0.0.1:{silent[1]}")
    assert application.started == []
    with socket.create_server(("127.0.0.1", 0)) as standby:
        submit(host=f"spark://127.0.0.1:{silent[0]},127.0.0.1:{standby.getsockname()[1]}")
    assert len(application.started) == 1


def test_executors_get_the_python_of_the_param(application: FakeApplication) -> None:
    submit(host="yarn", spark_python="hdfs:///envs/dredge.tar.gz")
    (_, command, _), *_ = application.started
    assert "spark.pyspark.python=./dredge-env/bin/python3" in command
    assert "spark.archives=hdfs:///envs/dredge.tar.gz#dredge-env" in command


def test_a_server_of_connect_has_its_own_python(application: FakeApplication) -> None:
    operator = LakeFSSliceListingOperator(
        task_id="slice_listing", run_uri="s3://bucket/runs/d4", spark_python="/opt/python"
    )
    server = {"conn_type": "spark_connect", "host": "sc://h", "port": 15002}
    with connections(spark_connect_default=server), pytest.raises(ConfigError):
        operator.connect(SECRETS)
    assert application.started == []


def test_a_spark_submit_that_is_missing_is_told(application: FakeApplication) -> None:
    application.fails = FileNotFoundError(2, "none", "spark-submit")
    with pytest.raises(ConfigError):
        submit()
