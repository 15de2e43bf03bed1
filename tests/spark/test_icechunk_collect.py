"""A collection spread over Spark deletes what the same collection in this process deletes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_dredge.spark_jobs.step import JOBS
from dredge.errors import FormatError
from dredge.icechunk.collection.config import CollectConfig, Tuning
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect, plan_collection, release_lease, save_report
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import build, graph_of, local_storage, objects, scenarios
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_repo import Repo, change_number
from tests.support.icechunk_views import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    ids = build(local_storage(folder), graph_of(scenarios()[0]), 1)
    snapshots = read_history(open_reader(f"file://{folder}")).snapshots
    middle = (snapshots[ids["7"]].flushed_at + snapshots[ids["8"]].flushed_at) // 2
    expire(f"file://{folder}", instant(middle))
    return folder


def config(folder: Path) -> CollectConfig:
    return CollectConfig(
        uri=f"file://{folder}",
        dry_run=False,
        unsafe_min_age_seconds=0,
        unsafe_grace_seconds=0,
        max_delete_percent=None,
        tuning=Tuning(snapshots_per_task=3, refs_per_task=10),
    )


def test_spark_deletes_what_one_process_deletes(spark: SparkSession, repo: Path, tmp_path: Path) -> None:
    shutil.copytree(repo, tmp_path / "alone")
    collect(config(tmp_path / "alone"))
    plan = plan_collection(config(repo))
    summary = JOBS["icechunk_collect"].run(spark, plan.run_uri)
    assert summary.counts["deleted_objects"] == 20
    assert objects(repo) == objects(tmp_path / "alone")
    assert JOBS["icechunk_collect"].run(spark, plan.run_uri).digest == summary.digest


def test_unreadable_live_file_aborts_on_spark_with_its_own_error(spark: SparkSession, repo: Path) -> None:
    plan = plan_collection(config(repo))
    run = Run.open(plan.run_uri)
    tip = read_history(run.reader).branches["main"]
    before = objects(repo)
    from dredge.icechunk.format.metadata import parse_snapshot

    data = (repo / "snapshots" / tip).read_bytes()
    manifest = parse_snapshot(data, tip).manifests[0].id
    (repo / "manifests" / manifest).write_bytes(b"damaged")
    with pytest.raises(FormatError, match="not an Icechunk file"):
        JOBS["icechunk_collect"].run(spark, plan.run_uri)
    assert objects(repo) == before


def test_optimized_run_marks_on_spark_and_deletes_what_one_process_deletes(
    spark: SparkSession, repo: Path, tmp_path: Path
) -> None:
    first = plan_collection(config(repo))
    JOBS["icechunk_collect"].run(spark, first.run_uri)
    run = Run.open(first.run_uri)
    save_report(run)
    release_lease(run)
    library = Repo(repo).library
    for value in (100, 101):
        session = library.writable_session("main")
        change_number(session, value)
        tip = session.commit("more")
    flushed = read_history(open_reader(f"file://{repo}")).snapshots[tip].flushed_at
    expire(f"file://{repo}", instant(flushed), delete_expired_branches=True, delete_expired_tags=True)
    shutil.copytree(repo, tmp_path / "alone")
    collect(config(tmp_path / "alone"))
    plan = plan_collection(config(repo))
    assert plan.mode == "optimized"
    summary = JOBS["icechunk_collect"].run(spark, plan.run_uri)
    assert summary.counts["chunks_deleted_objects"] > 0
    assert objects(repo) == objects(tmp_path / "alone")


def test_file_in_which_a_virtual_chunk_lies_stays_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    views = Views(tmp_path / "repo", 2, count=1, container="own", inside="manifests/")
    views.write("source")
    (manifest,) = views.objects()["manifests"]
    views.write("second")
    views.expire_before(views.view("view", [manifest], without="source"))
    numbers = views.numbers("view")
    for mode in ("clean", "optimized"):
        plan = plan_collection(replace(config(views.folder), keep_lost_days=0))
        assert plan.mode == mode
        JOBS["icechunk_collect"].run(spark, plan.run_uri)
        run = Run.open(plan.run_uri)
        save_report(run)
        release_lease(run)
        assert views.numbers("view") == numbers
        views.write(mode)
        views.expire_before(views.tip())
