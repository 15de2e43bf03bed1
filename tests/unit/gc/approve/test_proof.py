"""The sweep reads the answer for itself, and deletes nothing for one that is missing, foreign, changed or expired."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import AwaitingApprovalError, FormatError, RefusedError, RejectedError
from dredge.gc.approve.records import AIRFLOW, record_answer
from dredge.gc.approve.step import approve, find_question
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.planning import release_lease
from dredge.gc.run import Run
from dredge.storage import open_deleter
from tests.support.approvals import approved_run, change, said, take, waiting_run
from tests.support.gc import World, deleting, summary_of


def keys(run: Run) -> list[str]:
    return [key for batch in run.folder.writer.list("approve/") for key in batch["key"].to_pylist()]


def remove(run: Run, name: str) -> None:
    """Nobody removes records; but a store may be put back to an earlier day."""
    outcomes = open_deleter(run.folder.uri).delete(
        [key for key in keys(run) if key.endswith(f"/{name}.json")]
    )
    assert len(outcomes) == 1


@pytest.mark.parametrize("damage", ["approved", "request"])
def test_without_an_answer_or_its_question_nothing_is_deleted(damage: str) -> None:
    world, run, kept, gone = approved_run()
    remove(run, damage)
    with deleting() as requests, pytest.raises(RefusedError, match="approved"):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_the_step_itself_lets_nobody_delete() -> None:
    """A task that was marked as successful, or a summary from anywhere, is no answer."""
    world, run, kept, gone = waiting_run()
    incomplete = run.folder.read_incomplete("approve")
    assert incomplete is not None
    run.folder.write_summary(replace(incomplete, status="success"))
    with deleting() as requests, pytest.raises(RefusedError, match="what was approved is not what"):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


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
    with deleting() as requests, pytest.raises(RefusedError):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


@pytest.mark.parametrize(
    "fields", [{"objects": 1}, {"why": "nothing to see"}, {"approvers": ["eve"]}, {"run_id": "another"}]
)
def test_a_question_that_was_changed_after_its_answer_has_none(fields: dict[str, Any]) -> None:
    world, run, kept, gone = approved_run()
    change(run, "request", **fields)
    with deleting() as requests, pytest.raises((RefusedError, FormatError)):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


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
    with pytest.raises(RefusedError, match="not what this run asks"):
        approve(run)
    incomplete = run.folder.read_incomplete("approve")
    assert incomplete is not None
    run.folder.write_summary(replace(incomplete, status="success"))
    with deleting() as requests, pytest.raises(RefusedError):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_an_answer_from_the_future_is_none() -> None:
    """It would count for longer than any that is given now."""
    world, run, kept, gone = approved_run()
    change(run, "approved", at=(run.store_now() + timedelta(hours=1)).isoformat())
    with deleting() as requests, pytest.raises(RefusedError, match="not approved in time"):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


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
    with deleting() as requests, pytest.raises(RefusedError, match="expired 0 s ago"):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_an_approval_is_still_one_right_before_it_expires() -> None:
    world, run, kept, _ = approved_run(approval_hours=2)
    world.age(hours=1, minutes=59)
    bulk_delete(run, world.runner)
    assert world.data() == kept


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
    with pytest.raises(RefusedError, match="another run or of other candidates"):
        approve(run)
    with deleting() as requests, pytest.raises(RefusedError):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def with_each_request(world: World, run: Run, action: Callable[[], None]) -> int:
    """Sweep, and do something before the second request to delete; gives how many requests were made."""

    def before(number: int, _keys: Sequence[str]) -> None:
        if number == 2:
            action()

    with deleting(before=before) as requests, pytest.raises(RejectedError, match="eve rejected it"):
        bulk_delete(run, world.runner)
    return len(requests.made)


def test_a_no_stops_a_sweep_that_has_begun() -> None:
    safety = {"heads_every_seconds": 0.01, "gate_every_seconds": 0.0}
    world, run, kept, gone = approved_run(safety=safety)

    def refuse() -> None:
        said(run, "rejected", by="eve")
        time.sleep(0.2)  # the driver looks every 10 ms, and workers before each request

    assert with_each_request(world, run, refuse) == 2
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
    assert (
        summary_of(run, "approve").details["approval"]["why"] == "Every run that deletes needs an approval."
    )
    bulk_delete(run, world.runner)
    assert world.data() == kept
