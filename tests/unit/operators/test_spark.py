"""A Spark step: master, settings, secrets, errors."""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_dredge.operators import spark
from airflow_dredge.operators.lakefs.base import LakeFSSparkOperator
from airflow_dredge.operators.lakefs.mark_sweep import LakeFSBulkDeleteOperator, LakeFSSliceListingOperator
from airflow_dredge.operators.lakefs.run import LakeFSPlanRunOperator
from airflow_dredge.operators.spark import job_error, job_file, merged_conf, own_spark_home
from airflow_dredge.operators.spark_master import check_answers, make_remote, python_conf
from dredge.errors import (
    ConfigError,
    DredgeError,
    FormatError,
    LeaseHeldError,
    PartialError,
    RefusedError,
    UnavailableError,
)
from tests.support.airflow import connections
from tests.support.spark import free_port


def test_connect_address_has_one_session_for_all_steps_of_a_run_and_no_token() -> None:
    first, token = make_remote("sc://spark:15002/;user_id=me;token=hunter2;use_ssl=true", "s3://b/run1")
    again, _ = make_remote("sc://spark:15002/;user_id=me", "s3://b/run1")
    other, _ = make_remote("sc://spark:15002", "s3://b/run2")
    assert token == "hunter2"
    assert "hunter2" not in first
    assert first.startswith("sc://spark:15002/;user_id=me;use_ssl=true;session_id=")
    assert again.rpartition("=")[2] == first.rpartition("=")[2]
    assert other.rpartition("=")[2] != first.rpartition("=")[2]


STANDALONE, K8S = "spark://m:7077", "k8s://https://api:6443"


PACKED = {"spark.pyspark.python": "./dredge-env/bin/python3"}
IMAGE = {"spark.pyspark.python": "python3", "spark.kubernetes.container.image": "registry:5000/dredge:1"}


@pytest.mark.parametrize(
    ("given", "master", "conf"),
    [
        ("/opt/dredge/bin/python", STANDALONE, {"spark.pyspark.python": "/opt/dredge/bin/python"}),
        ("/shared/env.tgz", STANDALONE, PACKED | {"spark.archives": "/shared/env.tgz#dredge-env"}),
        ("s3a://ops/env.tar.gz", "yarn", PACKED | {"spark.archives": "s3a://ops/env.tar.gz#dredge-env"}),
        ("image:registry:5000/dredge:1", K8S, IMAGE),
        ("", "local[2]", {}),
        ("None", STANDALONE, {}),
        (None, K8S, {}),
    ],
)
def test_a_path_a_packed_environment_or_an_image(
    given: str | None, master: str, conf: dict[str, str]
) -> None:
    assert python_conf(given, master) == conf


@pytest.mark.parametrize(
    ("given", "master"),
    [
        ("/opt/python", "local[2]"),
        ("/opt/dredge.tar.gz", "local"),
        ("image:dredge", STANDALONE),
        ("image:dredge", "yarn"),
        ("python3", STANDALONE),
        ("dredge.zip", STANDALONE),
    ],
)
def test_what_the_master_cannot_use_is_refused(given: str, master: str) -> None:
    with pytest.raises(ConfigError):
        python_conf(given, master)


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[2,1,1024]", "yarn", K8S])
def test_only_a_standalone_master_has_one_address(master: str) -> None:
    check_answers(master)


def test_missing_spark_connection_is_an_error_not_yarn() -> None:
    operator = LakeFSSliceListingOperator(task_id="slice_listing", run_uri="s3://bucket/run")
    with connections(spark_default=None), pytest.raises(ConfigError):
        operator.submit({})


def test_settings_of_the_user_win_and_jvm_options_add_up() -> None:
    defaults = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": "-Xone"}
    conf = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Xtwo", "spark.x": 1}
    assert merged_conf(defaults, conf) == {
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Xone -Xtwo",
        "spark.x": "1",
    }
    assert merged_conf(defaults, {}) == defaults
    assert merged_conf({}, defaults) == defaults


