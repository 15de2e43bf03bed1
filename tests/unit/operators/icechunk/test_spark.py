"""The tasks that mark and collect: in the worker or as a job, of the run that was planned and of no other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_dredge.operators.icechunk.collect import IcechunkCollectOperator
from airflow_dredge.operators.icechunk.mark import IcechunkMarkOperator
from airflow_dredge.operators.icechunk.spark import IcechunkSparkOperator
from dredge.errors import ConfigError, RefusedError
from dredge.icechunk.collection.steps import Run, find_garbage, run_steps
from dredge.runs.tasks import LocalRunner
from dredge.storage.options import S3_SETTINGS, StorageOptions
from tests.support.airflow import connections
from tests.support.icechunk import objects
from tests.support.icechunk_operators import NOTHING, plan
from tests.support.icechunk_repo import Repo

WORK: dict[str, Any] = {"icechunk_mark": find_garbage, "icechunk_collect": run_steps}


def work(kind: type[IcechunkSparkOperator], planned: Any) -> dict[str, Any]:
    operator = kind(task_id=kind.step, plan=planned, aws_conn_id=None)
    done = operator.execute(NOTHING)
    assert operator.lineage is not None
    assert operator.lineage.run_id == planned["run_id"]
    return done


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Jobs, by step and run; each does its work here."""
    found: list[tuple[str, str]] = []

    def submit(operator: IcechunkSparkOperator, _context: Any, _secrets: Mapping[str, str]) -> None:
        found.append((operator.step, operator.run_uri))
        WORK[operator.step](Run.open(operator.run_uri), LocalRunner())

    monkeypatch.setattr(IcechunkSparkOperator, "submit", submit)
    return found


@pytest.mark.parametrize("mode", ["local", "spark"])
def test_what_is_garbage_is_marked_and_then_collected(
    garbage: Repo, started: list[tuple[str, str]], mode: str
) -> None:
    before = objects(garbage.folder)
    planned = plan(garbage, mode=mode, dry_run=False)
    marked = work(IcechunkMarkOperator, planned)
    assert marked["counts"]["deletable_objects"] == 20
    assert objects(garbage.folder) == before
    collected = work(IcechunkCollectOperator, planned)
    assert collected["counts"]["deleted_objects"] == 20
    assert sum(map(len, before.values())) - sum(map(len, objects(garbage.folder).values())) == 20
    steps = [("icechunk_mark", planned["run_uri"]), ("icechunk_collect", planned["run_uri"])]
    assert started == (steps if mode == "spark" else [])


@pytest.mark.parametrize("kind", [IcechunkMarkOperator, IcechunkCollectOperator])
def test_without_a_plan_nothing_is_done(kind: type[IcechunkSparkOperator]) -> None:
    with pytest.raises(ConfigError):
        work(kind, None)
    with pytest.raises(AirflowSkipException):
        work(kind, {"run_uri": "", "mode": "none"})


def test_work_in_the_worker_reaches_the_store_by_the_connection_and_only_meanwhile(
    garbage: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, seen = plan(garbage), list[str | None]()
    monkeypatch.delenv("AWS_REGION", raising=False)

    def look(*_: object) -> None:
        seen.append(StorageOptions.from_env().region)
        raise RefusedError("seen")

    monkeypatch.setattr(IcechunkMarkOperator, "work", look)
    operator = IcechunkMarkOperator(task_id="mark", plan=planned)
    with (
        connections(aws_default={"conn_type": "aws", "extra": {"region_name": "eu-north-1"}}),
        pytest.raises(RefusedError),
    ):
        operator.execute(NOTHING)
    assert seen == ["eu-north-1"]
    assert S3_SETTINGS not in os.environ
