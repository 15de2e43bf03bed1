"""Optimized runs: what they read, what they leave out, and when a run is rather a clean one."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConflictError, FormatError, RefusedError
from dredge.gc.run import Run
from dredge.gc.save_report.advance_state import advance_state
from dredge.gc.state import RunState, StateStore
from dredge.gc.steps import bulk_delete, save_report, verify
from dredge.lakefs.files.ranges import read_metarange
from dredge.runs.pending.rows import YOUNG
from dredge.runs.run import release_lease
from dredge.runs.tasks import LocalRunner
from dredge.runs.versions import POINTER
from dredge.storage import open_deleter, open_reader, open_writer
from lakefs_embedded.catalog.imports import ImportPath
from tests.support.gc import World, make_world, pending_rows, summary_of

REPOSITORY = "lake"


def grown_world(**settings: Any) -> World:
    world = make_world(mode="auto", **settings, rules=30)
    for number in range(5):
        world.upload(f"a{number}", b"%d" % number)
    world.lake.commit()
    world.collect_after(days=9)
    return world


def state_of(world: World) -> RunState:
    context = world.plan()
    release_lease(context)
    state = StateStore(context.state).current(REPOSITORY, world.lake.namespace).state
    assert state is not None
    return state


def test_what_only_dropped_ranges_named_goes_and_what_others_name_too_stays() -> None:
    world = grown_world()
    twice = world.upload("shared", b"shared")
    once = world.commit("gone", b"gone")
    world.lake.catalog.branches.create_branch(REPOSITORY, "side", "main")
    world.lake.catalog.objects.delete_object(REPOSITORY, "main", "gone")
    world.lake.commit()
    world.lake.catalog.objects.delete_object(REPOSITORY, "side", "gone")
    world.lake.commit(branch="side")
    world.age(days=9)
    assert world.collected().plan.mode == "optimized"
    assert {twice, once} <= world.data()
    world.age(days=25)
    for branch in ("main", "side"):
        world.commit("tick", b"tick", branch)
    world.age(days=10)
    context = world.collected(mode="optimized")
    assert context.plan.mode == "optimized"
    assert summary_of(context, "list_committed").counts["dropped_ranges"] >= 1
    assert once not in world.data()
    assert twice in world.data()
    assert world.lake.read("shared", "side") == b"shared"


def test_a_dropped_range_that_is_gone_keeps_what_it_named_and_says_so() -> None:
    world = grown_world()
    lost = world.commit("lost", b"lost")
    world.lake.catalog.objects.delete_object(REPOSITORY, "main", "lost")
    world.lake.commit()
    world.age(days=9)
    context = world.collected()
    world.commit("x", b"x")
    world.age(days=35)
    # The file of the range that is dropped now goes away.
    folder = context.folder
    ranges = folder.read_part(
        summary_of(context, "list_committed").part("list_committed/ranges-00000.parquet")
    )
    for range_id in ranges["range_id"].to_pylist():
        if not is_in_head(world, range_id):
            world.lake.objects.put(f"_lakefs/{range_id}", b"damaged")
    world.age(days=2)  # a young one might be of a commit that is just made, and would stop the run
    context = world.collected(mode="optimized")
    assert context.plan.mode == "optimized"
    assert any("cannot be" in text for text in summary_of(context, "list_committed").warnings)
    assert lost in world.data()
    assert state_of(world).run_id == context.plan.run_id


def is_in_head(world: World, range_id: str) -> bool:
    commits = world.client.log(REPOSITORY, "main")
    metarange_id = next(iter(commits)).metarange_id
    data = world.lake.objects.get(f"_lakefs/{metarange_id}")
    return range_id in {found.id for found in read_metarange(data, metarange_id)}


def test_a_dry_run_and_a_failed_run_leave_the_state_alone() -> None:
    world = grown_world()
    before = state_of(world)
    world.orphan("data/slice/orphan")
    world.age(days=2)
    world.collected(dry_run=True)
    assert state_of(world) == before
    held = world.plan(max_delete_objects=0)
    with pytest.raises(RefusedError, match="max_objects"):
        world.run(held)
    release_lease(held)  # it waits for an answer
    assert state_of(world) == before
    world.collect()
    assert state_of(world).previous == before.run_id


def test_a_state_that_breaks_in_the_middle_of_a_run_stops_it_and_the_next_is_clean() -> None:
    world = grown_world()
    world.age(days=2)
    gone = world.orphan("data/slice/orphan")
    world.age(days=2)
    part = state_of(world).counted.parts[0]
    context = world.plan()
    context.state.put(part.name, b"x" * part.size_bytes)
    with pytest.raises(FormatError):
        world.run(context)
    assert gone in world.data()
    assert world.plan(mode="optimized").plan.mode == "clean"


def test_the_state_moves_on_only_from_where_the_run_began() -> None:
    world = grown_world()
    world.age(days=2)
    context = world.marked()
    bulk_delete(context, LocalRunner())
    verify(context)
    context.state.put(POINTER, json.dumps({"name": "x", "sha256": "y"}).encode())
    with pytest.raises(ConflictError):
        advance_state(context)
    with pytest.raises(ConflictError):
        save_report(context)
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "failed"


def test_what_was_kept_by_a_run_is_looked_at_again_by_the_next() -> None:
    world = grown_world()
    # The same bytes again: the branch reads the new copy, and no answer names it.
    copy = world.upload("a0", b"0")
    world.age(days=9)
    world.collected()
    assert copy in world.data()
    world.age(days=9)  # its slice is covered now
    world.collected()
    assert copy in world.data()
    world.upload("a0", b"other")
    world.age(days=2)
    context = world.collected()
    assert summary_of(context, "slice_listing").counts["covered_slices"] >= 2
    assert copy not in world.data()


def test_a_window_lists_its_slices_and_covers_no_others() -> None:
    world = grown_world()
    slices: list[str] = []
    for number in range(4):
        slices.append(world.upload(f"w{number}", b"%d" % number))
        world.lake.catalog.branches.reset_branch(REPOSITORY, "main")
        world.age(days=3)
    world.age(days=10)
    now = world.lake.clock()
    begin, end = now - timedelta(days=16), now - timedelta(days=13)
    window = {"window_begin": begin.isoformat(), "window_end": end.isoformat(), "slice_margin_hours": 50}
    world.collected(**window)
    left = [address in world.data() for address in slices]
    assert left == [True, True, False, True]
    world.collected(**window)
    assert [address in world.data() for address in slices] == left
    world.collected()
    assert not world.data() & set(slices)


def test_what_was_young_when_its_slice_was_covered_goes_when_it_is_old() -> None:
    world = grown_world(slice_margin_hours=50)
    full = world.lake.catalog.addresses.get_physical_address(REPOSITORY, "main", "late")
    world.age(hours=40)
    late = world.orphan(full.removeprefix(world.lake.namespace + "/"), b"late")
    world.age(hours=12)
    context = world.collected()
    assert late in world.data()
    assert pending_rows(context)[late]["status"] == YOUNG
    world.age(days=1)
    context = world.collected()
    listing = summary_of(context, "slice_listing").counts
    assert listing["slices"] == listing["covered_slices"]
    assert late not in world.data()


def test_the_same_content_on_a_branch_that_was_made_from_an_old_commit_is_looked_into() -> None:
    """Its head has no new range: only one that was in no head before."""
    world = make_world(mode="auto", safety={"canary_branches": 1, "canary_objects": 1}, rules=30)
    for content in (b"%d", b"other %d"):
        for number in range(5):
            world.upload(f"a{number}", content % number)
        world.lake.commit()
    then = list(world.client.log(REPOSITORY, "main"))[1].id
    world.age(days=9)
    world.collected()
    world.lake.catalog.branches.create_branch(REPOSITORY, "old", then)
    copy = world.upload("a3", b"3", "old")
    world.age(days=2)
    context = world.collected()
    assert context.plan.mode == "optimized"
    assert copy in world.data()
    assert world.lake.read("a3", "old") == b"3"


COMMITTED = "list_committed"


def delete(world: World, *paths: str) -> None:
    for path in paths:
        world.lake.catalog.objects.delete_object(world.lake.repository, "main", path)
    world.lake.commit()
    world.age(days=31)


def lose_ranges(world: World, context: Run) -> None:
    """Damage the files of the ranges that are active in a run, so that nobody can tell what dropping them drops."""
    part = summary_of(context, COMMITTED).part(f"{COMMITTED}/ranges-00000.parquet")
    for range_id in context.folder.read_part(part)["range_id"].to_pylist():
        world.lake.objects.put(f"_lakefs/{range_id}", b"damaged")
    world.age(days=2)


@pytest.mark.parametrize("lost", [False, True])
def test_where_all_that_is_committed_lies_elsewhere_an_optimized_run_goes_on(
    tmp_path: Path, lost: bool
) -> None:
    elsewhere = f"file://{tmp_path}/elsewhere"
    for name in ("one", "two", "three"):
        open_writer(elsewhere).put(name, b"elsewhere")
    world = make_world(mode="auto", rules=30)

    def take_in(name: str) -> None:
        path = ImportPath("object", f"{elsewhere}/{name}", name)
        world.lake.catalog.imports.import_start(
            world.lake.repository, "main", [path], open_reader, committer="anna"
        )

    def counts(context: Run) -> tuple[int, int]:
        found = summary_of(context, COMMITTED).counts
        assert (found["live_addresses"], found["outside_rows"]) == (0, found["range_rows"])
        return found["range_rows"], found["dropped_ranges"]

    take_in("one")
    world.collect_after(days=9)
    assert counts(world.collected(mode="optimized")) == (1, 0)
    take_in("two")
    before = world.collected(mode="optimized")
    assert counts(before) == (2, 0)
    delete(world, "one")
    take_in("three")
    if lost:
        lose_ranges(world, before)
    assert counts(world.collected(mode="optimized")) == ((3, 1) if lost else (2, 1))


def lose_summary(context: Run) -> None:
    (key,) = (
        key
        for batch in context.folder.writer.list(COMMITTED)
        for key in batch["key"].to_pylist()
        if key.endswith("/_SUCCESS.json")
    )
    open_deleter(context.plan.run_uri).delete([key])


@pytest.mark.parametrize("lost", [None, lose_summary])
def test_where_nothing_is_live_any_more_an_optimized_run_counts_nothing(
    lost: Callable[[Run], None] | None,
) -> None:
    """Its counts have what was added and what was taken away; where the base does not tell, that is too many."""
    world = make_world(mode="auto", rules=30)
    for path in ("a", "b"):
        world.upload(path, path.encode())
    world.lake.commit()
    world.age(days=9)
    clean = world.collected()
    if lost is not None:
        lost(clean)
    assert summary_of(world.collected(mode="optimized"), COMMITTED).counts["live_addresses"] == 2
    delete(world, "a", "b")
    world.lake.commit("younger", allow_empty=True)
    world.age(days=31)
    assert summary_of(world.collected(mode="optimized"), COMMITTED).counts["live_addresses"] == (
        0 if lost is None else 4
    )
