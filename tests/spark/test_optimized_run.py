"""A clean run and the optimized one that builds on it, their tasks on Spark, in a classic session and over
Connect."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_dredge.spark_jobs.rows import SparkRunner
from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run
from dredge.gc.run import Run
from dredge.gc.steps import run_steps
from dredge.lakefs import LakeFSClient
from dredge.runs.run import release_lease
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def collect(lake: Lake, runner: TaskRunner) -> Run:
    client = LakeFSClient(lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
    config = GCConfig(
        repository="lake",
        mode="auto",
        dry_run=False,
        unsafe_min_age_seconds=0,
        unsafe_grace_seconds=0,
        max_delete_percent=None,
    )
    time.sleep(0.01)
    context = Run.open(plan_run(config, None, client).run_uri, None, client)
    try:
        run_steps(context, runner)
    finally:
        release_lease(context)
    return context


def set_rules(lake: Lake, days: int) -> None:
    lake.sdk.repositories_api.set_gc_rules("lake", {"default_retention_days": days, "branches": []})


def test_an_optimized_run_on_spark_deletes_what_has_become_garbage(
    session: SparkSession, tmp_path: Path
) -> None:
    runner = SparkRunner(session, StorageOptions.from_env().to_env())
    with lakefs_server(tmp_path) as lake:
        repository = lake.repository()
        branch = repository.branch("main")
        day = 86_400
        now = int(time.time())
        for age in (60, 50, 40):
            branch.object("table").upload(f"{age} days".encode())
            branch.commit(f"{age} days ago", date=now - age * day)
        set_rules(lake, 100)
        branch.object("staged").upload(b"staged")
        branch.object("kept").upload(b"kept")
        first = collect(lake, runner)
        before = keys(lake)
        assert first.plan.mode == "clean"
        assert len(before) == 5
        set_rules(lake, 30)  # now two commits expire
        branch.object("staged").delete()
        branch.object("new").upload(b"new")
        second = collect(lake, runner)
        assert second.plan.mode == "optimized"
        assert len(keys(lake) & before) == 2
        assert len(keys(lake)) == 3
        shown = {found.path: branch.object(found.path) for found in branch.objects()}
        assert {path: found.reader(mode="rb").read() for path, found in shown.items()} == {
            "kept": b"kept",
            "new": b"new",
            "table": b"40 days",
        }


def keys(lake: Lake) -> set[str]:
    return {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}
