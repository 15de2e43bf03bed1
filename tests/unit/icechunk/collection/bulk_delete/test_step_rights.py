"""What a sweep demands once more between its second look and its first request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import LeaseHeldError, OvertakenError, RefusedError
from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput, step
from dredge.icechunk.collection.check_limits import CheckLimitsOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import bulk_delete, release_lease
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo
from tests.unit.icechunk.collection.approve.test_step import approved

HERE = LocalRunner()


def lease_of(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.state.get("lease.json"))
    return found


def test_try_that_was_overtaken_before_its_first_request_leaves_lease_and_notes_alone(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = v1.guarded()
    left, real = dict[str, bytes](), step.approval_of
    asked = list[str]()

    def of_the_repository() -> dict[str, bytes]:
        return {key: data for key, data in v1.metadata().items() if not key.startswith("runs/")}

    def approval_of(*given: Any) -> Any:
        asked.append("approval")
        if len(asked) == 2:
            StepTry.claim(run.folder.writer, BulkDeleteOutput.STEP)
            left.update(of_the_repository())
        return real(*given)

    before = objects(v1.folder)
    monkeypatch.setattr(step, "approval_of", approval_of)
    with pytest.raises(OvertakenError):
        bulk_delete(run, HERE)
    assert of_the_repository() == left
    assert objects(v1.folder) == before


def test_sweep_does_not_take_back_a_lease_that_its_run_gave_back(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, honest, before = v1.guarded(), step.look_again, objects(v1.folder)

    def look_again(*given: Any) -> Any:
        release_lease(run)
        return honest(*given)

    monkeypatch.setattr(step, "look_again", look_again)
    with pytest.raises(LeaseHeldError):
        bulk_delete(run, HERE)
    assert lease_of(run)["holder"] == ""
    assert objects(v1.folder) == before


def test_yes_that_was_taken_before_the_guards_were_asked_again_is_none(v1: Repo) -> None:
    run, before = approved(v1), objects(v1.folder)
    guards = run.folder.read_summary(CheckLimitsOutput.STEP)
    assert guards is not None
    run.folder.write_summary(replace(guards, details={**guards.details, "made": "again"}))
    with pytest.raises(RefusedError, match="check_limits"):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before
