"""What an earlier run saw staged stays for a while after it left staging: a commit under way may bring it back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.planning import release_lease
from dredge.gc.run import Run
from dredge.gc.subtract.holds import LEFT_STAGING
from dredge.gc.subtract.left_staging import earlier_marks, staged_before
from dredge.runs.folder import RunFolder
from dredge.runs.tries import StepTry
from dredge.storage import open_deleter, open_writer
from dredge.xid import new_descending_xid
from tests.support.gc import World, make_world, summary_of
from tests.support.identical import held
from tests.support.tries import undo
from tests.unit.gc.mark_uncommitted.test_kv_records import store_of

PATH = "written anew"

pytestmark = pytest.mark.usefixtures("without_canaries")


def commit_while(world: World, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> str:
    """Commit, and do something after the commit has sealed what is staged and before it reads that; gives the commit's
    id."""
    commits = world.lake.catalog.commits
    honest = commits._commit_tokens

    def build(*arguments: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(commits, "_commit_tokens", honest)
            action()
        return honest(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "_commit_tokens", build)
        return world.lake.commit().id


@pytest.fixture
def world() -> World:
    """Rules, and an old commit."""
    made = make_world()
    made.rules(30)
    made.upload("keep", b"k")
    made.lake.commit()
    return made


@pytest.mark.parametrize("mode", ["clean", "optimized"])
@pytest.mark.parametrize("before", [{}, {"dry_run": True}])
def test_trap_23_what_a_commit_under_way_is_about_to_bring_stays_though_its_path_was_written_anew(
    world: World, monkeypatch: pytest.MonkeyPatch, mode: str, before: dict[str, bool]
) -> None:
    world.collect()
    address = world.upload(PATH, b"first")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    world.collect(**before)

    def write_anew_and_collect() -> None:
        world.upload(PATH, b"second version")
        world.age(hours=1)
        world.collect(mode=mode)

    commit = commit_while(world, monkeypatch, write_anew_and_collect)
    assert address in world.data()
    assert world.lake.read(PATH, commit) == b"first"
    assert world.lake.read(PATH) == b"second version"
    assert orphan not in world.data()


def reset_world(world: World) -> str:
    """An object that a run saw staged, and that was reset then."""
    address = world.upload(PATH, b"first")
    world.age(days=2)
    world.collect()
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main")
    world.age(minutes=1)
    return address


@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_what_left_staging_goes_when_a_mark_of_long_ago_did_not_show_it(world: World, mode: str) -> None:
    address = reset_world(world)
    for hours in (1, 10, 10):
        world.age(hours=hours)
        context = world.plan(mode=mode)
        world.run(context)
        assert held(context) == {LEFT_STAGING: 1}, "no mark of more than twenty hours ago was without it"
        assert address in world.data()
    world.age(hours=1)
    world.collect(mode=mode)
    assert address not in world.data()


def test_what_left_staging_between_daily_runs_stays_for_one_of_them(world: World) -> None:
    address = reset_world(world)
    world.age(days=1)
    world.collect()
    assert address in world.data()
    world.age(days=1)
    world.collect()
    assert address not in world.data()


def test_what_left_staging_goes_at_once_where_the_user_says_so(world: World) -> None:
    address = reset_world(world)
    world.collect(safety={"commit_hours_max": 0})
    assert address not in world.data()


def test_nothing_of_an_earlier_mark_is_asked_for_where_the_user_says_so(world: World) -> None:
    world.upload(PATH, b"first")
    world.collect()
    world.age(minutes=1)
    for hours, marks in ((20, 1), (0, 0)):
        context = world.plan(safety={"commit_hours_max": hours})
        world.mark(context)
        undo(context, "slice_listing")
        world.mark(context)
        staged = MarkUncommittedOutput.of(summary_of(context, "mark_uncommitted"))
        assert staged.hashes_of_earlier_tries
        assert len(list(earlier_marks(context))) == marks
        assert bool(staged_before(context, staged)) is bool(marks)
        release_lease(context)


def test_what_left_staging_goes_at_once_where_the_records_tell_of_every_token(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_of(world, monkeypatch)
    address = reset_world(world)
    world.collect(read_kv=True)
    assert address not in world.data()


def test_what_a_run_saw_that_has_another_run_root_counts(world: World) -> None:
    address = world.upload(PATH, b"first")
    world.age(days=2)
    world.collect(run_root="memory://runs/elsewhere")
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main")
    world.age(minutes=1)
    world.collect()
    assert address in world.data()


def test_what_a_dry_run_beside_the_repository_saw_counts_for_a_run_elsewhere(world: World) -> None:
    address = world.upload(PATH, b"first")
    world.age(days=2)
    world.collect(dry_run=True)
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main")
    world.age(minutes=1)
    world.collect(run_root="memory://runs/elsewhere")
    assert address in world.data()


def test_what_a_run_saw_counts_however_many_runs_of_others_lie_beside_it(world: World) -> None:
    root = "memory://runs/shared"
    address = world.upload(PATH, b"first")
    world.age(days=2)
    before = world.plan(dry_run=True, run_root=root)
    world.run(before)
    plan = before.folder.read_json("plan.json") | {"repository": "another"}
    for _ in range(301):
        run_id = new_descending_xid(world.age(seconds=1))
        open_writer(f"{root}/{run_id}").put("plan.json", json.dumps(plan | {"run_id": run_id}).encode())
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main")
    world.age(minutes=1)
    world.collect(run_root=root)
    assert address in world.data()


def seen_and_reset(world: World) -> tuple[Run, str]:
    """A dry run that saw an object staged, which was reset then."""
    address = world.upload(PATH, b"first")
    world.age(days=2)
    before = world.plan(dry_run=True)
    world.run(before)
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main")
    world.age(minutes=1)
    return before, address


def test_what_the_first_try_of_a_mark_saw_counts_for_the_second(world: World) -> None:
    address = world.upload(PATH, b"first")
    world.age(days=2)
    context = world.plan()
    world.mark(context)
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main")
    for _ in range(2):  # the listing was done again, and so is what builds on it
        undo(context, "slice_listing")
        world.mark(context)
    world.run(context)
    assert held(context) == {LEFT_STAGING: 1}
    assert address in world.data()


def test_what_a_mark_saw_counts_though_another_try_of_it_was_begun(world: World) -> None:
    before, address = seen_and_reset(world)
    StepTry.claim(before.folder.writer, "mark_uncommitted")
    world.collect()
    assert address in world.data()


def test_what_a_run_saw_counts_though_its_plan_cannot_be_read(world: World) -> None:
    before, address = seen_and_reset(world)
    before.folder.writer.put("plan.json", b"{")
    world.collect()
    assert address in world.data()


def test_where_the_store_is_busy_no_earlier_run_is_passed_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, address = seen_and_reset(world)
    context, honest = world.plan(), RunFolder.read_json

    def busy(folder: RunFolder, name: str) -> Any:
        if folder.uri == before.folder.uri:
            raise UnavailableError("503 SlowDown")
        return honest(folder, name)

    monkeypatch.setattr(RunFolder, "read_json", busy)
    with pytest.raises(UnavailableError, match="SlowDown"):
        world.run(context)
    monkeypatch.setattr(RunFolder, "read_json", honest)
    world.run(context)
    assert address in world.data()


@pytest.mark.parametrize("damage", ["hashes", "hashes are gone", "summary"])
def test_an_earlier_mark_that_cannot_be_read_stops_runs_until_a_later_one_is_old_enough(
    world: World, damage: str
) -> None:
    before, address = seen_and_reset(world)
    part = MarkUncommittedOutput.of(summary_of(before, "mark_uncommitted")).hashes[0]
    if damage == "hashes":
        before.folder.writer.put(part.key, bytes(part.size_bytes))
    elif damage == "summary":
        before.folder.writer.put("mark_uncommitted/_SUCCESS.json", b"{")
    else:
        open_deleter(before.folder.uri).delete([part.key])
    for hours in (0, 19):
        world.age(hours=hours)
        with pytest.raises(RefusedError, match=r"20 hours old, runs go on.*kv_conn_id"):
            world.collect()
        assert address in world.data()
    world.age(hours=2)
    world.collect()
    assert address not in world.data()


def test_pages_that_did_not_change_are_read_once(world: World) -> None:
    world.upload(PATH, b"first")
    world.age(days=2)
    for _ in range(3):
        world.age(hours=1)
        world.collect()
    context = world.plan()
    world.mark(context)
    assert len(staged_before(context, MarkUncommittedOutput.of(summary_of(context, "mark_uncommitted")))) == 1


def test_what_a_commit_under_way_is_about_to_bring_stays_though_its_path_was_deleted_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = world.upload(PATH, b"first")
    world.age(days=2)
    world.collect()

    def delete_and_collect() -> None:
        world.lake.catalog.objects.delete_object(world.lake.repository, "main", PATH)
        world.age(hours=1)
        world.collect()

    commit = commit_while(world, monkeypatch, delete_and_collect)
    assert world.lake.read(PATH, commit) == b"first"
    assert address in world.data()


@pytest.mark.parametrize(("microseconds", "goes"), [(0, True), (-1, False)])
def test_a_mark_that_did_not_show_it_counts_when_the_longest_commit_has_passed_since(
    world: World, microseconds: int, goes: bool
) -> None:
    """Another machine's clock may have told when that mark was done."""
    safety = {"commit_hours_max": 20, "clock_skew_seconds_max": 60}
    address = reset_world(world)
    world.collect(dry_run=True, safety=safety)
    world.age(hours=20, seconds=60, microseconds=microseconds)
    context = world.plan(safety=safety)
    world.run(context)
    assert (address not in world.data()) is goes
    assert held(context) == ({} if goes else {LEFT_STAGING: 1})


def test_a_mark_of_which_nobody_can_tell_whose_it_is_does_not_say_what_left_staging(world: World) -> None:
    """It may be another repository's: that it did not show an object means nothing."""
    address = reset_world(world)
    another = world.plan(dry_run=True)
    world.run(another)
    another.folder.writer.put("plan.json", b"{")
    world.age(hours=21)
    world.collect()
    assert address in world.data()


def test_a_run_that_came_to_no_mark_is_passed_over(world: World) -> None:
    address = reset_world(world)
    release_lease(world.plan())
    world.age(hours=19)
    context = world.plan()
    world.run(context)
    assert held(context) == {LEFT_STAGING: 1}
    assert address in world.data()
    assert len(list(earlier_marks(context))) == 1
