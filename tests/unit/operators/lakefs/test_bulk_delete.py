"""The task that deletes: a dry run starts no Spark and deletes nothing, and small work is done in the worker."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.lakefs import bulk_delete
from airflow_dredge.operators.lakefs import spark as lakefs_spark
from airflow_dredge.operators.lakefs.bulk_delete import LakeFSBulkDeleteOperator
from airflow_dredge.operators.lakefs.subtract import LakeFSSubtractLiveOperator
from airflow_dredge.operators.spark import SparkJobOperator
from dredge.errors import FormatError
from dredge.gc import steps
from dredge.gc.mark_uncommitted.kv_access import URL
from dredge.gc.run import Run
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions
from tests.support.airflow import FILTERS, connections
from tests.support.gc import World, busy_world
from tests.support.lakefs_operators import summary

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]
NOTHING: Any = {}


class Jobs:
    """Jobs on Spark: what each was started with; the work is done here."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.started: list[tuple[str, str]] = []
        self.works = True

    def start(self, operator: SparkJobOperator, engine: str) -> None:
        self.started.append((operator.step, engine))
        if self.works:
            getattr(steps, operator.step)(self.run, LocalRunner())


def marked(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[World, set[str], set[str], Jobs]:
    """A run up to the guards, what must stay, what must go, and the jobs that are started for it."""
    world, kept, gone = busy_world()
    run = world.plan(**settings)
    world.mark(run)
    jobs = Jobs(run)
    for module in (bulk_delete, lakefs_spark):
        monkeypatch.setattr(module, "open_run", lambda *_: run)
    monkeypatch.setattr(SparkJobOperator, "submit", lambda operator, *_: jobs.start(operator, "submit"))
    monkeypatch.setattr(SparkJobOperator, "connect", lambda operator, _: jobs.start(operator, "connect"))
    return world, kept, gone, jobs


def delete(**settings: Any) -> dict[str, Any]:
    operator = LakeFSBulkDeleteOperator(task_id="bulk_delete", run_uri="a run", aws_conn_id=None, **settings)
    operator.hook = SimpleNamespace(env=dict)  # type: ignore[assignment]
    return operator.execute(NOTHING)


def test_a_dry_run_starts_no_job_and_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _, _, jobs = marked(monkeypatch, dry_run=True)
    before = world.data()
    done = delete()
    assert done["status"] == "dry_run"
    assert jobs.started == []
    assert world.data() == before


@pytest.mark.parametrize("engine", ["submit", "connect"])
def test_a_job_deletes_the_candidates(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    world, kept, gone, jobs = marked(monkeypatch)
    done = delete(spark_engine=engine)
    assert (done["status"], done["counts"]["deleted_objects"]) == ("success", len(gone))
    assert jobs.started == [("bulk_delete", engine)]
    assert world.data() == kept


@pytest.mark.parametrize("rows_min", [10_000, "10000"])
def test_few_candidates_go_from_the_worker(monkeypatch: pytest.MonkeyPatch, rows_min: int | str) -> None:
    world, kept, gone, jobs = marked(monkeypatch)
    assert len(gone) == 7
    assert delete(spark_rows_min=rows_min)["counts"]["deleted_objects"] == 7
    assert jobs.started == []
    assert world.data() == kept


def test_a_job_that_left_no_summary_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, _, jobs = marked(monkeypatch)
    jobs.works = False
    with pytest.raises(FormatError, match="left no summary"):
        delete()


@pytest.mark.parametrize(
    ("rows", "rows_min", "is_job"),
    [(7, 0, True), (0, 0, True), (7, 7, True), (8, 7, True), (6, 7, False), (0, 1, False), (None, 7, True)],
)
def test_only_work_that_is_known_to_be_small_is_done_in_the_worker(
    monkeypatch: pytest.MonkeyPatch, rows: int | None, rows_min: int, is_job: bool
) -> None:
    run = SimpleNamespace(
        options=None, plan=SimpleNamespace(namespace="s3://b/lake", repository="lake", run_id="r")
    )
    done: list[str] = []

    def work(where: str) -> Any:
        return lambda *_: done.append(where) or summary(step="subtract")

    monkeypatch.setattr(lakefs_spark, "open_run", lambda *_: run)
    monkeypatch.setattr(lakefs_spark.steps, "rows_of", lambda *_: rows)
    monkeypatch.setattr(lakefs_spark.steps, "subtract", work("worker"))
    monkeypatch.setattr(SparkJobOperator, "run_job", work("job"))
    operator = LakeFSSubtractLiveOperator(task_id="subtract", run_uri="a run", spark_rows_min=rows_min)
    operator.hook = SimpleNamespace(env=dict)  # type: ignore[assignment]
    operator.execute(NOTHING)
    assert done == ["job" if is_job else "worker"]
    assert operator.lineage is not None
    assert operator.lineage.run_id == "r"


def test_work_in_the_worker_has_what_a_job_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    options = StorageOptions(region="here", access_key_id="K", secret_access_key="store-hunter2")
    run = SimpleNamespace(
        options=options, plan=SimpleNamespace(namespace="s3://b/lake", repository="lake", run_id="r")
    )
    seen: dict[str, str] = {}
    monkeypatch.setattr(lakefs_spark, "open_run", lambda *_: run)
    monkeypatch.setattr(bulk_delete, "open_run", lambda *_: run)
    monkeypatch.setattr(lakefs_spark.steps, "rows_of", lambda *_: 0)
    monkeypatch.setattr(
        lakefs_spark.steps, "bulk_delete", lambda *_: seen.update(os.environ) or summary(step="bulk_delete")
    )
    run.plan.dry_run = False
    operator = LakeFSBulkDeleteOperator(
        task_id="bulk_delete", run_uri="a run", spark_rows_min=1, kv_conn_id="kv"
    )
    operator.hook = SimpleNamespace(env=lambda: {"LAKECTL": "lakefs-hunter2"})  # type: ignore[assignment]
    with connections(kv={"conn_type": "sqlite", "host": "/kv.db"}):
        secrets = operator.secrets(run)  # type: ignore[arg-type]
        operator.execute(NOTHING)
    own = {"LAKECTL": "lakefs-hunter2", "AWS_SECRET_ACCESS_KEY": "store-hunter2", URL: "sqlite:///kv.db"}
    assert own.items() <= secrets.items()
    assert secrets.items() <= seen.items()
    assert not own.keys() & os.environ.keys()
