"""The tasks that mark and collect: in the worker or as a job, of the run that was planned and of no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_dredge.operators.icechunk.base import IcechunkSparkOperator
from airflow_dredge.operators.icechunk.collection import IcechunkCollectOperator, IcechunkMarkOperator
from dredge.icechunk.collection.steps import Run, find_garbage, run_steps
from dredge.runs.tasks import LocalRunner
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

    def submit(operator: IcechunkSparkOperator, _secrets: Mapping[str, str]) -> None:
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
