"""What a complete run removes of Dredge's own files, and everything that it must leave alone."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from dredge.errors import UnavailableError
from dredge.gc.index import store
from dredge.gc.run import Run, make_lease
from dredge.gc.save_report import clean_up, step
from dredge.gc.save_report.advance_state import StateOutput
from dredge.gc.save_report.clean_up import ROOT
from dredge.gc.state import StateStore, base_of
from dredge.gc.steps import bulk_delete, read_report, run_steps, save_report, verify
from dredge.runs.run import release_lease
from dredge.runs.tasks import LocalRunner
from dredge.runs.versions import POINTER
from tests.support.gc import World, make_world
from tests.support.killing import failing_writes
from tests.support.own_files import below, folders, grown, removing, run


def with_old_runs() -> World:
    world = make_world()
    for number in range(3):
        grown(world, number)
        run(world, mode="clean")
        world.age(days=100)
    return world


def test_layers_that_an_optimized_run_builds_on_stay_however_old() -> None:
    world = make_world(clean_every_days=10_000)
    grown(world, 0)
    first = run(world)
    layer = below(world, "dredge/counted/")
    for number in range(1, 5):
        world.age(days=60)
        grown(world, number)
        context = run(world, mode="optimized")
        assert context.plan.mode == "optimized"
        assert layer <= below(world, "dredge/counted/")
        assert first.plan.run_id in folders(world), "its contents of branch heads are still looked up"
    assert len(folders(world)) == 5, "all of them hold some of the contents of branch heads"
    world.age(days=91)
    run(world, mode="clean")
    world.age(days=91)
    last = run(world, mode="clean")
    assert len(folders(world)) == 2
    assert last.plan.run_id in folders(world)
    assert not layer & below(world, "dredge/counted/")


@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_the_state_of_a_run_keeps_its_counts_though_its_report_comes_a_week_after_its_mark(mode: str) -> None:
    """Files to be removed are listed while the state, the first to name the counts, is written."""
    world = make_world(clean_every_days=10_000)
    grown(world, 0)
    run(world)
    grown(world, 1)
    context = world.plan(mode=mode)
    world.mark(context)
    bulk_delete(context, world.runner)
    verify(context, world.runner)
    world.age(days=8)
    context.lease.renew(context.plan.lease)
    save_report(context)
    release_lease(context)
    grown(world, 2)
    assert run(world, mode="optimized").plan.mode == "optimized", "the state has all its files"


def test_nothing_goes_by_a_clock_that_jumped(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the store's clock half a year has passed since the run was planned; this machine's knows better."""
    world = make_world(mode="auto")
    grown(world, 1)
    run(world)
    grown(world, 2)
    context = world.plan()
    before = below(world, "")
    store_now, honest = Run.store_now, clean_up.find_superseded

    def jumped(context: Run) -> clean_up.Superseded:
        with monkeypatch.context() as patch:
            patch.setattr(Run, "store_now", lambda self: store_now(self) + timedelta(days=180))
            return honest(context)

    monkeypatch.setattr(step, "find_superseded", jumped)
    with removing() as removed:
        world.run(context)
    assert removed == []
    assert before <= below(world, "")
    assert "clock" in str(context.folder.read_json("report.json")["warnings"])


def test_what_the_run_that_waits_was_planned_on_stays_for_a_week() -> None:
    """It is marked and waits for an approval; its lease is taken over, and others go on."""
    world = make_world(safety={"mark_age_hours_max": 1000}, clean_every_days=10_000)
    grown(world, 0)
    run(world, mode="clean")
    grown(world, 1)
    waiting = world.marked(mode="optimized")
    release_lease(waiting)
    for number in range(2, 5):
        world.age(hours=20)
        grown(world, number)
        run(world, mode="clean")
    again = Run.open(waiting.plan.run_uri, None, world.client, world.lake.clock)
    base = base_of(again)
    assert base is not None
    for part in base.state.parts:
        base.folder.read_bytes(part)
    for part in base.state.counted.parts:
        assert again.state.get(part.name)


@pytest.mark.parametrize("group", [1, 2])
def test_a_run_that_lost_its_lease_removes_nothing_more_and_is_a_success_all_the_same(
    group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dredge.runs.cleanup._KEYS", 3)
    world = with_old_runs()
    grown(world, 9)
    context = world.marked(mode="clean")
    bulk_delete(context, world.runner)
    verify(context, world.runner)

    def overtaken(number: int, _keys: Sequence[str]) -> None:
        if number == group:
            lease = make_lease(context.state, 3600)
            lease.release(context.plan.lease)
            lease.acquire("another run")

    with removing(overtaken) as removed:
        save_report(context)
    # The group that was looked at before is the last one.
    assert len(removed) == 3 * group
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "success"
    assert report["warnings"]


def test_an_unreadable_pointer_to_the_state_stops_the_removal() -> None:
    world = with_old_runs()
    grown(world, 9)
    context = world.plan(mode="clean", dry_run=True)
    context.state.put(POINTER, b"[]")
    world.run(context)
    report = context.folder.read_json("report.json")
    assert report["warnings"]


def test_an_index_of_a_later_format_loses_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes back to an earlier version may come again."""
    world = make_world()
    with monkeypatch.context() as later:
        later.setattr(store, "FORMAT", store.FORMAT + 1)
        grown(world, 0)
        run(world, mode="clean", tuning={"index_parts_max": 1})
    before = below(world, "dredge/index/")
    world.age(days=8)
    grown(world, 9)
    run(world, mode="clean")
    assert before <= below(world, "dredge/index/")


def test_an_index_with_a_manifest_that_is_not_believed_loses_no_file_that_it_might_name() -> None:
    world = make_world()
    grown(world, 0)
    context = run(world)
    (info,) = context.state.list_level("index/manifests/").objects
    context.state.put(info.key, context.state.get(info.key)[:-1] + b"?")
    parts = below(world, "dredge/index/parts/")
    world.age(days=30)
    grown(world, 1)
    run(world, mode="clean")
    assert parts <= below(world, "dredge/index/parts/")


def test_nothing_but_own_files_is_ever_removed_by_it() -> None:
    world = make_world()
    kept = set()
    for number in range(4):
        grown(world, number)
        foreign = f"{ROOT}/uncommitted/{number}/pages"
        world.lake.objects.put(foreign, b"x")
        kept.add(foreign)
        with removing() as removed:
            run(world, mode="clean")
        assert all(clean_up.is_own_file(key) for key in removed)
        world.age(days=100)
    store = StateStore(world.plan().state)
    assert store.current("lake", world.lake.namespace).state is not None
    assert kept <= set(world.lake.keys(""))
    world.assert_readable()


def test_a_result_that_could_not_be_written_is_no_failure_of_the_cleaning_alone() -> None:
    """It is written beside the work after it, and a cleaning that fails is only logged."""
    world = make_world()
    kept = {world.upload("a")}
    world.age(days=2)
    planned = world.plan()
    refused = failing_writes(f"/{StateOutput.STEP}/_SUCCESS.json", UnavailableError("no"))
    with refused, pytest.raises(UnavailableError):
        run_steps(planned, LocalRunner())
    assert read_report(planned)["outcome"] != "success"
    assert world.data() == kept
