"""What the driver and Spark's workers say to each other, without Spark."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_dredge.spark_jobs import rows
from dredge import __version__
from dredge.errors import ConfigError, DredgeError, UnavailableError
from tests.support.spark import fail_some

DAEMON = """An error occurred while calling o94.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
Error from python worker:
  /usr/bin/python3: Error while finding module specification for 'airflow_dredge.spark_jobs.daemon'
  (ModuleNotFoundError: No module named 'airflow_dredge')
"""


def work_of_a_driver_with(version: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    with monkeypatch.context() as patched:
        patched.setattr(rows, "__version__", version)
        work = rows.worker(fail_some, {"folder": str(folder)}, [{"value": 7}], {})
    (batch,) = work(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    found: list[str] = batch.column(0).to_pylist()
    return found


def test_a_worker_with_the_drivers_version_does_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert work_of_a_driver_with(__version__, tmp_path, monkeypatch) == ['{"index": 0, "result": {}}']
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_a_worker_with_another_version_does_nothing_and_says_which_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (answer,) = work_of_a_driver_with("9.9", tmp_path, monkeypatch)
    failure = json.loads(answer)["error"]
    assert list(tmp_path.iterdir()) == []
    assert failure["class"] == "ConfigError"
    assert f"has Dredge {__version__}, the driver's has 9.9" in failure["message"]
    assert "Install dredge==9.9 for the executors" in failure["message"]


@pytest.mark.parametrize(
    ("said", "family"),
    [
        ("ModuleNotFoundError: No module named 'airflow_dredge'", ConfigError),
        ("ModuleNotFoundError: No module named 'dredge.runs'", ConfigError),
        (DAEMON, ConfigError),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9", ConfigError),
        ("ModuleNotFoundError: No module named 'pandas'", UnavailableError),
        ("ModuleNotFoundError: No module named 'dredgers'", UnavailableError),
        ("Job aborted due to stage failure: executor lost", UnavailableError),
    ],
)
def test_executors_that_cannot_work_are_told_from_others_that_fail(
    said: str, family: type[DredgeError]
) -> None:
    """The first need a person; the others are tried again."""
    error = rows._spark_failed("sweep", RuntimeError(said))
    assert type(error) is family
    if "dredge" in said and family is ConfigError:
        assert f"dredge=={__version__}" in str(error)
