"""The link from a task to its report."""

from __future__ import annotations

import pytest

from airflow_dredge.operators import links
from tests.support.airflow import FILTERS

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


def test_link_leads_to_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links.XCom, "get_value", lambda ti_key, key: "s3://b/r/report.html")
    assert links.ReportLink().get_link(None, ti_key=None) == "s3://b/r/report.html"  # type: ignore[arg-type]
    monkeypatch.setattr(links.XCom, "get_value", lambda ti_key, key: None)
    assert links.ReportLink().get_link(None, ti_key=None) == ""  # type: ignore[arg-type]
