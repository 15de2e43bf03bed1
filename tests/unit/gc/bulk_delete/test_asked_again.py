"""A sweep asks the branches of its moment about what they may read without the server showing it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dredge.errors import AwaitingApprovalError, RefusedError
from dredge.gc.approve.step import approve
from dredge.gc.bulk_delete import BulkDeleteOutput, step
from dredge.gc.bulk_delete.asked_again import Asked, ask_again
from dredge.gc.bulk_delete.recheck import Subtracted
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.check_limits import CheckLimitsOutput, HoldFiles
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.planning import release_lease
from dredge.gc.run import Run
from dredge.lakefs import Ref
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


def on_another_that_was_made_anew(world: World) -> str:
    world.lake.catalog.branches.delete_branch(world.lake.repository, "side")
    world.lake.catalog.branches.create_branch(world.lake.repository, "side", "main")
    return "side"


def by_what_it_has_got_since(world: World) -> str:
    world.upload("a", b"of a third length")
    world.lake.commit()
    world.upload("a", CONTENT)
    world.lake.commit()
    return "main"


def by_what_no_head_had(world: World) -> str:
    """Commits before the head: their ranges are active, and in no head."""
    catalog, repository = world.lake.catalog, world.lake.repository
    catalog.branches.hard_reset(repository, "side", "main~1")
    assert world.served("side").keys() == {"a", "z"}
    return "side"


WAYS = [
    lambda _: "main",
    on_another,
    on_another_by_a_path_of_its_own,
    on_another_that_was_there,
    on_another_that_was_made_anew,
    by_what_it_has_got_since,
    by_what_no_head_had,
]
NAMES = ["main", "new", "new and ahead", "reset", "made anew", "moved", "moved back"]


def with_a_side() -> tuple[World, Run, str]:
    """Branches `main` and `side`; the one before the head of `main` has more."""
    world = make_world()
    world.lake.catalog.branches.create_branch(world.lake.repository, "side", "main")
    world.upload("a", CONTENT)
    world.upload("z", CONTENT)
    world.lake.commit()
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "z")
    return marked_in(world)


@pytest.mark.parametrize("where", WAYS, ids=NAMES)
def test_an_object_that_a_branch_serves_unseen_right_after_the_guards_stays(
    where: Callable[[World], str],
) -> None:
    world, run, old = with_a_side()
    branch = where(world)
    stage_old(world, old, "z" if where is by_what_no_head_had else "a", branch)
    bulk_delete(run, world.runner)
    assert old in world.data()
    world.assert_readable(branch)
    assert kept_by(run) == {"identical_served": 1}


@pytest.mark.parametrize("where", [*WAYS[:2], *WAYS[3:5], WAYS[6]], ids=[*NAMES[:2], *NAMES[3:5], NAMES[6]])
def test_an_object_that_a_branch_serves_unseen_which_the_re_check_saw_elsewhere_or_not_at_all_stays(
    where: Callable[[World], str],
) -> None:
    """No branch is at a commit that was not checked, so nothing stops the sweep."""
    world, run, old = with_a_side()
    path = "z" if where is by_what_no_head_had else "a"
    with world.during("prepare_commits", lambda: stage_old(world, old, path, where(world))):
        bulk_delete(run, world.runner)
    assert old in world.data()
    for branch in ("main", "side"):
        world.assert_readable(branch)
    assert kept_by(run) == {"identical_served": 1}


def test_an_object_stays_that_a_head_hid_while_staging_was_read_and_that_the_branch_shows_since() -> None:
    world, run, old = with_a_side()
    branch = on_another_that_was_there(world)
    stage_old(world, old, "a", branch)
    reset = world.lake.catalog.branches.hard_reset
    with world.during("prepare_commits", lambda: reset(world.lake.repository, branch, "main~2") and None):
        bulk_delete(run, world.runner)
    assert world.served(branch) == {"a": old}
    world.assert_readable(branch)
    assert kept_by(run) == {"identical_served": 1}


def test_a_branch_is_asked_by_a_head_that_nobody_has_checked_and_that_it_does_not_keep() -> None:
    """It is back at the one before when the sweep looks at heads."""
    world, run, old = marked()
    calls: list[str] = []

    def before(name: str, _arguments: object) -> None:
        calls.append(name)
        if name == "branches" and calls.count(name) == 5:  # the re-check has listed them four times
            world.upload("b", CONTENT)
            world.lake.commit()
            stage_old(world, old, "b")
        elif name == "branches" and calls.count(name) == 6:
            world.lake.catalog.branches.hard_reset(world.lake.repository, "main", "main~1")

    world.client.before = before
    bulk_delete(run, world.runner)
    assert len(summary_of(run, "bulk_delete").details["rechecks"]) == 1
    assert world.served()["b"] == old
    world.assert_readable()


def test_a_branch_at_a_commit_that_is_not_there_stops_the_sweep() -> None:
    world, run, _ = marked()
    honest, calls = world.client.branches, iter(range(9))

    def branches(repository: str) -> list[Ref]:
        return [*honest(repository), *[Ref("lost", "f" * 64)] * (next(calls) == 4)]

    world.client.branches = branches  # type: ignore[method-assign]
    with pytest.raises(RefusedError, match=r"branch lost is at commit f+, and lakeFS does not know that"):
        bulk_delete(run, world.runner)


def test_commits_of_branches_that_the_re_check_saw_are_not_asked_for() -> None:
    world, run, _ = marked()
    asked: list[str] = []
    world.client.before = lambda name, _: asked.append(name)
    bulk_delete(run, world.runner)
    assert asked.count("branches") > 4
    assert "commit" not in asked


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


def test_garbage_stays_for_a_new_entry_of_a_head_once_at_most() -> None:
    """As long as nothing was when the guards looked. The next run asks about it, though the entry is written anew."""
    world, run, old = marked(b"of another length")
    for turn, kept in enumerate(({"head_since": 1}, {})):
        world.upload("b", CONTENT)
        world.upload("c", b"c" * turn)
        world.lake.commit(f"{turn}")
        bulk_delete(run, world.runner)
        assert kept_by(run) == kept
        release_lease(run)
        world.age(days=2)
        run = world.plan()
        world.mark(run)
    assert old not in world.data()


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


def swept(world: World) -> Run:
    """A run from its plan to its sweep, when all is old."""
    world.age(days=2)
    run = world.plan()
    world.mark(run)
    bulk_delete(run, world.runner)
    return run


def test_what_the_guards_held_stays_for_the_same_reason() -> None:
    world = make_world()
    world.upload("a", CONTENT)
    world.lake.commit()
    served, old = world.orphan("data/served", CONTENT), world.orphan("data/old", CONTENT)
    stage_old(world, served, "a")
    run = swept(world)
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
    run = swept(world)
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


def first(record: StepRecord) -> Asked:
    return Asked(holds=record.input(CheckLimitsOutput).hold_files)


def test_where_everything_staged_was_seen_nobody_is_asked() -> None:
    world, run, _ = marked()
    record = record_of(run)
    before = replace(first(record), questions=3)
    world.client.before = lambda name, _: pytest.fail(f"{name} was called")
    found = ask_again(
        run, world.runner, record, before, Subtracted({}, set(), set(), exact=True), "recheck/x"
    )
    assert found == replace(before, questions=0)


def test_nobody_is_asked_where_the_guards_cleared_nothing() -> None:
    world, run, _ = marked(b"of another length")
    record = record_of(run)
    before = replace(first(record), questions=3)
    found = ask_again(run, world.runner, record, before, Subtracted({}, set(), set()), "recheck/x")
    assert found == replace(before, questions=0)
    assert found.holds is before.holds, "nothing was written"


def test_after_a_mark_that_held_nothing_for_its_size_all_sizes_of_heads_stay() -> None:
    """Where it read the staging records and the re-check cannot, nobody was asked about any candidate."""
    world, run, _ = marked()
    record = record_of(run)
    staged = record.input(MarkUncommittedOutput)
    details = {**staged.summary.details, "kv": {"exact": True}}
    exactly = {**record.inputs, "mark_uncommitted": replace(staged.summary, details=details)}
    for inputs, stays in ((record.inputs, False), (exactly, True)):
        again = StepRecord(inputs, record.attempt)
        found = ask_again(run, world.runner, again, first(record), Subtracted({}, set(), set()), "recheck/x")
        (held,) = in_any(found.sizes, [np.array([len(CONTENT)], np.uint64)])
        assert held.tolist() == [stays]


def test_each_round_asks_again_and_replaces_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of the round before may still be at work by its own."""
    world, run, _ = marked()
    rounds, told = (
        [SimpleNamespace(error=None, found="a branch moved", reason="a branch moved"), None],
        list[HoldFiles](),
    )

    def delete(*told_to: Any) -> SimpleNamespace | None:
        told.extend(each.holds for each in told_to if isinstance(each, Asked))
        return rounds.pop(0)

    monkeypatch.setattr(step, "_delete", delete)
    monkeypatch.setattr(step, "settle", lambda *_: None)
    bulk_delete(run, world.runner)
    asked = [found["questions"] for found in summary_of(run, "bulk_delete").details["rechecks"]]
    assert asked == [1, 1]
    assert len({(holds.served.key, holds.size_verdicts.key) for holds in told}) == 2
