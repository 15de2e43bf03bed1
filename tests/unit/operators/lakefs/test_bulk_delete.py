"""The task that deletes: a dry run starts no Spark and deletes nothing, and small work is done in the worker."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.lakefs.bulk_delete import LakeFSBulkDeleteOperator
from dredge.errors import FormatError
from dredge.gc import steps
from dredge.gc.mark_uncommitted.kv_store import URL
from dredge.gc.run import Run
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions
from dredge.storage.options import S3_SETTINGS
from tests.support.airflow import connections
from tests.support.gc import World, busy_world

NOTHING: Any = {}


class Sweep(LakeFSBulkDeleteOperator):
    """The task of a run; a job on Spark is done here."""

    def __init__(self, *, run: Run, **settings: Any) -> None:
        super().__init__(task_id="bulk_delete", run_uri="a run", aws_conn_id=None, **settings)
        self.run = run
        self.hook = SimpleNamespace(env=lambda: {"LAKECTL": "lakefs-hunter2"})  # type: ignore[assignment]
        self.started: list[str] = []
        self.works = True

    def open_run(self, run_uri: str) -> Run:
        return self.run

    def submit(self, *_: Any) -> None:
        self.start("submit")

    def connect(self, _: Any) -> None:
        self.start("connect")

    def start(self, engine: str) -> None:
        self.started.append(engine)
        if self.works:
            steps.bulk_delete(self.run, LocalRunner())


def marked(**settings: Any) -> tuple[World, set[str], Run]:
    """A run up to the guards, and what must stay; of eight candidates one is held, seven go."""
    world, kept, gone = busy_world()
    assert len(gone) == 7
    run = world.plan(**settings)
    world.mark(run)
    return world, kept, run


def test_a_dry_run_starts_no_job_and_deletes_nothing() -> None:
    world, _, run = marked(dry_run=True)
    before, sweep = world.data(), Sweep(run=run)
    assert sweep.execute(NOTHING)["status"] == "dry_run"
    assert sweep.started == []
    assert world.data() == before


@pytest.mark.parametrize(
    ("settings", "started"),
    [
        ({}, ["submit"]),
        ({"spark_engine": "connect"}, ["connect"]),
        ({"spark_rows_min": 8}, ["submit"]),
        ({"spark_rows_min": 9}, []),
    ],
)
def test_a_job_deletes_the_candidates_and_the_worker_does_where_they_are_few(
    settings: dict[str, Any], started: list[str]
) -> None:
    world, kept, run = marked()
    sweep = Sweep(run=run, **settings)
    done = sweep.execute(NOTHING)
    assert (done["status"], done["counts"]["deleted_objects"]) == ("success", 7)
    assert (sweep.started, world.data()) == (started, kept)
    assert sweep.lineage is not None
    assert (sweep.lineage.run_id, sweep.lineage.figures["deleted_objects"]) == (run.plan.run_id, 7)


def test_a_job_that_left_no_summary_is_no_success() -> None:
    sweep = Sweep(run=marked()[2])
    sweep.works = False
    with pytest.raises(FormatError):
        sweep.execute(NOTHING)


def test_work_in_the_worker_has_what_a_job_would_have() -> None:
    world, _, run = marked()
    run.options = StorageOptions(region="here", access_key_id="K", secret_access_key="store-hunter2")
    seen: dict[str, str] = {}
    world.client.before = lambda *_: seen.update(os.environ)
    sweep = Sweep(run=run, spark_rows_min=9, kv_conn_id="kv")
    with connections(kv={"conn_type": "sqlite", "host": "/kv.db"}):
        secrets = sweep.secrets(run)
        sweep.execute(NOTHING)
    own = {"LAKECTL": "lakefs-hunter2", URL: "sqlite:///kv.db"}
    assert own.items() <= secrets.items()
    told = StorageOptions.from_env(seen)
    assert (told.region, told.secret_access_key) == ("here", "store-hunter2")
    assert secrets.items() <= seen.items()
    assert not {*own, S3_SETTINGS} & os.environ.keys()
