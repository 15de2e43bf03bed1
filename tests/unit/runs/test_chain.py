"""Whether the results in a run folder were made from each other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from dredge.runs.chain import PLAN, breaks
from dredge.runs.summary import StepSummary

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LINKS = {"first": [PLAN], "second": ["first"], "third": ["first", "second"]}
DIGEST = "of the plan"


def summary(step: str, inputs: Mapping[str, str], **counts: int) -> StepSummary:
    return StepSummary(step, "r1", "success", NOW, NOW, counts=counts, inputs=inputs)


def unbroken() -> dict[str, StepSummary]:
    """Results that were made from each other."""
    digests, found = {PLAN: DIGEST}, dict[str, StepSummary]()
    for step, read in LINKS.items():
        found[step] = summary(step, {name: digests[name] for name in read})
        digests[step] = found[step].digest
    return found


def test_results_that_were_made_from_each_other_are_a_chain() -> None:
    assert list(breaks(LINKS, unbroken(), DIGEST)) == []


def test_a_result_that_was_made_without_an_input_breaks_the_chain() -> None:
    found = unbroken()
    found["third"] = summary("third", {"second": found["second"].digest})
    assert list(breaks(LINKS, found, DIGEST)) == ["third was made without first"]


def test_a_result_that_was_made_from_another_one_breaks_the_chain() -> None:
    found = unbroken()
    found["second"] = summary("second", found["second"].inputs, rows=1)
    (text,) = breaks(LINKS, found, DIGEST)
    assert text == "third was made from another result of second than the one that stands now"


def test_another_plan_breaks_the_chain() -> None:
    (text,) = breaks(LINKS, unbroken(), "of another plan")
    assert text.startswith("first was made from another result of plan")
