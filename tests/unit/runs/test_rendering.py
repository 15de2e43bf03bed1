"""Ledger, limits, progress and report: what people and later attempts read."""

from pathlib import Path

import pytest

from dredge.runs.report import render, render_html


def test_a_report_shows_names_as_text_never_as_markup() -> None:
    page = render_html(
        {
            "title": "<script>alert(1)</script>",
            "outcome": "failed",
            "outcome_text": "failed",
            "headline": "h",
            "what_to_do": "w",
            "facts": [["a", "b"]],
            "rows": [{"kind": "k", "verdict": "deleted", "why": "y", "objects": 1, "size_bytes": 5}],
            "problems": ["p"],
            "failures": [{"address": "<b>", "code": None, "message": None}],
            "warnings": ["w"],
            "findings": [{"rule": "r", "verdict": "refused", "text": "t"}],
            "steps": [{"step": "s", "status": "failed", "seconds": "", "figures": ""}],
        }
    )
    assert "<script>" not in page
    assert "&lt;b&gt;" in page
    assert "http" not in page.replace("http-equiv", "")  # needs nothing from elsewhere


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "page.html.j2"
    path.write_text("<p>{{ text }}</p>\n{% if more %}\n  {% include 'more.j2' %}\n{% endif %}\n")
    (tmp_path / "more.j2").write_text("<i>{{ more }}</i>\n")
    return path


def test_every_value_is_escaped_in_included_templates_too(template: Path) -> None:
    page = render(template, text="<script>&\"'", more="<b>")
    assert page == "<p>&lt;script&gt;&amp;&#34;&#39;</p>\n<i>&lt;b&gt;</i>\n"
