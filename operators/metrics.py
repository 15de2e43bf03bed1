"""Figures for Airflow's metrics and for XCom: those of a step, ``dredge.<step>.<noun>_<unit>``, and those of a run.

docs/metrics.md lists them, with an alert.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import Stats

from dredge.runs.summary import StepSummary

#: Outcomes of a run that did all it was asked for.
COMPLETE = ("success", "dry_run")


def report_metrics(step: str, summary: StepSummary, repository: str) -> dict[str, Any]:
    """Send a step's figures to the metrics, and return what XCom keeps: figures, no lists of objects.

    :param step: name of the step
    :param summary: of the step
    :param repository: name or URI, the tag of the metrics
    """
    tags = {"repository": repository}
    for name, value in summary.counts.items():
        Stats.gauge(f"dredge.{step}.{name}", value, tags=tags)
    Stats.timing(f"dredge.{step}.duration", summary.seconds * 1000, tags=tags)
    return summary.as_xcom()


def report_run(summary: StepSummary, repository: str) -> None:
    """Send what became of a run to the metrics; its objects and bytes are figures of the step that wrote the report.

    :param summary: of that step, whatever became of the run
    :param repository: name or URI, the tag of the metrics
    """
    tags, outcome = {"repository": repository}, str(summary.details["outcome"])
    Stats.incr("dredge.run.ended", tags={**tags, "outcome": outcome})
    for kind, value in summary.details.get("requests", {}).items():
        Stats.gauge(f"dredge.run.{kind}", value, tags=tags)
    if outcome in COMPLETE:
        # A time and not an age: a gauge says the same until the next run, an age would have to grow meanwhile.
        ended_at = int(summary.finished_at.timestamp())
        Stats.gauge("dredge.run.complete_timestamp_seconds", ended_at, tags={**tags, "outcome": outcome})


def report_figures(step: str, figures: dict[str, Any], store: str) -> dict[str, Any]:
    """Send the whole numbers among a step's figures to the metrics, and return all of them for XCom.

    :param step: name of the step
    :param figures: by name
    :param store: address of the key-value store, the tag of the metrics
    """
    for name, value in figures.items():
        if isinstance(value, int) and not isinstance(value, bool):
            Stats.gauge(f"dredge.{step}.{name}", value, tags={"store": store.partition("?")[0]})
    return figures
