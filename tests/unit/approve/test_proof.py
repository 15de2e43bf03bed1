"""The sweep reads the answer for itself, and deletes nothing for one that is missing, foreign, changed or expired."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.approve.records import (
    AIRFLOW,
    Answer,
    Asked,
    approval_of,
    check_approved,
    record_answer,
    request_of,
    why_asked,
)
from dredge.errors import AwaitingApprovalError, FormatError, RefusedError, RejectedError
from dredge.gc.approve import ApproveOutput, approve, find_question
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs.payload import StepSummary
from dredge.runs.run import StepRecord, release_lease
from dredge.runs.tries import StepTry
from dredge.storage import open_deleter
from tests.support.approvals import approved_run, change, said, take, waiting_run
from tests.support.gc import World, busy_world, deleting, summary_of
from tests.support.looks import driver_looks


def keys(run: Run) -> list[str]:
    return [key for batch in run.folder.writer.list("approve/") for key in batch["key"].to_pylist()]


def remove(run: Run, name: str) -> None:
    """Nobody removes records; but a store may be put back to an earlier day."""
    outcomes = open_deleter(run.folder.uri).delete(
        [key for key in keys(run) if key.endswith(f"/{name}.json")]
    )
    assert len(outcomes) == 1


def nothing_is_deleted(
    world: World, run: Run, stays: set[str], refused: Any = RefusedError, match: str | None = None
) -> None:
    with deleting() as requests, pytest.raises(refused, match=match):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == stays


@pytest.mark.parametrize("damage", ["approved", "request"])
def test_without_an_answer_or_its_question_nothing_is_deleted(damage: str) -> None:
    world, run, kept, gone = approved_run()
    remove(run, damage)
    nothing_is_deleted(world, run, kept | gone)


def test_the_step_itself_lets_nobody_delete() -> None:
    """A task that was marked as successful, or a summary from anywhere, is no answer."""
    world, run, kept, gone = waiting_run()
    incomplete = run.folder.read_incomplete("approve")
    assert incomplete is not None
    run.folder.write_summary(replace(incomplete, status="success"))
    nothing_is_deleted(world, run, kept | gone)


@pytest.mark.parametrize(
    "fields",
    [
        {"request": "another"},
        {"run_id": "another"},
        {"candidates": "another"},
        {"decision": "rejected"},
        {"by": ""},
        {"at": "2026-01-01T00:00:00+00:00"},
        {"at": "2027-01-01T00:00:00+00:00"},
    ],
)
def test_an_answer_to_something_else_is_none(fields: dict[str, Any]) -> None:
    world, run, kept, gone = approved_run()
    change(run, "approved", **fields)
    nothing_is_deleted(world, run, kept | gone)


@pytest.mark.parametrize(
    "fields", [{"objects": 1}, {"why": "nothing to see"}, {"approvers": ["eve"]}, {"run_id": "another"}]
)
def test_a_question_that_was_changed_after_its_answer_has_none(fields: dict[str, Any]) -> None:
    world, run, kept, gone = approved_run()
    change(run, "request", **fields)
    nothing_is_deleted(world, run, kept | gone, (RefusedError, FormatError))


def test_a_question_that_was_dated_anew_after_its_answer_has_none() -> None:
    """All that a question says but its time follows from the plan and the guards, and is compared with them."""
    world, run, kept, gone = waiting_run(approval_hours=2)
    world.age(minutes=1)
    request = said(run).request
    take(run)
    later = {name: getattr(request, name) + timedelta(seconds=1) for name in ("asked_at", "answer_until")}
    change(run, "request", **{name: time.isoformat() for name, time in later.items()})
    nothing_is_deleted(world, run, kept | gone, match="the approved")


@pytest.mark.parametrize(
    "fields",
    [
        {"approvers": []},
        {"approvers": ["eve"]},
        {"objects": 1},
        {"answer_until": "2026-01-06T00:00:00+00:00"},
        {"sweep_until": "2026-01-06T00:00:00+00:00"},
        {"asked_at": "2026-01-01T00:00:00+00:00"},
        {"asked_at": "2026-01-05T00:00:00+00:00", "answer_until": "2026-01-05T02:00:00+00:00"},
    ],
)
def test_a_question_that_was_changed_before_its_answer_is_none_of_the_run(fields: dict[str, Any]) -> None:
    """Who may approve, until when, and what was shown, follows from the plan and the guards."""
    world, run, kept, gone = waiting_run(approvers="ada", approval_hours=2)
    change(run, "request", **fields)
    asked = find_question(run)
    record_answer(run, asked, "approved", "ada", AIRFLOW)
    with pytest.raises(RefusedError):
        approve(run)
    incomplete = run.folder.read_incomplete("approve")
    assert incomplete is not None
    run.folder.write_summary(replace(incomplete, status="success"))
    nothing_is_deleted(world, run, kept | gone)


def test_an_answer_from_the_future_is_none() -> None:
    """It would count for longer than any that is given now."""
    world, run, kept, gone = approved_run()
    change(run, "approved", at=(run.store_now() + timedelta(hours=1)).isoformat())
    nothing_is_deleted(world, run, kept | gone)


def test_a_no_to_an_earlier_question_stops_a_sweep_that_has_begun() -> None:
    world, run, kept, gone = approved_run()
    with (
        world.during(
            "prepare_uncommitted", lambda: run.folder.writer.put("approve/0/rejected.json", b"no") and None
        ),
        deleting() as requests,
        pytest.raises((RejectedError, FormatError)),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_an_approval_expires_before_the_mark_does() -> None:
    world, run, kept, gone = approved_run(approval_hours=2)
    world.age(hours=2)
    nothing_is_deleted(world, run, kept | gone, match="0 s")


def test_an_approval_of_the_last_minute_does_not_outlive_the_mark() -> None:
    world, run, kept, gone = waiting_run()
    world.age(hours=11, minutes=59)
    said(run)
    take(run)
    world.age(minutes=2)
    with pytest.raises(RefusedError, match="expired"):
        bulk_delete(run, world.runner)
    assert world.data() == kept | gone


def test_an_answer_of_another_run_is_none_of_this_one() -> None:
    """About the same objects of the same repository, put where this run's answer would lie."""
    world, other, kept, gone = approved_run()
    release_lease(other)
    run = world.plan()
    world.mark(run)
    with pytest.raises(AwaitingApprovalError):
        approve(run)
    (theirs,) = (key for key in keys(other) if key.endswith("/approved.json"))
    (place,) = (key.rpartition("/")[0] for key in keys(run) if key.endswith("/request.json"))
    run.folder.writer.put(f"{place}/approved.json", other.folder.writer.get(theirs))
    with pytest.raises(RefusedError):
        approve(run)
    nothing_is_deleted(world, run, kept | gone)


