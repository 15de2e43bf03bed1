"""The last task but one: it tells what became of the run, and fails with it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.lakefs import save_report
from airflow_dredge.operators.lakefs.save_report import LakeFSSaveReportOperator
from dredge.errors import RefusedError
from dredge.gc import steps
from tests.support.airflow import FILTERS
from tests.support.lakefs_operators import Pushed, acquire, hooked, namespace_in, plan, release, summary

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return namespace_in(tmp_path)


@pytest.mark.parametrize("outcome", ["failed", "awaiting_approval", "refused", "partial", "unfinished"])
def test_report_of_a_run_that_did_not_end_well_fails_the_task_but_keeps_its_link(
    monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    folder = SimpleNamespace(read_json=lambda name: {"problems": ["guard: too many objects"]})
    run = SimpleNamespace(
        plan=SimpleNamespace(run_id="r", repository="lake", namespace="s3://b/lake", uri="s3://b/lake"),
        folder=folder,
        options=None,
    )
    done = summary(step="save_report", details={"outcome": outcome, "page": "s3://b/r/report.html"})
    monkeypatch.setattr(save_report, "open_run", lambda *_: run)
    monkeypatch.setattr(save_report.steps, "save_report", lambda _: done)
    released: list[Any] = []
    monkeypatch.setattr(save_report.steps, "release_lease", released.append)
    pushed = Pushed()
    operator = LakeFSSaveReportOperator(task_id="save_report", run_uri="s3://b/r")
    with pytest.raises(RefusedError, match=f"run r is {outcome}. guard: too many objects"):
        operator.execute({"ti": pushed})  # type: ignore[typeddict-item]
    assert pushed["save_report", "report_uri"] == "s3://b/r/report.html"
    assert released == [run]


def test_run_whose_failed_tasks_alone_were_cleared_gives_the_lease_back_with_its_report(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first task and its last are not among them, so nobody else would."""
    lease = acquire(namespace, "manual__1")
    planned = plan(namespace, lease)
    release(namespace, lease)
    run = steps.Run.open(planned["run_uri"])
    run.lease.renew(run.plan.lease)  # as the cleared tasks do
    done = summary(step="save_report", details={"outcome": "success", "page": "s3://b/r/report.html"})
    monkeypatch.setattr(save_report.steps, "save_report", lambda _: done)
    operator = LakeFSSaveReportOperator(task_id="save_report", run_uri=planned["run_uri"])
    hooked(operator, namespace).execute({"ti": Pushed()})
    assert acquire(namespace, "manual__2")["fencing"] == lease["fencing"] + 1
