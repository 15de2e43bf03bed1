"""Figures of a step, for XCom and for Airflow's metrics."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators import metrics
from tests.support.airflow import FILTERS
from tests.support.lakefs_operators import summary

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


def test_step_returns_figures_and_sends_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    monkeypatch.setattr(metrics.stats, "gauge", lambda name, value, tags: sent.update({name: (value, tags)}))
    monkeypatch.setattr(metrics.stats, "timing", lambda name, value, tags: sent.update({name: (value, tags)}))
    returned = metrics.report_metrics("mark_uncommitted", summary(), "lake")
    assert returned["counts"] == {"rows": 3}
    assert sent == {
        "dredge.mark_uncommitted.rows": (3, {"repository": "lake"}),
        "dredge.mark_uncommitted.duration": (2000.0, {"repository": "lake"}),
    }
