"""What no look of one run can see is not lost, as another run looks a grace later. Without a grace it is: then nothing
may write (docs/safety.md has the list)."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dredge.commands.printing import list_runs
from dredge.gc.run import RUNS, STATE
from dredge.gc.save_report.clean_up import OWN, find_superseded
from dredge.gc.save_report.step import read_report
from dredge.gc.steps import bulk_delete
from dredge.runs.pending.store import read_named_parts
from dredge.runs.run import release_lease
from dredge.storage import open_deleter
from lakefs_embedded.catalog import Catalog
from tests.support import memory_store
from tests.support.gc import World, candidates, make_world, seen_with, stage_again
from tests.support.lakes import no_sleep

GRACES = pytest.mark.parametrize(
    "grace", [{"unsafe_grace_seconds": None, "grace_hours": 20}, {}], ids=["the default", "none"]
)
"""The shortest grace that is a default, and none."""
HOURS = 20
IN_PARTS = b"in parts"
ADDRESS = "data/slice/in-parts"
PATH = "the same bytes"


def stays(world: World, address: str, grace: dict[str, Any], mode: str = "clean") -> bool:
    """Whether an object that is live is there as long as it should: without a grace the last run has lost it."""
    for _ in range(2 if grace else 0):
        world.age(hours=HOURS)
        world.collected(mode=mode)
    if grace:
        world.assert_readable()
    return (address in world.data()) is bool(grace)


def put_together(world: World) -> None:
    store = memory_store.memory_store(world.lake.namespace.removeprefix("memory://").partition("/")[0])
    began = world.age(seconds=1)
    world.orphan(ADDRESS, IN_PARTS)
    (key,) = [key for key in store.objects if key.endswith(ADDRESS)]
    store.write(key, IN_PARTS, began.replace(year=began.year - 1))


@GRACES
@pytest.mark.parametrize("mode", ["clean", "optimized"])
@pytest.mark.parametrize("committed", [b"k", IN_PARTS.upper()], ids=["other bytes", "the same bytes"])
def test_traps_06_and_07_an_upload_in_parts_that_ends_before_the_listing_and_is_staged_after_the_run(
    grace: dict[str, Any], mode: str, committed: bytes
) -> None:
    world = make_world(**grace)
    stage_again(world, world.orphan("data/slice/first", committed), PATH, size_bytes=len(committed))
    world.lake.commit()
    world.age(days=2)
    world.collected()
    world.age(days=1)
    put_together(world)
    world.collected(mode=mode)
    stage_again(world, ADDRESS, PATH, size_bytes=len(IN_PARTS))
    assert stays(world, ADDRESS, grace, mode)


def commit_while(world: World, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> str:
    """Commit, and do something after the commit has sealed what is staged and before it reads that; gives the commit's
    id."""
    commits = world.lake.catalog.commits
    honest = commits._commit_tokens

    with monkeypatch.context() as patch:

        def build(*arguments: Any) -> Any:
            patch.undo()
            action()
            return honest(*arguments)

        patch.setattr(commits, "_commit_tokens", build)
        return world.lake.commit().id


@GRACES
@pytest.mark.usefixtures("without_canaries")
@pytest.mark.parametrize("seen", [True, False], ids=["seen staged", "never seen"])
@pytest.mark.parametrize("mode", ["clean", "optimized"])
@pytest.mark.parametrize("goes_on", ["written", "deleted"])
def test_trap_23_what_a_commit_under_way_is_about_to_bring_though_its_path_was_written_anew_or_deleted(
    monkeypatch: pytest.MonkeyPatch, grace: dict[str, Any], seen: bool, mode: str, goes_on: str
) -> None:
    """The commit takes almost as long as the grace, and runs look all the time."""
    world = make_world(**grace, rules=30)
    world.commit("keep", b"k")
    world.collected()
    address = world.upload(PATH, b"first")
    world.age(days=2)
    if seen:
        world.collected()

    def go_on_and_collect() -> None:
        if goes_on == "written":
            world.upload(PATH, b"second version")
        else:
            world.lake.catalog.objects.delete_object(world.lake.repository, "main", PATH)
        for _ in range(2):
            world.collected(mode=mode)
            world.age(hours=HOURS / 2 - 1)

    commit = commit_while(world, monkeypatch, go_on_and_collect)
    assert stays(world, address, grace, mode)
    if grace:
        assert world.lake.read(PATH, commit) == b"first"


def stage_over_its_like(world: World, address: str, content: bytes) -> None:
    """Stage an old object over an equal entry of the branch's head: it is no change, so nobody is shown it."""
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        "main",
        PATH,
        physical_address=f"{world.lake.namespace}/{address}",
        checksum=hashlib.md5(content).hexdigest(),
        size_bytes=len(content),
    )
    assert world.served()[PATH] == address
    shown = world.lake.catalog.branches.diff_branch(world.lake.repository, "main", amount=10)
    assert [change.path for change in shown.results] == []


@GRACES
@pytest.mark.usefixtures("without_canaries")
@pytest.mark.parametrize("committed", ["before the mark", "after the guards"])
def test_traps_06_and_48_an_old_object_that_is_staged_over_its_like_after_branches_were_asked(
    grace: dict[str, Any], committed: str
) -> None:
    """No re-check sees it. The head has an equal entry already, or gets it only then."""
    content = b"the same bytes"
    world = make_world(**grace)
    world.commit(PATH, content if committed == "before the mark" else b"of another length")
    old = world.orphan("data/slice/old", content)
    world.age(days=2)
    found = world.marked()
    if committed == "after the guards":
        world.commit(PATH, content)
    stage_over_its_like(world, old, content)
    bulk_delete(found, world.runner)
    release_lease(found)
    assert stays(world, old, grace)


