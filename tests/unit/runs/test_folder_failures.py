"""Why a step failed stays readable: what began a try before what could not, and nothing of what was done since."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.errors import DefectError, FormatError, OvertakenError, RefusedError, UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.summary import StepSummary
from dredge.runs.tries import StepTry
from dredge.storage import open_writer
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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