def with_each_request(world: World, run: Run, action: Callable[[], None]) -> int:
    """Sweep, and do something before the second request to delete; gives how many requests were made."""

    def before(number: int, _keys: Sequence[str]) -> None:
        if number == 2:
            action()
            look()

    with driver_looks() as look, deleting(before=before) as requests, pytest.raises(RejectedError):
        bulk_delete(run, world.runner)
    return len(requests.made)


def test_a_no_stops_a_sweep_that_has_begun() -> None:
    safety = {"heads_every_seconds": 0.01, "gate_every_seconds": 0.0}
    world, run, kept, gone = approved_run(safety=safety)
    assert with_each_request(world, run, lambda: said(run, "rejected", by="eve")) == 2
    left = world.data() - kept
    assert kept <= world.data()
    assert 0 < len(left) < len(gone)
    incomplete = run.folder.read_incomplete("bulk_delete")
    assert incomplete is not None
    assert incomplete.status == "partial"


def test_a_no_during_the_re_check_comes_in_time() -> None:
    world, run, kept, gone = approved_run()
    with (
        world.during("prepare_uncommitted", lambda: said(run, "rejected", by="eve") and None),
        deleting() as requests,
        pytest.raises(RejectedError),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_the_sweep_of_a_run_that_asks_nobody_needs_no_answer() -> None:
    world, run, kept, _ = approved_run(max_delete_objects=None, approval="always")
    assert summary_of(run, "approve").details["approval"]["why"]
    bulk_delete(run, world.runner)
    assert world.data() == kept


class Question:
    """The question of an approved run and its yes, of which single fields can be other ones."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._guards = CheckLimitsOutput.of(summary_of(run, "check_limits"))
        self.asked = find_question(run)
        assert self.asked.approved is not None
        self.answer: Answer = self.asked.approved
        self.skew = timedelta(seconds=run.plan.config.safety.clock_skew_seconds_max)

    def put_at(self, at: datetime) -> Asked:
        """The same, as the run would have put it at another time."""
        why = why_asked(self._run.plan, self._guards)
        request = request_of(self._run, self.asked.request.subject, self._guards, why, at)
        return replace(self.asked, request=request)

    def counts(self, now: datetime, asked: Asked | None = None, **fields: Any) -> bool:
        run: Any = SimpleNamespace(plan=self._run.plan, store_now=lambda: now)
        answer = replace(self.answer, **fields)
        try:
            check_approved(run, asked or self.asked, answer, self._guards)
        except RefusedError:
            return False
        return True


MOMENT = timedelta(microseconds=1)


def test_a_yes_counts_for_its_question_its_approvers_and_to_the_moment() -> None:
    _, run, *_ = approved_run(approvers="ada", approval_hours=2)
    question = Question(run)
    request, at = question.asked.request, question.answer.at
    assert question.counts(at)
    for fields in (
        {"request": "another"},
        {"run_id": "another"},
        {"candidates": "another"},
        {"decision": "rejected"},
        {"by": ""},
        {"by": "eve"},
        {"through": ApproveOutput.COMMAND},
        {"at": request.asked_at - MOMENT},
        {"at": request.answer_until},
        {"at": at + question.skew},
    ):
        assert not question.counts(at, **fields), fields
    assert question.counts(at, at=request.asked_at)
    assert question.counts(at, at=at + question.skew - MOMENT)
    assert question.counts(request.answer_until, at=request.answer_until - MOMENT)
    assert question.counts(request.expires_at(at) - MOMENT)
    assert not question.counts(request.expires_at(at))


def test_a_question_was_put_after_the_plan_and_not_in_the_future() -> None:
    _, run, *_ = approved_run()
    question, planned = Question(run), run.plan.created_at
    now = planned + timedelta(hours=1)

    def may_be_put(at: datetime) -> bool:
        return question.counts(now, question.put_at(at), at=max(at, now - MOMENT))

    assert may_be_put(planned)
    assert may_be_put(now)
    assert not may_be_put(planned - MOMENT)
    late = now + question.skew + MOMENT
    assert not question.counts(now, question.put_at(late), at=late)


def record_of(run: Run, *without: str, **changed: StepSummary) -> StepRecord:
    steps = (SubtractOutput.STEP, CheckLimitsOutput.STEP, ApproveOutput.STEP)
    inputs = {step: changed.get(step) or summary_of(run, step) for step in steps if step not in without}
    return StepRecord(inputs, StepTry(run.folder.writer, "bulk_delete", 1))


def test_the_sweep_begins_with_the_steps_answer_and_the_records_and_without_a_no() -> None:
    _, run, *_ = approved_run()
    assert approval_of(run, record_of(run), ApproveOutput)() == ""
    with pytest.raises(RefusedError):
        approval_of(run, record_of(run, "approve"), ApproveOutput)
    taken = summary_of(run, "approve")
    other = replace(taken, details={**taken.details, "request_digest": "another"})
    with pytest.raises(RefusedError):
        approval_of(run, record_of(run, approve=other), ApproveOutput)
    veto = approval_of(run, record_of(run), ApproveOutput)
    said(run, "rejected", by="eve")
    assert veto()
    with pytest.raises(RejectedError):
        approval_of(run, record_of(run), ApproveOutput)


def test_nobody_is_heard_about_a_run_that_asks_nobody() -> None:
    world, _, _ = busy_world(approval="never")
    run = world.plan()
    world.mark(run)
    assert approval_of(run, record_of(run, "approve"), ApproveOutput)() == ""
