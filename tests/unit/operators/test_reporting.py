"""Metrics and OpenLineage events of tasks, read with the extractor of Airflow's provider."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.sdk.api.datamodels._generated import TaskInstanceState
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.serde import Serde

from airflow_dredge.operators import reporting
from airflow_dredge.operators.lakefs.mark_sweep import LakeFSMarkUncommittedOperator
from airflow_dredge.operators.reporting import Lineage
from tests.support.lakefs_operators import summary


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def note(name: str, value: float = 1, *, tags: dict[str, str]) -> None:
        found[name] = (value, tags)

    monkeypatch.setattr(reporting, "Stats", SimpleNamespace(gauge=note, timing=note, incr=note))
    return found


def test_step_returns_figures_and_sends_metrics(sent: dict[str, Any]) -> None:
    returned = reporting.report_metrics("mark_uncommitted", summary(), "lake")
    assert returned["counts"] == {"rows": 3}
    assert sent == {
        "dredge.mark_uncommitted.rows": (3, {"repository": "lake"}),
        "dredge.mark_uncommitted.duration": (2000.0, {"repository": "lake"}),
    }


def test_a_complete_run_sends_its_time_and_what_it_asked_for(sent: dict[str, Any]) -> None:
    ended = summary(details={"outcome": "success", "requests": {"list_requests": 4, "delete_requests": 1}})
    reporting.report_run(ended, "lake")
    assert sent == {
        "dredge.run.ended": (1, {"repository": "lake", "outcome": "success"}),
        "dredge.run.list_requests": (4, {"repository": "lake"}),
        "dredge.run.delete_requests": (1, {"repository": "lake"}),
        "dredge.run.complete_timestamp_seconds": (
            int(ended.finished_at.timestamp()),
            {"repository": "lake", "outcome": "success"},
        ),
    }


PAGE = "s3://b/run/report.html"
UUID = "0195d4f4-5a4e-7c2b-9a70-3d6c5a1b2c3d"


def told(task: Any, state: TaskInstanceState = TaskInstanceState.SUCCESS) -> dict[str, Any]:
    found = ExtractorManager().extract_metadata(SimpleNamespace(run_id="manual__1"), task, state, None)
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


def operator(outcome: str = "", report: str = "", **counts: int) -> LakeFSMarkUncommittedOperator:
    found = LakeFSMarkUncommittedOperator(task_id="t", run_uri="s3://bucket/r1")
    found.lineage = Lineage("s3://bucket/lake", "lake", "r1", counts, outcome, report)
    return found


@pytest.mark.parametrize("outcome", ["success", "partial"])
def test_report_of_a_run_that_deleted_has_the_namespace_as_its_output(outcome: str) -> None:
    counts = {"deleted_objects": 7, "deleted_bytes": 70, "live_objects": 100}
    state = TaskInstanceState.SUCCESS if outcome == "success" else TaskInstanceState.FAILED
    event = told(operator(outcome, PAGE, **counts), state)
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("s3://bucket", "lake")
    assert output["facets"]["dredge_figures"]["figures"] == counts
    assert event["inputs"] == []
    facet = event["run"]["facets"]["dredge_run"]
    assert {name: facet[name] for name in ("runId", "repository", "outcome", "report")} == {
        "runId": "r1",
        "repository": "lake",
        "outcome": outcome,
        "report": PAGE,
    }
    assert facet["_schemaURL"].startswith("https://openlineage.io/spec/")
