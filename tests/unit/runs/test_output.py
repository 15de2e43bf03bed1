"""What a step hands on, and the chain that follows from what it reads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dredge.errors import FormatError
from dredge.runs.chain import PLAN, links_of
from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo, StepSummary

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class First(StepOutput):
    """Reads the plan."""

    STEP = "first"


class Second(StepOutput):
    """Reads the first."""

    STEP = "second"
    INPUTS = (First,)


class Third(StepOutput):
    """Reads both."""

    STEP = "third"
    INPUTS = (Second, First)


def test_a_chain_names_everything_that_a_result_was_made_from() -> None:
    assert links_of([Third]) == {"first": [PLAN], "second": ["first"], "third": ["second", "first"]}
    assert links_of(Second.INPUTS) == {"first": [PLAN]}


def test_a_summary_of_another_step_is_refused() -> None:
    with pytest.raises(FormatError):
        Second.of(StepSummary("first", "r1", "success", NOW, NOW))


def test_files_and_facts_are_asked_for_by_what_they_are() -> None:
    parts = (PartInfo("second/a-0", 1, 2, "ab"), PartInfo("second/b-0", 1, 2, "ab"))
    found = Second.of(
        StepSummary("second", "r1", "success", NOW, NOW, {"rows": 2}, parts, details={"exact": True})
    )
    assert found.part("a-0") is parts[0]
    assert found.parts("b-") == [parts[1]]
    assert found.counts["rows"] == 2
    assert found.detail("exact") is True
    with pytest.raises(FormatError):
        found.detail("other")
    with pytest.raises(FormatError):
        found.part("c-0")
