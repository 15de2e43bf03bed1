"""What a step hands on, and the chain that follows from what it reads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dredge.errors import FormatError
from dredge.runs.steps import PLAN, links_of
from dredge.runs.summary import StepOutput, StepSummary

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
