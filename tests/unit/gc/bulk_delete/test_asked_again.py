"""A sweep looks anew at what a branch may read without the server showing it; long after the guards at more."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dredge.errors import AwaitingApprovalError
from dredge.gc.approve.step import approve
from dredge.gc.bulk_delete import BulkDeleteOutput, step
from dredge.gc.bulk_delete.asked_again import Asked, ask_again
from dredge.gc.bulk_delete.recheck import Subtracted
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.runs.perform import StepRecord
from dredge.runs.tries import StepTry
from dredge.sets.live import in_any
from tests.support.approvals import said, take
from tests.support.gc import World, make_world, summary_of
from tests.support.kv_views import Snapshots, copy_of, open_as

pytestmark = pytest.mark.usefixtures("without_canaries")

CONTENT = b"the same bytes"


def stage_old(world: World, address: str, path: str, branch: str = "main") -> None:
    """Stage an old object over an equal entry of the branch's head: it is no change, so nobody is shown it."""
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        branch,
        path,
        physical_address=f"{world.lake.namespace}/{address}",
        checksum=hashlib.md5(CONTENT).hexdigest(),
        size_bytes=len(CONTENT),
    )
    assert world.served(branch)[path] == address
    shown = world.lake.catalog.branches.diff_branch(world.lake.repository, branch, amount=10)
    assert [change.path for change in shown.results] == []


def marked(committed: bytes = CONTENT, **settings: Any) -> tuple[World, Run, str]:
    """A run after its guards, and an object that nothing named then."""
    return marked_in(make_world(**settings), committed)


def marked_in(world: World, committed: bytes = CONTENT) -> tuple[World, Run, str]:
    world.upload("a", committed)
    world.lake.commit()
    old = world.orphan("data/old", CONTENT)
    world.age(days=2)
    run = world.plan()
    world.mark(run)
    return world, run, old


def wait(world: World, run: Run) -> None:
    """For a person where the run asks one, else because its task was cleared hours later."""
    if run.plan.config.approval != "always":
        world.age(hours=6)
        return
    with pytest.raises(AwaitingApprovalError):
        approve(run)
    world.age(hours=6)
    said(run)
    take(run)


def kept_by(run: Run) -> dict[str, int]:
    groups = BulkDeleteOutput.of(summary_of(run, "bulk_delete")).groups
    return {group.code: group.objects for group in groups if group.outcome == "kept"}


def on_another(world: World) -> str:
    world.lake.catalog.branches.create_branch(world.lake.repository, "new", "main")
    return "new"


def on_another_by_a_path_of_its_own(world: World) -> str:
    world.upload("b", b"of a third length", on_another(world))
    world.lake.commit(branch="new")
    return "new"


def on_another_that_was_there(world: World) -> str:
    catalog = world.lake.catalog
    catalog.branches.hard_reset(world.lake.repository, "side", "main")
    return "side"


@pytest.mark.parametrize(
    "where",
    [lambda _: "main", on_another, on_another_by_a_path_of_its_own, on_another_that_was_there],
    ids=["main", "new", "new and ahead", "reset"],
)
def test_an_object_that_a_branch_serves_unseen_right_after_the_guards_stays(
    where: Callable[[World], str],
) -> None:
    world = make_world()
    world.lake.catalog.branches.create_branch(world.lake.repository, "side", "main")
    world, run, old = marked_in(world)
    branch = where(world)
    stage_old(world, old, "a", branch)
    bulk_delete(run, world.runner)
    assert old in world.data()
    world.assert_readable(branch)
    assert kept_by(run) == {"identical_served": 1}


@pytest.mark.parametrize("approval", ["always", "never"])
def test_an_object_that_a_branch_serves_unseen_since_the_guards_stays(approval: str) -> None:
    world, run, old = marked(approval=approval)
    wait(world, run)
    stage_old(world, old, "a")
    bulk_delete(run, world.runner)
    assert old in world.data()
    world.assert_readable()
    assert kept_by(run) == {"identical_served": 1}


def test_an_object_that_a_branch_serves_unseen_by_an_entry_of_its_new_head_stays() -> None:
    """Its size was that of no entry when the guards looked, so nobody was asked about it."""
    world, run, old = marked(b"of another length", approval="always")
    wait(world, run)
    world.upload("b", CONTENT)
    world.lake.commit()
    stage_old(world, old, "b")
    bulk_delete(run, world.runner)
    assert old in world.data()
    world.assert_readable()
    assert kept_by(run) == {"head_since": 1}


def test_an_object_that_a_branch_serves_unseen_which_was_not_there_stays() -> None:
    world, run, old = marked(approval="always")
    wait(world, run)
    world.lake.catalog.branches.create_branch(world.lake.repository, "new", "main")
    stage_old(world, old, "a", "new")
    bulk_delete(run, world.runner)
    assert old in world.data()
    world.assert_readable("new")


