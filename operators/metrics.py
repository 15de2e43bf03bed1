"""Figures of a step for Airflow's metrics, named ``dredge.<step>.<noun>_<unit>``, and for XCom."""

from __future__ import annotations

from typing import Any

from airflow.sdk.observability import stats

from dredge.runs.summary import StepSummary


def report_metrics(step: str, summary: StepSummary, repository: str) -> dict[str, Any]:
    """Send a step's figures to the metrics, and return what XCom keeps: figures, no lists of objects.

    :param step: name of the step
    :param summary: of the step
    :param repository: name or URI, the tag of the metrics
    """
    tags = {"repository": repository}
    for name, value in summary.counts.items():
        stats.gauge(f"dredge.{step}.{name}", value, tags=tags)
    stats.timing(f"dredge.{step}.duration", summary.seconds * 1000, tags=tags)
    return summary.as_xcom()


def report_figures(step: str, figures: dict[str, Any], store: str) -> dict[str, Any]:
    """Send the whole numbers among a step's figures to the metrics, and return all of them for XCom.

    :param step: name of the step
    :param figures: by name
    :param store: address of the key-value store, the tag of the metrics
    """
    for name, value in figures.items():
        if isinstance(value, int) and not isinstance(value, bool):
            stats.gauge(f"dredge.{step}.{name}", value, tags={"store": store.partition("?")[0]})
    return figures