def test_an_error_is_told_by_a_family_and_by_words_or_not_at_all() -> None:
    class AnotherError(UnavailableError):
        exit_code = 5

    class ForeignError(DredgeError):
        exit_code = 4

    said = ["dredge: unavailable: 503"]
    assert type(job_error("plan", 4, said)) is UnavailableError
    assert type(job_error("plan", LeaseHeldError.exit_code, said)) is RefusedError
    assert type(job_error("plan", 5, said)) is FormatError
    assert job_error("plan", 4, ["no word of it"]) is None
    for code in (None, 0, 1, 77):
        assert job_error("plan", code, said) is None
    del AnotherError, ForeignError
    gc.collect()


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    yield
    assert [thread for thread in threading.enumerate() if thread.name.startswith("lease")] == []


def test_own_spark_submit_is_told_its_home_and_a_users_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert own_spark_home(str(tmp_path)) == {}
    own = own_spark_home(str(Path(sys.executable).parent))
    assert (Path(own["SPARK_HOME"]) / "bin" / "spark-class").exists()
    users = tmp_path / "spark-submit"
    users.write_text("#!/bin/sh\n")
    users.chmod(0o755)
    assert own_spark_home(str(tmp_path)) == {}
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert own_spark_home(str(Path(sys.executable).parent)) == {}


SECRETS = {"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "lakefs-hunter2", "AWS_SECRET_ACCESS_KEY": "aws-hunter2"}


class FakeApplication:
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

    def begin(self) -> None:
        self.asked.append(("", {}))

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


@pytest.mark.parametrize("engine", ["submit", "connect"])
def test_the_plan_starts_the_application_that_the_first_step_asks(
    application: FakeApplication, engine: str
) -> None:
    given: dict[str, Any] = {"spark_engine": engine, "run_uri": "s3://bucket/runs/d4"}
    plan = LakeFSPlanRunOperator(task_id="plan", config={}, **given)
    step = LakeFSSliceListingOperator(task_id="slice_listing", **given)
    plan.run_uri = given["run_uri"]
    servers = {
        "spark_default": {"conn_type": "spark", "host": "local[2]"},
        "spark_connect_default": {"conn_type": "spark_connect", "host": "sc://h", "port": 15002},
    }
    with connections(**servers):
        plan.begin_spark()
        step.do_step(SECRETS)
    assert application.started[0] == application.started[1]
    assert application.asked == [("", {}), ("slice_listing", SECRETS)]


def test_a_plan_without_spark_is_a_plan() -> None:
    plan = LakeFSPlanRunOperator(task_id="plan", config={})
    with connections(spark_default=None):
        plan.begin_spark()


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
    submit(
        conf={"spark.executor.memory": "2g"},
        env_vars={"HADOOP_CONF_DIR": "/etc/hadoop"},
        submit_arguments={"driver_memory": "3g"},
    )
    _, command, env = application.started[0]
    assert env["PYSPARK_PYTHON"] == env["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert str(Path(sys.executable).parent) in env["PATH"].split(os.pathsep)
    assert env["SPARK_LOCAL_IP"] == "127.0.0.1", "nobody else is to reach a driver that is alone"
    assert env["HADOOP_CONF_DIR"] == "/etc/hadoop"
    assert "spark.executor.memory=2g" in command
    assert command[command.index("--driver-memory") + 1] == "3g"
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
    ("extra", "settings"),
    [
        ({"deploy-mode": "cluster"}, {}),
        ({}, {"conf": {"spark.submit.deployMode": "cluster"}}),
        ({}, {"submit_arguments": {"deploy_mode": "cluster"}}),
    ],
)
def test_a_driver_elsewhere_is_refused(
    application: FakeApplication, extra: dict[str, str], settings: dict[str, Any]
) -> None:
    operator = LakeFSSliceListingOperator(task_id="slice_listing", run_uri="s3://bucket/run", **settings)
    with (
        connections(spark_default={"conn_type": "spark", "host": "yarn", "extra": extra}),
        pytest.raises(ConfigError),
    ):
        operator.submit(SECRETS)
    assert application.started == []


@pytest.mark.parametrize("name", ["no_such", "conf", "conn_id"])
def test_arguments_that_spark_submit_cannot_take_are_told(application: FakeApplication, name: str) -> None:
    with pytest.raises(ConfigError):
        submit(submit_arguments={name: "x"})
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