def test_an_object_that_a_branch_serves_unseen_stays_when_only_the_mark_saw_all_that_was_staged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the records told of all, the guards had nobody to ask. The re-check reads a copy that fell behind."""
    open_as(Snapshots(world := make_world(read_kv=True)), monkeypatch)
    world.upload("a", CONTENT)
    world.lake.commit()
    old = world.orphan("data/old", CONTENT)
    world.age(days=2)
    run = world.plan()
    world.mark(run)
    world.client.usage()
    open_as(Snapshots(world, copy_of(world)), monkeypatch)
    stage_old(world, old, "a")
    bulk_delete(run, world.runner)
    assert old in world.data()
    world.assert_readable()
    assert kept_by(run) == {"head_since": 1}


def test_what_no_branch_serves_goes_after_a_pause_and_branches_were_asked_again() -> None:
    world, run, old = marked(approval="always")
    wait(world, run)
    world.upload("elsewhere", b"of a third length")
    world.lake.commit()
    bulk_delete(run, world.runner)
    assert old not in world.data()
    (recheck,) = summary_of(run, "bulk_delete").details["rechecks"]
    assert recheck["questions"] == summary_of(run, "check_limits").counts["questions"] == 1


@pytest.mark.parametrize(("committed", "questions"), [(CONTENT, 1), (b"of another length", 0)])
def test_a_sweep_that_follows_its_guards_asks_again_about_what_they_cleared(
    committed: bytes, questions: int
) -> None:
    world, run, old = marked(committed)
    bulk_delete(run, world.runner)
    assert old not in world.data()
    (recheck,) = summary_of(run, "bulk_delete").details["rechecks"]
    assert recheck["questions"] == summary_of(run, "check_limits").counts["questions"] == questions


def test_what_the_guards_held_stays_for_the_same_reason() -> None:
    world = make_world()
    world.upload("a", CONTENT)
    world.lake.commit()
    served, old = world.orphan("data/served", CONTENT), world.orphan("data/old", CONTENT)
    stage_old(world, served, "a")
    world.age(days=2)
    run = world.plan()
    world.mark(run)
    bulk_delete(run, world.runner)
    assert served in world.data()
    assert old not in world.data()
    assert kept_by(run) == {"identical_served": 1}


def test_only_what_the_guards_cleared_is_asked_about_again() -> None:
    world = make_world()
    world.upload("a", CONTENT)
    world.upload("b", b"of another length")
    world.lake.commit()
    served, old = world.orphan("data/served", CONTENT), world.orphan("data/old", b"OF ANOTHER LENGTH")
    stage_old(world, served, "a")
    world.age(days=2)
    run = world.plan()
    world.mark(run)
    bulk_delete(run, world.runner)
    assert served in world.data()
    assert old not in world.data()
    (recheck,) = summary_of(run, "bulk_delete").details["rechecks"]
    assert (summary_of(run, "check_limits").counts["questions"], recheck["questions"]) == (2, 1)


def test_a_server_that_does_not_answer_after_a_pause_keeps_what_it_was_to_be_asked_about() -> None:
    world, run, old = marked(approval="always")
    wait(world, run)

    def down() -> None:
        raise TypeError("no answer")

    with world.during("stat", down, times=100):
        bulk_delete(run, world.runner)
    assert old in world.data()
    assert kept_by(run) == {"identical_no_answer": 1}


def record_of(run: Run) -> StepRecord:
    inputs = {output.STEP: summary_of(run, output.STEP) for output in BulkDeleteOutput.INPUTS}
    return StepRecord(inputs, StepTry.claim(run.folder.writer, "bulk_delete"))


def test_an_answer_counts_for_a_while_and_the_guards_may_have_a_clock_that_is_ahead() -> None:
    world, run, _ = marked()
    record, safety = record_of(run), run.plan.config.safety
    first = Asked.by_the_guards(run, record)
    skew = timedelta(seconds=safety.clock_skew_seconds_max)
    assert first.at == summary_of(run, "check_limits").finished_at - 2 * skew
    now, pause = run.clock(), timedelta(seconds=safety.ask_again_seconds)

    def asked(before: timedelta, exact: bool = False) -> tuple[Asked, Asked]:
        known = replace(first, at=now - before)
        subtracted = Subtracted({}, set(), set(), heads={("new", "")}, exact=exact)
        return known, ask_again(run, world.runner, record, known, subtracted, "recheck/x")

    known, found = asked(10 * pause, exact=True)
    assert found is known, "everything that is staged was seen"
    known, found = asked(pause - timedelta(microseconds=1))
    assert (found.at, found.questions, found.sizes) == (known.at, 1, ())
    known, found = asked(pause)
    assert (found.at, found.questions, found.sizes) == (now, 1, ())
    assert found.holds.cleared == first.holds.cleared


def test_for_a_while_nobody_is_asked_where_the_guards_cleared_nothing() -> None:
    world, run, _ = marked(b"of another length")
    record = record_of(run)
    known = replace(Asked.by_the_guards(run, record), at=run.clock())
    assert ask_again(run, world.runner, record, known, Subtracted({}, set(), set()), "recheck/x") is known


def test_after_a_mark_that_held_nothing_for_its_size_all_sizes_of_heads_stay() -> None:
    """Where it read the staging records and the re-check cannot, nobody was asked about any candidate."""
    world, run, _ = marked()
    record = record_of(run)
    staged = record.input(MarkUncommittedOutput)
    details = {**staged.summary.details, "kv": {"exact": True}}
    exactly = {**record.inputs, "mark_uncommitted": replace(staged.summary, details=details)}
    for inputs, stays in ((record.inputs, False), (exactly, True)):
        asked = replace(Asked.by_the_guards(run, record), at=run.clock() - timedelta(days=1))
        nothing_new = Subtracted({}, set(), set())
        again = StepRecord(inputs, record.attempt)
        found = ask_again(run, world.runner, again, asked, nothing_new, "recheck/x")
        (held,) = in_any(found.sizes, [np.array([len(CONTENT)], np.uint64)])
        assert held.tolist() == [stays]


def test_each_round_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world, run, _ = marked()
    rounds = [SimpleNamespace(error=None, reason="a branch moved"), None]
    monkeypatch.setattr(step, "_delete", lambda *_: rounds.pop(0))
    monkeypatch.setattr(step, "settle", lambda *_: None)
    bulk_delete(run, world.runner)
    asked = [found["questions"] for found in summary_of(run, "bulk_delete").details["rechecks"]]
    assert asked == [1, 1]
