"""Figures of a step, for XCom and for Airflow's metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators import reporting
from tests.support.lakefs_operators import summary


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What went to the metrics, by name."""
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
