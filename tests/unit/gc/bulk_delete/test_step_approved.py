"""A sweep that a person had to approve reads the guards' verdict, the chain and the answer for itself."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import RefusedError, RejectedError
from dredge.gc.bulk_delete import step
from dredge.gc.bulk_delete.step import bulk_delete
from tests.support.approvals import approved_run, said
from tests.support.gc import deleting, summary_of


def test_what_a_person_approved_is_deleted() -> None:
    world, run, kept, _gone = approved_run()
    assert bulk_delete(run, world.runner).status == "success"
    assert world.data() == kept


def test_an_answer_that_is_taken_anew_while_the_re_check_reads_is_not_the_one_that_was_read() -> None:
    world, run, kept, gone = approved_run()

    def take_again() -> None:
        summary = summary_of(run, "approve")
        run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))

    with (
        world.during("prepare_uncommitted", take_again),
        deleting() as requests,
        pytest.raises(RefusedError, match="do not match"),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_a_no_that_ended_a_round_is_heard_before_anything_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, run, _kept, _gone = approved_run()
    asked: list[str] = []
    world.client.before = lambda name, _: asked.append(name)

    def stopped(*_: Any) -> Any:
        said(run, "rejected", by="eve")
        return SimpleNamespace(error=None, found="rejected", reason="the run was rejected")

    monkeypatch.setattr(step, "_delete", stopped)
    with pytest.raises(RejectedError, match="eve rejected it"):
        bulk_delete(run, world.runner)
    assert asked.count("prepare_uncommitted") == 1
