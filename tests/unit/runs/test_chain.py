"""Whether the results in a run folder were made from each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dredge.errors import RefusedError
from dredge.runs.folder import RunFolder
from dredge.runs.steps import PLAN, breaks, check_chain, plan_digest
from dredge.runs.summary import StepSummary
from dredge.storage import open_writer
from tests.support.memory_store import forget_memory_store

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
    assert len(list(breaks(LINKS, found, DIGEST))) == 1


def test_a_result_that_was_made_from_another_one_breaks_the_chain() -> None:
    found = unbroken()
    found["second"] = summary("second", found["second"].inputs, rows=1)
    assert len(list(breaks(LINKS, found, DIGEST))) == 1
    assert len(list(breaks(LINKS, unbroken(), "of another plan"))) == 1


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    yield RunFolder(open_writer("memory://chain-test/r1"), "r1")
    forget_memory_store("chain-test")


def test_a_plan_is_the_same_under_another_lease_and_another_one_in_anything_else(folder: RunFolder) -> None:
    digests = []
    for plan in (
        {"cutoff": 1, "lease": "a", "dry_run": True},
        {"dry_run": True, "lease": "b", "cutoff": 1},
        {"cutoff": 1, "lease": "b", "dry_run": False},
    ):
        folder.writer.put(f"{PLAN}.json", json.dumps(plan).encode())
        digests.append(plan_digest(folder))
    assert digests[0] == digests[1] != digests[2]


def test_a_result_that_was_made_again_while_it_was_worked_with_breaks_the_chain(folder: RunFolder) -> None:
    folder.write_json(f"{PLAN}.json", {"cutoff": 1})
    first = summary("first", {PLAN: plan_digest(folder)})
    second = summary("second", {"first": first.digest})
    for item in (first, second):
        folder.write_summary(item)
    links = {"first": [PLAN], "second": ["first"]}
    assert check_chain(folder, "sweep", links) == {"first": first, "second": second}
    other = summary("other", {}, rows=1)  # worked with as well, and no part of this chain
    assert check_chain(folder, "sweep", links, {"second": second, "other": other}).keys() == links.keys()
    with pytest.raises(RefusedError):
        check_chain(folder, "sweep", links, {"second": replace(second, counts={"rows": 1})})
