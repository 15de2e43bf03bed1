"""What tasks tell OpenLineage: read by the extractor of Airflow's own provider, as it does after a task."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.sdk.api.datamodels._generated import TaskInstanceState
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.serde import Serde

from airflow_dredge.operators.icechunk.collect import IcechunkCollectOperator
from airflow_dredge.operators.icechunk.save_report import IcechunkSaveReportOperator
from airflow_dredge.operators.kv.base import LakeFSKVTrashOperator
from airflow_dredge.operators.lakefs import base, bulk_delete, mark_uncommitted, save_report
from airflow_dredge.operators.lakefs.bulk_delete import LakeFSBulkDeleteOperator
from airflow_dredge.operators.lakefs.mark_uncommitted import LakeFSMarkUncommittedOperator
from airflow_dredge.operators.lakefs.save_report import LakeFSSaveReportOperator
from airflow_dredge.operators.lakefs.spark import LakeFSSparkOperator
from airflow_dredge.operators.lineage import Lineage
from airflow_dredge.operators.lineage_teller import TellsLineage
from dredge.errors import RefusedError
from tests.support.airflow import FILTERS
from tests.support.lakefs_operators import Pushed, summary

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

PAGE = "s3://b/run/report.html"
UUID = "0195d4f4-5a4e-7c2b-9a70-3d6c5a1b2c3d"


def told(operator: Any, state: TaskInstanceState = TaskInstanceState.SUCCESS) -> dict[str, Any]:
    """The event that OpenLineage's client would send after the task, as JSON."""
    found = ExtractorManager().extract_metadata(SimpleNamespace(run_id="manual__1"), operator, state, None)
    event = RunEvent(
        eventTime=datetime(2026, 1, 2, tzinfo=UTC).isoformat(),
        producer="https://example.org",
        run=Run(UUID, facets=found.run_facets),
        job=Job("airflow", "dag.t"),
        eventType=RunState.COMPLETE,
        inputs=found.inputs,
        outputs=found.outputs,
    )
    value: dict[str, Any] = json.loads(Serde.to_json(event))
    return value


def planned(**changes: Any) -> Any:
    plan = {"namespace": "s3://bucket/lake", "repository": "lake", "run_id": "r1", "dry_run": False}
    return SimpleNamespace(plan=SimpleNamespace(**plan | changes), options=None)


def saved(monkeypatch: pytest.MonkeyPatch, outcome: str, **counts: int) -> LakeFSSaveReportOperator:
    """The task of the report, of a run with that outcome and those figures, before it is executed."""
    details = {"outcome": outcome, "page": PAGE}
    run = planned()
    run.folder = SimpleNamespace(read_json=lambda name: {"problems": [], "approval": None})
    monkeypatch.setattr(save_report, "open_run", lambda *_: run)
    monkeypatch.setattr(
        save_report.steps,
        "save_report",
        lambda _: summary(step="save_report", counts=counts, details=details),
    )
    monkeypatch.setattr(save_report.steps, "release_lease", lambda _: None)
    return LakeFSSaveReportOperator(task_id="save_report", run_uri="s3://bucket/r1")


def test_report_of_a_run_that_deleted_has_the_namespace_as_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = {"deleted_objects": 7, "deleted_bytes": 70, "live_objects": 100}
    operator = saved(monkeypatch, "success", **counts)
    operator.execute({"ti": Pushed()})  # type: ignore[typeddict-item]
    event = told(operator)
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("s3://bucket", "lake")
    assert output["facets"]["dredge_figures"]["figures"] == counts
    assert event["inputs"] == []
    facet = event["run"]["facets"]["dredge_run"]
    assert {name: facet[name] for name in ("runId", "repository", "outcome", "report")} == {
        "runId": "r1",
        "repository": "lake",
        "outcome": "success",
        "report": PAGE,
    }
    assert facet["_schemaURL"].startswith("https://openlineage.io/spec/")


def test_report_of_a_run_that_failed_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = saved(monkeypatch, "partial", deleted_objects=3, failed_objects=1)
    with pytest.raises(RefusedError):
        operator.execute({"ti": Pushed()})  # type: ignore[typeddict-item]
    event = told(operator, TaskInstanceState.FAILED)
    assert event["run"]["facets"]["dredge_run"]["outcome"] == "partial"
    assert len(event["outputs"]) == 1


def test_tasks_that_only_look_have_the_namespace_as_their_input(monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned(dry_run=True)
    would_go = summary(step="bulk_delete", status="dry_run", counts={"deletable_objects": 7})
    monkeypatch.setattr(bulk_delete, "open_run", lambda *_: run)
    monkeypatch.setattr(bulk_delete, "tasks_environment", lambda *_: nullcontext())
    monkeypatch.setattr(bulk_delete.steps, "bulk_delete", lambda *_: would_go)
    sweep = LakeFSBulkDeleteOperator(task_id="bulk_delete", run_uri="s3://bucket/r1")
    sweep.execute({})  # type: ignore[typeddict-item]
    monkeypatch.setattr(base, "open_run", lambda *_: run)
    monkeypatch.setattr(base, "tasks_environment", lambda *_: nullcontext())
    monkeypatch.setattr(mark_uncommitted.steps, "mark_uncommitted", lambda _: summary())
    mark = LakeFSMarkUncommittedOperator(task_id="mark_uncommitted", run_uri="s3://bucket/r1")
    mark.execute({})  # type: ignore[typeddict-item]
    for operator in (sweep, mark):
        event = told(operator)
        assert [(item["namespace"], item["name"]) for item in event["inputs"]] == [("s3://bucket", "lake")]
        assert event["outputs"] == []


def test_a_task_that_ended_before_it_knew_anything_tells_nothing() -> None:
    operator = LakeFSMarkUncommittedOperator(task_id="mark_uncommitted", run_uri="")
    assert operator.get_openlineage_facets_on_complete(None) is None
    assert told(operator, TaskInstanceState.FAILED)["inputs"] == []


@pytest.mark.parametrize(
    "tells",
    [
        IcechunkCollectOperator,
        IcechunkSaveReportOperator,
        LakeFSKVTrashOperator,
        LakeFSSparkOperator,
    ],
)
def test_each_collector_tells(tells: type) -> None:
    assert issubclass(tells, TellsLineage)


@pytest.mark.parametrize(
    ("uri", "dataset"),
    [
        ("s3a://bucket/some/lake/", ("s3://bucket", "some/lake")),
        ("gs://bucket", ("gs://bucket", "/")),
        ("abfss://c@acc.dfs.core.windows.net/lake", ("abfss://c@acc.dfs.core.windows.net", "lake")),
        ("file:///srv/lake", ("file", "/srv/lake")),
        ("postgresql://db:5432/lakefs?sslmode=disable", ("postgres://db:5432", "lakefs")),
    ],
)
def test_datasets_are_named_as_openlineage_names_stores(uri: str, dataset: tuple[str, str]) -> None:
    assert Lineage(uri, "lake", "r1", {}).dataset == dataset
