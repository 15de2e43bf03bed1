"""A step builds on what it was given and on nothing else, and says what it ended at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from dredge.errors import RefusedError
from dredge.runs.folder import RunFolder
from dredge.runs.steps import StepRecord, perform
from dredge.storage import open_writer
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    yield RunFolder(open_writer("memory://perform-test/r1"), "r1")
    forget_memory_store("perform-test")


def clock() -> datetime:
    return NOW


def nothing(_: StepRecord) -> None:
    """Do it."""


def test_what_no_step_wrote_is_among_what_a_result_was_made_from(folder: RunFolder) -> None:
    for plan, tries in (("a", 1), ("a", 1), ("b", 2)):
        done = perform(folder, "first", [], nothing, clock, roots={"plan": plan})
        assert (done.inputs, done.try_number) == ({"plan": plan}, tries)


def test_an_end_without_success_is_recorded_with_its_reason(folder: RunFolder) -> None:
    def body(record: StepRecord) -> None:
        record.add(figures=2)
        record.add(figures=3)
        record.warn("a word for the report")
        record.status, record.error = "refused", RefusedError("too many")

    with pytest.raises(RefusedError):
        perform(folder, "first", [], body, clock)
    found, failure = folder.read_incomplete("first"), folder.read_failure("first")
    assert found is not None
    assert (found.counts, found.warnings) == ({"figures": 5}, ("a word for the report",))
    assert failure is not None
    assert (failure["message"], failure["claimed"], failure["try_number"]) == ("too many", True, 1)
