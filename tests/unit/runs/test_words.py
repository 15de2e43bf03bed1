"""Ledger, limits, progress and report: what people and later attempts read."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from dredge.runs import progress
from dredge.runs.folder import RunFolder
from dredge.runs.progress import Progress, line, log_progress
from dredge.runs.report import render_html
from dredge.runs.words import duration_text, size_text
from dredge.storage import open_writer


def test_progress_tells_rate_and_time_left() -> None:
    assert line("listing", "objects", 500, 1000, 5.0) == "listing: 500 of 1,000 objects, 100/s, 5 s left"
    assert line("listing", "objects", 500, None, 5.0) == "listing: 500 objects, 100/s"
    assert line("ledger", "objects", 1000, 100_000, 10.0).endswith("100/s, 16 min left")


def test_progress_of_tasks_reaches_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.02)
    folder = RunFolder(open_writer("memory://progress-test"), "run")
    with caplog.at_level(logging.INFO, "dredge"), log_progress(folder, "listing", "objects", 10) as where:
        tasks = [Progress(folder, where, f"task{number}") for number in range(2)]
        for _ in range(50):
            for task in tasks:
                task.add(0)
            if "5 of 10" in caplog.text:
                break
            import time

            time.sleep(0.03)
            if not caplog.text:
                tasks[0].add(2)
                tasks[1].add(3)
    assert "listing:" in caplog.text


def test_sizes_are_worded_for_people() -> None:
    assert [size_text(value) for value in (None, 0, 1023, 1536, 5 * 2**30)] == [
        "",
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "5.0 GiB",
    ]


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0, "0 s"),
        (0.00333333, "12 s"),
        (0.0002, "0.72 s"),
        (0.025, "1 min 30 s"),
        (0.0166666, "1 min"),
        (0.5, "30 min"),
        (0.99999999, "1 h"),
        (12, "12 h"),
        (13.2, "13 h 12 min"),
        (24, "24 h"),
        (36, "36 h"),
        (48, "2 days"),
        (60.5, "2 days 12 h"),
        (11 * 24, "11 days"),
        (-0.5, "-30 min"),
    ],
)
def test_durations_are_worded_for_people(hours: float, words: str) -> None:
    assert duration_text(timedelta(hours=hours)) == words


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
