"""Why a step failed stays readable: what began a try before what could not, and nothing of what was done since."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import DefectError, FormatError, OvertakenError, RefusedError, UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.summary import StepSummary
from dredge.runs.tries import StepTry
from dredge.storage import open_writer
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    yield RunFolder(open_writer("memory://failures-test/r1"), "r1")
    forget_memory_store("failures-test")


def claim(folder: RunFolder) -> StepTry:
    return StepTry.claim(folder.writer, "s")


def failure(folder: RunFolder) -> dict[str, Any]:
    found = folder.read_failure("s")
    assert found is not None
    return found


def done(folder: RunFolder, attempt: StepTry) -> StepSummary:
    """Complete the step."""
    summary = StepSummary("s", "r1", "success", NOW, NOW, try_number=attempt.number)
    folder.write_summary(summary)
    return summary


def test_a_failure_says_whose_it_was_and_when(folder: RunFolder) -> None:
    assert folder.read_failure("s") is None
    folder.write_failure("s", UnavailableError("busy"), NOW, claim(folder))
    assert failure(folder) == {
        "step": "s",
        "kind": UnavailableError.kind,
        "error": "UnavailableError",
        "message": "busy",
        "at": NOW.isoformat(),
        "claimed": True,
        "try_number": 1,
    }


def test_what_could_not_be_begun_is_not_told_in_place_of_the_try_that_failed(folder: RunFolder) -> None:
    folder.write_failure("s", UnavailableError("of the try"), NOW, claim(folder))
    folder.write_failure("s", RefusedError("no input"), NOW)
    assert failure(folder)["message"] == "of the try"
    claim(folder)  # it is lost without a word
    folder.write_failure("s", RefusedError("no input"), NOW)
    assert (failure(folder)["message"], failure(folder)["try_number"]) == ("no input", 2)


def test_a_try_that_was_overtaken_tells_no_failure(folder: RunFolder) -> None:
    orphan = claim(folder)
    claim(folder)
    with pytest.raises(OvertakenError):
        folder.write_failure("s", UnavailableError("late"), NOW, orphan)
    assert folder.read_failure("s") is None


@pytest.mark.parametrize(
    ("error", "message", "is_traced"),
    [
        (RefusedError("no"), "no", False),
        (DefectError("broken"), "broken", True),
        (ValueError("what"), "what", True),
        (ValueError(), "ValueError", True),
    ],
)
def test_where_it_was_is_told_of_defects_only(
    folder: RunFolder, error: Exception, message: str, is_traced: bool
) -> None:
    folder.write_failure("s", error, NOW, claim(folder))
    assert failure(folder)["message"] == message
    assert ("traceback" in failure(folder)) == is_traced


def test_damage_is_met_until_the_step_is_done(folder: RunFolder) -> None:
    assert folder.damage_met("s") is None
    folder.write_failure("s", UnavailableError("busy"), NOW, claim(folder))
    assert folder.damage_met("s") is None
    attempt = claim(folder)
    folder.write_failure("s", FormatError("part-0 is gone"), NOW, attempt)
    assert folder.damage_met("s") == "part-0 is gone"
    done(folder, attempt)
    assert folder.damage_met("s") is None


def test_a_step_that_is_not_done_has_the_failure_that_it_met(folder: RunFolder) -> None:
    assert folder.standing_failure("s", None) is None
    folder.write_failure("s", UnavailableError("busy"), NOW - SECOND, claim(folder))
    assert folder.standing_failure("s", None) == failure(folder)


@pytest.mark.parametrize(
    ("is_claimed", "after", "stands"),
    [(False, SECOND, True), (False, 0 * SECOND, False), (False, -SECOND, False), (True, SECOND, False)],
)
def test_a_step_that_is_done_has_only_a_failure_to_begin_it_again(
    folder: RunFolder, is_claimed: bool, after: timedelta, stands: bool
) -> None:
    attempt = claim(folder)
    summary = done(folder, attempt)
    assert folder.standing_failure("s", summary) is None
    folder.write_failure("s", RefusedError("no"), NOW + after, attempt if is_claimed else None)
    assert folder.standing_failure("s", summary) == (failure(folder) if stands else None)
