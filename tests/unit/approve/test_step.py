"""A run asks a person where its settings and its limits want that, and takes the first answer; a no counts always."""

from typing import Any

import pytest
from msgspec.structs import replace

from dredge.approve.records import AIRFLOW
from dredge.errors import AwaitingApprovalError, DredgeError, RefusedError, RejectedError
from dredge.gc.approve import ApproveOutput, answer, approve, find_question
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.check_limits.step import check_limits
from dredge.gc.run import Run
from dredge.gc.steps import read_report
from dredge.gc.subtract.step import subtract
from tests.support.approvals import asked_again, said, take, waiting_run
from tests.support.gc import busy_world, summary_of


def keys(run: Run) -> list[str]:
    return [key for batch in run.folder.writer.list("approve/") for key in batch["key"].to_pylist()]


def is_asked(run: Run) -> bool:
    return any(key.endswith("/request.json") for key in keys(run))


@pytest.mark.parametrize(
    ("settings", "asks"),
    [
        ({}, False),
        ({"max_delete_objects": 7}, False),
        ({"max_delete_objects": 6}, True),
        ({"approval": "always"}, True),
        ({"approval": "always", "dry_run": True}, False),
        ({"max_delete_objects": 0, "dry_run": True}, False),
        ({"approval": "never"}, False),
    ],
)
def test_a_run_asks_only_where_it_has_to_and_else_leaves_nothing(
    settings: dict[str, Any], asks: bool
) -> None:
    world, _, _ = busy_world(**settings)
    run = world.plan()
    world.mark(run)
    if not asks:
        assert approve(run) is None
        assert keys(run) == []
        return
    with pytest.raises(AwaitingApprovalError, match="memory://"):
        approve(run)
    assert is_asked(run)


def test_an_approved_run_deletes_the_garbage_and_nothing_else_and_says_who_approved_it() -> None:
    world, run, kept, gone = waiting_run()
    assert world.data() == kept | gone
    said(run, by="ada")
    world.run(run)
    assert world.data() == kept
    report = read_report(run)
    assert report["outcome"] == "success"
    assert (report["approval"]["state"], report["approval"]["by"]) == ("approved", "ada")
    (text,) = [value for name, value in report["facts"] if name == "Approval"]
    assert text.startswith("approved by ada (Airflow), 2026-01-04")
    assert run.folder.read_json("summary.json")["approval"]["by"] == "ada"


def test_a_rejected_run_ends_and_moves_no_state() -> None:
    world, run, kept, gone = waiting_run()
    said(run, "rejected", by="eve")
    with pytest.raises(RejectedError):
        world.run(run)
    report = read_report(run)
    assert report["outcome"] == "rejected"
    assert report["approval"]["by"] == "eve"
    failure = run.folder.read_failure("approve")
    assert failure is not None
    assert failure["error"] == "RejectedError", "and no longer that it waits"
    assert world.data() == kept | gone
    assert run.folder.read_summary("state") is None
    assert world.plan(max_delete_objects=None, mode="auto").plan.mode == "clean"


@pytest.mark.parametrize("order", [("approved", "rejected"), ("rejected", "approved")])
def test_of_two_people_who_answer_differently_the_one_who_says_no_wins(order: tuple[Any, Any]) -> None:
    world, run, kept, gone = waiting_run()
    said(run, order[0], by="first")
    if order[1] == "approved":
        with pytest.raises(RejectedError):
            said(run, order[1], by="second")
        assert not any(key.endswith("/approved.json") for key in keys(run)), "it is not even written down"
    else:
        said(run, order[1], by="second")
    with pytest.raises(RejectedError):
        world.run(run)
    assert world.data() == kept | gone


def test_a_no_that_comes_after_the_step_took_a_yes_ends_the_run() -> None:
    world, run, kept, gone = waiting_run()
    said(run)
    take(run)
    said(run, "rejected", by="eve")
    with pytest.raises(RejectedError):
        approve(run)
    with pytest.raises(RejectedError, match="eve"):
        bulk_delete(run, world.runner)
    assert world.data() == kept | gone


def test_a_no_that_came_before_the_sweep_costs_no_re_check() -> None:
    world, run, _, _ = waiting_run()
    said(run)
    take(run)
    said(run, "rejected", by="eve")
    looked: list[bool] = []
    with (
        world.during("prepare_uncommitted", lambda: looked.append(True)),
        pytest.raises(RejectedError),
    ):
        bulk_delete(run, world.runner)
    assert looked == []


def test_a_rejected_and_approved_run_is_told_as_rejected() -> None:
    world, run, _, _ = waiting_run()
    said(run, by="ada")
    said(run, "rejected", by="eve")
    with pytest.raises(RejectedError):
        world.run(run)
    told = read_report(run)["approval"]
    assert (told["state"], told["by"]) == ("rejected", "eve")


def test_a_yes_to_what_was_shown_before_is_none_to_what_is_asked_now_and_a_no_is_one() -> None:
    world, run, _, _ = waiting_run()
    shown = find_question(run).digest
    asked_again(world, run)
    with pytest.raises(RefusedError):
        answer(run, "approved", "ada", AIRFLOW, shown)
    assert find_question(run).answer is None
    answer(run, "rejected", "ada", AIRFLOW, shown)
    with pytest.raises(RejectedError):
        approve(run)


