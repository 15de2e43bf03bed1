"""How a Spark step is started, told its secrets, killed, and how its error comes back."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators import spark
from airflow_dredge.operators.lakefs.slice_listing import LakeFSSliceListingOperator
from airflow_dredge.operators.spark import merged_conf, own_spark_home
from dredge.errors import (
    ConfigError,
    DredgeError,
    FormatError,
    PartialError,
    RefusedError,
    UnavailableError,
)
from tests.support.airflow import connections

SECRETS = {
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "lakefs-hunter2",
    "AWS_SECRET_ACCESS_KEY": "aws-hunter2",
    "AWS_SESSION_TOKEN": "token-hunter2",
}
CLUSTER = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}


class FakeSubmit:
    """Stands in for the spark-submit process."""

    def __init__(self, lines: str = "", code: int = 0) -> None:
        self.lines, self.code = lines, code
        self.command: list[str] = []
        self.env: dict[str, str] = {}
        self.killed = False
        self.fails: Exception | None = None

    def __call__(self, command: list[str], env: dict[str, str] | None = None, **_: Any) -> FakeSubmit:
        if self.fails is not None:
            raise self.fails
        self.command, self.env = command, env or {}
        self.stdout = io.StringIO(self.lines)
        self.returncode: int | None = None
        return self

    def wait(self) -> int:
        self.returncode = self.code
        return self.code

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch) -> FakeSubmit:
    fake = FakeSubmit()
    module = SimpleNamespace(Popen=fake, PIPE=-1, STDOUT=-2)
    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.subprocess", module)
    monkeypatch.setattr(spark, "submit_conf", lambda: {"spark.ui.enabled": "false"})
    return fake


@pytest.fixture
def operator() -> LakeFSSliceListingOperator:
    return LakeFSSliceListingOperator(task_id="slice_listing", run_uri="s3://bucket/run", durable=False)


def run_submit(operator: LakeFSSliceListingOperator) -> None:
    operator.submit({}, SECRETS)  # type: ignore[arg-type]


def test_missing_spark_connection_is_an_error_not_yarn(
    operator: LakeFSSliceListingOperator, submit: FakeSubmit
) -> None:
    with connections(spark_default=None), pytest.raises(ConfigError):
        run_submit(operator)
    assert submit.command == []


def test_in_a_cluster_a_job_is_started_with_the_run_and_nothing_else(
    operator: LakeFSSliceListingOperator, submit: FakeSubmit
) -> None:
    with connections(spark_default=CLUSTER):
        run_submit(operator)
    assert submit.command[:3] == ["spark-submit", "--master", "yarn"]
    asked = [operator.application, "--step", "slice_listing", "--run", "s3://bucket/run"]
    assert submit.command[-5:] == asked
    assert submit.stdout.closed
    assert "--name" in submit.command
    assert submit.command[submit.command.index("--name") + 1] == "dredge-slice_listing"


@pytest.mark.parametrize(
    "master",
    [
        {"conn_type": "spark", "host": "spark://master", "port": 7077, "extra": {"deploy-mode": "cluster"}},
        {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}},
    ],
    ids=["standalone", "yarn"],
)
def test_cluster_mode_puts_no_secret_into_settings(
    operator: LakeFSSliceListingOperator, submit: FakeSubmit, master: dict[str, Any]
) -> None:
    with connections(spark_default=master):
        try:
            run_submit(operator)
        except Exception as error:  # no such cluster: only what was started counts
            assert "hunter2" not in str(error)  # noqa: PT017
    assert submit.command
    assert "hunter2" not in " ".join(submit.command)
    assert "hunter2" not in " ".join(submit.env.values())


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


CODES = {
    2: ConfigError,
    3: RefusedError,
    4: UnavailableError,
    5: FormatError,
    9: PartialError,
}


@pytest.mark.parametrize(("code", "family"), CODES.items())
def test_error_of_the_job_comes_back_with_its_family(
    operator: LakeFSSliceListingOperator, submit: FakeSubmit, code: int, family: type[DredgeError]
) -> None:
    submit.lines = (
        "14:18:24 WARN Utils: noise\ndredge: kind: head of main is new. Nothing was deleted.\nmore noise\n"
    )
    submit.code = code
    with connections(spark_default=CLUSTER), pytest.raises(family) as caught:
        run_submit(operator)
    assert type(caught.value) is family
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (FileNotFoundError(2, "none", "spark-submit"), ConfigError),
        (UnavailableError("503"), UnavailableError),
        (PermissionError("forbidden"), PermissionError),
    ],
)
def test_an_error_before_spark_is_there_is_told_as_it_is(
    operator: LakeFSSliceListingOperator,
    submit: FakeSubmit,
    error: Exception,
    family: type[Exception],
) -> None:
    submit.fails = error
    with connections(spark_default=CLUSTER), pytest.raises(family) as caught:
        run_submit(operator)
    assert type(caught.value) is family


def test_kill_ends_spark_submit(operator: LakeFSSliceListingOperator, submit: FakeSubmit) -> None:
    with connections(spark_default=CLUSTER):
        run_submit(operator)
        submit.returncode = None  # still running
        operator.on_kill()
    assert submit.killed


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
