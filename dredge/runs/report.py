"""The report of a run as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dredge.runs.pages import render
from dredge.runs.report_rows import COLUMNS

_TEMPLATE = Path(__file__).parent / "templates" / "report.html.j2"


def render_html(report: Mapping[str, Any]) -> str:
    """Render a report.

    Args:
        report: `title`, `outcome`, `outcome_text`, `headline`, `what_to_do`, `facts` (pairs), `rows` (as
            `ReportRow.to_json` gives them), `problems`, `failures`, `warnings`, `findings`, `steps`; if wanted
            `held` and `over_limit` (why, objects, bytes, examples), and `sections` (`title`, `columns`, `rows` of
            texts, and if wanted `about`, `notes`, and `curve`, as `place_curve` gives it).
    """
    rows = [
        {"colour": _colour(row["verdict"]), "cells": [(column, column.text(row)) for column in COLUMNS]}
        for row in report["rows"]
    ]
    return render(
        _TEMPLATE,
        **{"held": [], "over_limit": [], "sections": [], **report, "columns": COLUMNS, "rows": rows},
    )


def _colour(verdict: str) -> str:
    if "deleted" in verdict:
        return "deleted" if verdict == "deleted" else "waiting"
    return "kept" if verdict == "kept" else "waiting"