def test_a_yes_that_came_in_time_is_taken_after_the_time_for_it() -> None:
    world, run, _, _ = waiting_run(approval_hours=2)
    world.age(hours=1.5)
    said(run)
    world.age(hours=1)
    take(run)
    assert find_question(run).rejected is None


def test_the_first_yes_stands() -> None:
    _, run, _, _ = waiting_run()
    first = said(run, by="ada")
    second = said(run, by="bob")
    assert first.approved == second.approved
    assert second.approved is not None
    assert second.approved.by == "ada"


def test_the_question_is_put_once_whoever_asks_again() -> None:
    """A cleared or retried task must not prolong the time, nor take the first answer for one to another question."""
    world, run, _, _ = waiting_run()
    before = find_question(run)
    said(run)
    world.age(hours=1)
    take(run)
    after = find_question(run)
    assert (after.digest, after.request) == (before.digest, before.request)


def test_after_its_time_nobody_can_say_yes_and_the_run_is_rejected() -> None:
    world, run, kept, gone = waiting_run(approval_hours=2)
    world.age(hours=2)
    with pytest.raises(RefusedError):
        said(run)
    with pytest.raises(RejectedError):
        world.run(run)
    assert read_report(run)["approval"]["by"] == ""
    assert world.data() == kept | gone


@pytest.mark.parametrize(("hours", "wait"), [(12.0, 9.0), (1.0, 1.0)])
def test_nobody_is_waited_for_longer_than_the_mark_may_be_swept(hours: float, wait: float) -> None:
    world, _, _ = busy_world(max_delete_objects=0, approval_hours=hours)
    run = world.plan()
    world.mark(run)
    world.age(hours=3)
    with pytest.raises(AwaitingApprovalError):
        approve(run)
    request = find_question(run).request
    assert (request.answer_until - request.asked_at).total_seconds() == wait * 3600


@pytest.mark.parametrize(
    ("by", "through", "may"),
    [
        ("ada", AIRFLOW, True),
        ("eve", AIRFLOW, False),
        ("ada", ApproveOutput.COMMAND, False),
        ("", AIRFLOW, False),
    ],
)
def test_only_approvers_may_say_yes_and_only_where_somebody_knows_who_they_are(
    by: str, through: str, may: bool
) -> None:
    world, run, kept, gone = waiting_run(approvers="ada, bob")
    if may:
        said(run, by=by, through=through)
        world.run(run)
        assert world.data() == kept
        return
    with pytest.raises(RefusedError, match="ada, bob"):
        said(run, by=by, through=through)
    with pytest.raises(AwaitingApprovalError):
        world.run(run)
    assert world.data() == kept | gone


def test_everybody_may_say_no() -> None:
    _, run, _, _ = waiting_run(approvers="ada")
    said(run, "rejected", by="eve", through=ApproveOutput.COMMAND)
    with pytest.raises(RejectedError):
        approve(run)


@pytest.mark.parametrize("again", [subtract, check_limits])
def test_an_answer_is_one_to_the_candidates_and_the_guards_that_were_shown(again: Any) -> None:
    """When one of these steps is done again after the answer, somebody has to look at its result again."""
    world, run, kept, gone = waiting_run()
    said(run)
    take(run)
    # As after a try that was lost: a later one was claimed, so that the first result counts no more.
    summary = summary_of(run, again.__module__.split(".")[2])
    run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))
    check_limits(run, world.runner)
    with pytest.raises(AwaitingApprovalError):
        approve(run)
    with pytest.raises(RefusedError):
        bulk_delete(run, world.runner)
    assert world.data() == kept | gone


def test_a_no_is_one_to_the_run_also_when_it_asks_something_else_by_now() -> None:
    """A rejected run stays rejected: nobody gets a yes from it by having a step done again."""
    world, run, kept, gone = waiting_run()
    said(run, "rejected", by="eve")
    asked_again(world, run)
    with pytest.raises(RejectedError, match="eve"):
        said(run, by="ada")
    with pytest.raises(RejectedError, match="eve"):
        world.run(run)
    assert world.data() == kept | gone


def test_nobody_answers_a_run_that_asks_nothing() -> None:
    world, _, _ = busy_world()
    run = world.plan()
    world.mark(run)
    with pytest.raises(RefusedError):
        answer(run, "approved", "ada", AIRFLOW)
    with pytest.raises(RefusedError):
        answer(run, "rejected", "ada", AIRFLOW)


def test_before_the_guards_have_looked_nobody_is_asked() -> None:
    world, _, _ = busy_world(max_delete_objects=0)
    run = world.plan()
    with pytest.raises(DredgeError):
        approve(run)
    assert not is_asked(run)


def test_about_results_that_do_not_belong_together_nobody_is_asked() -> None:
    world, _, _ = busy_world(max_delete_objects=0)
    run = world.plan()
    world.mark(run)
    summary = summary_of(run, "subtract")
    run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))
    with pytest.raises(RefusedError):
        approve(run)
    assert not is_asked(run)


def test_nobody_is_asked_to_overrule_the_guards() -> None:
    world, _, _ = busy_world(approval="always")
    run = world.plan()
    world.mark(run)
    summary = summary_of(run, "check_limits")
    run.folder.write_summary(replace(summary, details={**summary.details, "verdict": "refused"}))
    with pytest.raises(RefusedError):
        approve(run)
    assert not is_asked(run)
