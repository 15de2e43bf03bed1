import sys
from pathlib import Path

import pytest

from airflow_dredge.spark_jobs import session
from airflow_dredge.spark_jobs.session import spark_reason, submit_conf, with_session_id
from dredge.errors import ConfigError


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("sc://h:15002", "sc://h:15002/;session_id=X"),
        ("sc://h:15002/", "sc://h:15002/;session_id=X"),
        ("sc://h:15002/;user_id=me;use_ssl=true", "sc://h:15002/;user_id=me;use_ssl=true;session_id=X"),
        ("sc://h:15002/;session_id=old;user_id=me", "sc://h:15002/;user_id=me;session_id=X"),
    ],
)
def test_session_id_is_set_once(remote: str, expected: str) -> None:
    assert with_session_id(remote, "X") == expected


@pytest.mark.parametrize("remote", ["spark://h:7077", "h:15002", "sc://h/path/;token=hunter2"])
def test_other_addresses_are_refused_without_showing_a_token(remote: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_session_id(remote, "X")
    assert "hunter2" not in str(caught.value)


@pytest.fixture(autouse=True)
def no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ensure_archive", lambda environ: None)


def test_log_settings_of_the_user_win(tmp_path: Path) -> None:
    options = submit_conf({})["spark.driver.extraJavaOptions"]
    assert "log4j2.configurationFile" in options
    (tmp_path / "log4j2.properties").touch()
    options = submit_conf({"SPARK_CONF_DIR": str(tmp_path)})["spark.driver.extraJavaOptions"]
    assert "log4j2.configurationFile" not in options


def test_python_of_the_user_wins() -> None:
    conf = submit_conf({"PYSPARK_PYTHON": "/opt/python"})
    assert conf["spark.pyspark.python"] == "/opt/python"
    assert conf["spark.pyspark.driver.python"] == sys.executable


WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 5, in main
ModuleNotFoundError: No module named 'dredge'

JVM stacktrace:
org.apache.spark.api.python.PythonException
"""
LOST = """An error occurred while calling o212.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times:
"""
CASES = {
    "a worker's own exception": (WORKER, "ModuleNotFoundError: No module named 'dredge'"),
    "a lost worker": (
        LOST,
        "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times",
    ),
    "anything else": ("[SESSION_CLOSED] no such session.\nmore", "[SESSION_CLOSED] no such session"),
    "nothing": ("", "Exception"),
}


@pytest.mark.parametrize("case", CASES)
def test_reason_is_the_line_that_tells_most(case: str) -> None:
    text, reason = CASES[case]
    assert spark_reason(Exception(text)) == reason
