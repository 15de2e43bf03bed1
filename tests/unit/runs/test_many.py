"""What became of many repositories: what is taken for good, and what people are told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.runs.many import (
    Outcome,
    left_out,
    lost,
    reported,
    save_summary,
    summarize,
)
from dredge.storage import open_reader

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def report(outcome: str, *problems: str) -> Outcome:
    """A run that found four objects and deleted three."""
    told: dict[str, Any] = {"outcome": outcome, "outcome_text": f"it was {outcome}", "problems": problems}
    return reported("lake", "memory://many-test/r1", told, (4, 40), (3, 30))


@pytest.fixture
def summary() -> dict[str, Any]:
    """Of five repositories, with names in another order than they are shown in."""
    dry = Outcome(repository="bay", outcome="dry_run", text="dry run", found_objects=1000)
    outcomes = [left_out("alp", "asleep"), dry, report("success"), lost("tarn", ""), lost("sea", "no key")]
    return summarize(outcomes, NOW)


@pytest.mark.parametrize(
    ("outcome", "is_good"),
    [
        *((name, True) for name in ("success", "dry_run", "left_out")),
        *((name, False) for name in ("failed", "partial", "refused", "awaiting_approval", "")),
    ],
)
def test_who_came_to_the_end_or_was_left_out_needs_no_look(outcome: str, is_good: bool) -> None:
    assert Outcome(repository="lake", outcome=outcome, text="").is_good == is_good


def test_a_summary_is_kept(summary: dict[str, Any]) -> None:
    root = "memory://many-test/root"
    page = save_summary(summary, root, "first")
    assert json.loads(open_reader(f"{root}/summaries").get("first.json")) == summary
    assert page == f"{root}/summaries/first.html"


def test_those_that_need_a_look_come_first_and_those_that_were_left_out_last(summary: dict[str, Any]) -> None:
    shown = [(row["repository"], row["is_good"]) for row in summary["repositories"]]
    assert shown == [("sea", False), ("tarn", False), ("bay", True), ("lake", True), ("alp", True)]
