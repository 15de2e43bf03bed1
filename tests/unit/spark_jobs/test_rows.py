"""What the driver and Spark's workers say to each other, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_dredge.spark_jobs import rows
from dredge import __version__
from tests.support.spark import fail_some


def work_of_a_driver_with(version: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a worker of this version answers to a driver of another: its one task leaves a file."""
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
