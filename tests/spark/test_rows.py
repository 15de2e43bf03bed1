"""Tasks over Spark, once in a classic session and once over Connect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_dredge.spark_jobs.rows import SparkRunner, worker
from dredge.errors import NotFoundError, RefusedError, UnavailableError
from tests.support.spark import double, fail_some, read_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_results_come_back_in_the_order_of_the_tasks(session: SparkSession) -> None:
    tasks = [{"value": value} for value in (5, 3, 9, 1, 7)]
    results = SparkRunner(session).run("double", double, {"factor": 2}, tasks)
    assert [result["value"] for result in results] == [10, 6, 18, 2, 14]


def test_error_of_a_task_keeps_its_family_and_is_raised_after_all_tasks_stopped(
    session: SparkSession, tmp_path: Path
) -> None:
    tasks = [{"value": 0, "fail": "refused"}] + [{"value": value} for value in range(1, 6)]
    with pytest.raises(RefusedError, match="head of main is new"):
        SparkRunner(session).run("sweep", fail_some, {"folder": str(tmp_path)}, tasks)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3", "4", "5"]


def test_safety_stop_is_not_hidden_behind_a_busy_store(session: SparkSession, tmp_path: Path) -> None:
    tasks = [{"value": 0, "fail": "unavailable"}, {"value": 1, "fail": "refused"}]
    with pytest.raises(RefusedError):
        SparkRunner(session).run("sweep", fail_some, {"folder": str(tmp_path)}, tasks)


def test_busy_store_alone_can_be_retried(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="slow down"):
        SparkRunner(session).run("s", fail_some, {"folder": str(tmp_path)}, [{"fail": "unavailable"}])


def test_class_that_the_driver_does_not_know_comes_back_as_its_family(
    session: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError, match="no 7"):
        SparkRunner(session).run("s", fail_some, {"folder": str(tmp_path)}, [{"fail": "strange"}])


def test_lost_worker_can_be_retried(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"sweep: Spark could not finish: .*stage failure"):
        SparkRunner(session).run("sweep", fail_some, {"folder": str(tmp_path)}, [{"fail": "crash"}])


def test_credentials_are_there_while_a_task_runs_and_gone_after(session: SparkSession) -> None:
    config, tasks = {"name": "DREDGE_TEST_SECRET"}, [{}, {}, {}]
    with_it = SparkRunner(session, {"DREDGE_TEST_SECRET": "hunter2"}).run(
        "env", read_environment, config, tasks
    )
    without = SparkRunner(session).run("env", read_environment, config, tasks)
    assert {row["seen"] for row in with_it} == {"hunter2"}
    assert {row["seen"] for row in without} == {None}


def test_credentials_do_not_show_in_the_plan(
    session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    work = worker(read_environment, {"name": "X"}, [{}], {"AWS_SECRET_ACCESS_KEY": "hunter2"})
    session.range(0, 1, 1, numPartitions=1).mapInArrow(work, "result string").explain(extended=True)
    shown = capsys.readouterr().out
    assert "MapInArrow" in shown
    assert "hunter2" not in shown
