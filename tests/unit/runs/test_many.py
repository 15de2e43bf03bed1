"""What became of many repositories: what is taken for good, and what people are told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.runs.many import (
    Outcome,
    left_out,
    lost,
    render_summary,
    reported,
    save_summary,
    summarize,
    table_lines,
)
from dredge.storage import open_reader
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 1, 5, tzinfo=UTC)
HEADLINE = (
    "2 of 5 repositories were collected, 1 left out, 2 need a look."
    " 3 objects (30 B) were deleted, of 1,004 (40 B) that could be."
)


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


@pytest.mark.parametrize("outcome", ["success", "dry_run", "left_out"])
def test_who_came_to_the_end_or_was_left_out_needs_no_look(outcome: str) -> None:
    assert Outcome(repository="lake", outcome=outcome, text="").is_good


@pytest.mark.parametrize("outcome", ["failed", "partial", "refused", "awaiting_approval", ""])
def test_all_others_need_a_look(outcome: str) -> None:
    assert not Outcome(repository="lake", outcome=outcome, text="").is_good


@pytest.mark.parametrize("outcome", ["success", "dry_run"])
def test_problems_of_a_run_that_came_to_its_end_are_in_its_report_only(outcome: str) -> None:
    assert report(outcome, "slow").why == ""


def test_a_run_that_did_not_come_to_its_end_is_told_of_with_its_first_problem_and_what_it_did() -> None:
    assert report("partial", "no rights", "slow") == Outcome(
        repository="lake",
        outcome="partial",
        text="it was partial",
        why="no rights",
        found_objects=4,
        found_bytes=40,
        deleted_objects=3,
        deleted_bytes=30,
        run_uri="memory://many-test/r1",
        report_uri="memory://many-test/r1/report.html",
    )
    assert report("partial").why == ""


def test_those_that_need_a_look_come_first_and_those_that_were_left_out_last(summary: dict[str, Any]) -> None:
    shown = [(row["repository"], row["is_good"]) for row in summary["repositories"]]
    assert shown == [("sea", False), ("tarn", False), ("bay", True), ("lake", True), ("alp", True)]


@pytest.fixture
def root() -> Iterator[str]:
    yield "memory://many-test/root"
    forget_memory_store("many-test")


def test_a_summary_is_kept_as_it_is_and_as_a_page(summary: dict[str, Any], root: str) -> None:
    page = save_summary(summary, root, "first")
    assert page == f"{root}/summaries/first.html"
    reader = open_reader(f"{root}/summaries")
    assert json.loads(reader.get("first.json")) == summary
    assert reader.get("first.html").decode() == render_summary(summary)
    assert all(word in render_summary(summary) for word in (HEADLINE, "30 B", "no key", "asleep"))


def test_a_table_has_a_line_for_each_and_below_it_what_went_wrong(summary: dict[str, Any]) -> None:
    headline, *lines = table_lines(summary)
    assert headline == HEADLINE
    assert [line.split() for line in lines] == [
        ["REPOSITORY", "OUTCOME", "FOUND", "DELETED", "SIZE"],
        ["sea", "failed", "0", "0", "0", "B"],
        ["no", "key"],
        ["tarn", "failed", "0", "0", "0", "B"],
        lost("", "").why.split(),
        ["bay", "dry", "run", "1,000", "0", "0", "B"],
        ["lake", "it", "was", "success", "4", "3", "30", "B"],
        ["alp", "left", "out", "0", "0", "0", "B"],
        ["asleep"],
    ]