@GRACES
@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_trap_55_an_upload_that_is_linked_late_through_a_server_whose_clock_is_hours_behind(
    grace: dict[str, Any], mode: str
) -> None:
    """No run meets that server."""
    world = make_world(**grace)
    world.commit("keep", b"k")
    world.collected()
    lake = world.lake
    slow = Catalog(
        lake.kv,
        lake.open_namespace,
        lambda: lake.clock() - timedelta(hours=15),
        lake.settings,
        sleep=no_sleep,
    )
    full = lake.catalog.addresses.get_physical_address("lake", "main", "late")
    address = world.orphan(full.removeprefix(f"{lake.namespace}/"), b"linked late")
    world.age(hours=26)
    world.collected(mode=mode)
    world.age(hours=10)
    slow.addresses.link_physical_address(
        "lake", "main", "late", physical_address=full, checksum="c", size_bytes=11
    )
    assert stays(world, address, grace, mode)


@GRACES
@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_trap_78_what_a_commit_has_written_a_range_of_and_no_metarange_yet(
    grace: dict[str, Any], mode: str
) -> None:
    """Its entry is in no answer, it claims an old date, and no ref leads to it until it ends."""
    world = make_world(**grace, rules=1)
    world.commit("keep", b"k")
    catalog = world.lake.catalog
    catalog.branches.create_branch("lake", "side", "main")
    address = world.upload(PATH, b"taken from staging", "side")
    world.age(days=9)
    world.collected()
    world.age(days=1)
    commit = world.lake.commit("side", "side", date=world.lake.clock() - timedelta(days=90))
    catalog.branches.delete_branch("lake", "side")
    key = f"_lakefs/{commit.metarange_id}"
    written = world.lake.objects.get(key)
    open_deleter(world.lake.namespace).delete([key])
    world.collected(mode=mode)
    world.lake.objects.put(key, written)
    catalog.branches.create_branch("lake", "side", commit.id)
    assert stays(world, address, grace, mode)
    if grace:
        world.assert_readable("side")


def left_since(world: World) -> None:
    world.lake.catalog.branches.delete_branch(world.lake.repository, "two")


@GRACES
@pytest.mark.parametrize(
    ("branch_days", "changed"),
    [({"two": 1}, left_since), ({}, lambda world: world.rules(30))],
    ids=["branch", "rules"],
)
def test_trap_19_what_a_longer_rule_keeps_since_the_mark_though_the_servers_walk_loses_it(
    grace: dict[str, Any], branch_days: dict[str, int], changed: Callable[[World], None]
) -> None:
    """The young commit that keeps it has no ref and kept nothing when it was asked."""
    for attempt in range(60):  # whether the walk loses it hangs on ids, which are drawn anew each time
        world = seen_with(make_world(**grace), defects=frozenset({"active_walk_early_stop"}))
        catalog, name = world.lake.catalog, world.lake.repository
        world.rules(30 if branch_days else 3, **branch_days)
        kept = world.upload("x", b"x")
        parent = world.lake.commit(f"parent {attempt}")
        catalog.branches.create_branch(name, "two", parent.id)
        world.commit("x", b"old")
        world.age(days=60)
        world.commit("x", b"young", "two")
        world.age(days=2)
        if not branch_days:
            world.commit("x", b"younger", "two")
            left_since(world)
        world.age(days=2)
        found = world.marked()
        assert kept in candidates(found)
        changed(world)
        prepared = world.client.prepare_commits(name, 1)
        assert prepared is not None
        listed = world.lake.objects.get(prepared.location.removeprefix(f"{world.lake.namespace}/"))
        if parent.id.encode() not in listed:
            break
    else:
        pytest.fail("the server's walk never lost the commit, so the test proved nothing")
    bulk_delete(found, world.runner)
    release_lease(found)
    assert stays(world, kept, grace)


# What reports, lists of runs and pages tell of what waits, and what becomes of the files of earlier lists.


ORPHAN = "data/slice/orphan"


def waiting() -> World:
    world = make_world(unsafe_grace_seconds=None, grace_hours=20, mode="auto", rules=30)
    world.commit("a", b"committed")
    world.orphan(ORPHAN)
    world.age(days=9)
    return world


def test_a_list_of_runs_has_the_bytes_that_wait() -> None:
    world = waiting()
    world.collected()
    world.age(hours=20)
    world.collected()
    rows = list_runs(world.lake.namespace, RUNS, 0, read_report)
    assert [(row["deleted_objects"], row["pending_objects"], row["pending_bytes"]) for row in rows] == [
        (1, 0, 0),
        (0, 1, 6),
    ]


def test_parts_of_earlier_lists_are_removed_a_week_later_and_those_of_the_list_are_not() -> None:
    world = waiting()
    old = read_named_parts(world.collected().state)
    world.orphan("data/slice/another")
    world.age(days=2)
    newer = read_named_parts(world.collected().state)
    assert old
    assert old.isdisjoint(newer)
    assert old | newer <= parts_there(world), "a run that waits may still read them"
    world.age(days=9)
    run = world.collected(dry_run=True)
    found = find_superseded(run).bookkeeping
    assert {f"{OWN}/{key}" for key in old} <= set(found)
    assert read_named_parts(run.state).isdisjoint(key.removeprefix(f"{OWN}/") for key in found)
    world.age(seconds=1)
    assert read_named_parts(world.collected().state) <= parts_there(world)
    assert old.isdisjoint(parts_there(world))


def parts_there(world: World) -> set[str]:
    return {key.removeprefix(f"{STATE}/") for key in world.lake.keys(f"{STATE}/pending/")}
