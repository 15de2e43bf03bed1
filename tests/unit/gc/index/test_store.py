"""The committed index: what cannot be trusted is decoded again."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from threading import Event

import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.gc.index.store import (
    CHECKPOINTS,
    MANIFESTS,
    CommittedIndex,
    IndexPart,
    grow,
    growing,
    read_part,
    write_part,
)
from dredge.gc.save_report.advance_state import compact
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing
from dredge.lakefs.files.ranges import is_table_id
from dredge.runs.parts import parquet_bytes, read_parquet
from dredge.runs.tries import StepTry
from dredge.storage import open_deleter, open_writer
from tests.support.gc import World, busy_world, make_world, summary_of
from tests.support.index_parts import NAMESPACE, Kept, named, says
from tests.support.spark_application import wait_until


def test_a_damaged_part_of_the_index_is_rebuilt_from_its_ranges() -> None:
    for damage in ("gone", "flipped", "manifest"):
        world, kept, _ = busy_world()
        world.collect()
        assert world.data() == kept
        orphan = world.orphan("data/slice/later")
        world.age(days=2)
        keys = [
            key
            for key in world.lake.keys("_lakefs/retention/gc/dredge/index/")
            if "addresses" in key or damage == "manifest"
        ]
        chosen = next(key for key in keys if ("manifests" in key) == (damage == "manifest"))
        data = world.lake.objects.get(chosen)
        if damage == "gone":
            open_deleter(world.lake.namespace).delete([chosen])
        else:
            world.lake.objects.put(chosen, data[:100] + bytes([data[100] ^ 1]) + data[101:])
        context = world.collected()
        assert world.data() == kept
        assert orphan not in world.data()
        counts = summary_of(context, "list_committed").counts
        assert counts["index_parts_rebuilt"] == (0 if damage == "manifest" else 1)
        assert counts["ranges_decoded"] == 1
        # And the time after, the new part is used.
        world.age(hours=1)
        context = world.collected()
        assert summary_of(context, "list_committed").counts["ranges_decoded"] == 0


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("is_missing", [False, True], ids=["", "a range is missing"])
def test_the_index_grows_before_the_commits_are_read(ended: bool, is_missing: bool) -> None:
    world = make_world()
    world.commit("a", b"lives")
    context = world.plan()
    event = Event()
    if ended:
        event.set()
    names = [key for key in world.lake.keys("_lakefs/") if is_table_id(key.removeprefix("_lakefs/"))]
    kept = {key: world.lake.objects.get(key) for key in names}
    if is_missing:
        open_deleter(world.lake.namespace).delete(names)
    grow(context, event, "ahead")
    for key, data in kept.items():
        world.lake.objects.put(key, data)
    world.commit("b", b"lives too")
    slice_listing(context, world.runner)
    mark_uncommitted(context, world.runner)
    counts = list_committed(context, world.runner).counts
    assert counts["ranges_decoded"] == counts["ranges"] - (not ended and not is_missing) > 0
    world.run(context)
    world.assert_readable()


def test_the_index_grows_beside_a_mark_for_the_process_of_the_next_step() -> None:
    world = make_world()
    world.commit("a", b"lives")
    context = world.plan()
    with growing(context, alone=True):
        wait_until(lambda: bool(CommittedIndex.load(context.state, context.plan.namespace).places))


def test_parts_of_two_tries_of_the_mark_keep_apart_while_another_step_runs() -> None:
    world = make_world()
    context = world.plan()
    folder = context.folder
    tries = {name: [StepTry(folder.writer, name, number) for number in (1, 2)] for name in ("mark", "list")}
    for mark in tries["mark"]:
        world.commit(f"p{mark.number}", b"lives %d" % mark.number)
        with ExitStack() as later:
            # The mark ends and the next step begins meanwhile.
            ends = partial(later.enter_context, folder.writing(tries["list"][0]))
            with context.going_on(), folder.writing(mark), world.during("log", ends), growing(context):
                pass
    index, lacking = CommittedIndex.load(context.state, context.plan.namespace), set[str]()
    found = [item.range_id for item in index.read(index.places, lacking)]
    assert sorted(found) == sorted(index.places)
    assert len(found) == 2
    assert not lacking


@pytest.mark.parametrize("first", ["a", "b"])
def test_two_manifests_with_other_bytes_for_a_part_are_not_both_believed(kept: Kept, first: str) -> None:
    second = "b" if first == "a" else "a"
    for label, item in ((first, "one"), (second, "two")):
        CommittedIndex(kept.state, NAMESPACE).add(label, [write_part(kept.state, "same", [named(item)])])
    index, lacking = kept.index, set[str]()
    found = {item.range_id for item in index.read(["one", "two"], lacking)}
    assert found | lacking == {"one", "two"}
    assert "one" in lacking


def test_what_one_chain_began_is_not_used_by_the_next() -> None:
    context = make_world().plan()
    with context.going_on():
        context.begin("check_limits", list)
    assert context.begun("check_limits") is None


def test_an_index_made_for_another_namespace_is_not_believed() -> None:
    world, kept, _ = busy_world()
    world.collect()
    copied = "memory://copied/lake"
    for key in world.lake.keys(""):
        open_writer(copied).put(key, world.lake.objects.get(key))
    state = open_writer(f"{copied}/_lakefs/retention/gc/dredge")
    assert CommittedIndex.load(state, world.lake.namespace).places
    assert not CommittedIndex.load(state, copied).places
    assert world.data() == kept


def test_a_manifest_of_the_index_that_was_edited_is_not_believed() -> None:
    world, _, _ = busy_world()
    world.collect()
    state = open_writer(f"{world.lake.namespace}/_lakefs/retention/gc/dredge")
    name = state.list_level("index/manifests/").objects[0].key
    table = read_parquet(state.get(name))
    state.put(name, parquet_bytes(table.set_column(1, "count", pa.array([9] * table.num_rows))))
    assert not CommittedIndex.load(state, world.lake.namespace).places


def grown(count: int) -> World:
    world = make_world(mode="auto", rules=30)
    for number in range(count):
        world.commit(f"p{number}", b"%d" % number)
        world.age(hours=30)
        world.collect(tuning={"index_parts_max": 1000})
    return world


def test_a_damaged_checkpoint_is_left_out() -> None:
    world = grown(3)
    context = world.plan()
    state, namespace = context.state, world.lake.namespace
    before = CommittedIndex.load(state, namespace)
    compact(state, namespace, context.plan.run_id, before.places, parts_max=1)
    for info in state.list_level("index/checkpoints/").objects:
        state.put(info.key, state.get(info.key)[:-1] + b"?")
    assert CommittedIndex.load(state, namespace).places.keys() == before.places.keys()


def lose_index(world: World) -> None:
    keys = world.lake.keys("_lakefs/retention/gc/dredge/index/")
    assert keys
    open_deleter(world.lake.namespace).delete(keys)


def test_an_optimized_run_without_its_index_still_asks_about_objects_of_equal_size() -> None:
    world = make_world(mode="optimized", rules=30)
    world.commit("a", b"same bytes")
    world.collect_after(days=2)
    lose_index(world)
    served = world.upload("b", b"same bytes")  # staged, and no answer of the server leaves it out
    copy = world.orphan("data/copy", b"same bytes")
    twin = world.upload("a", b"same bytes")  # the branch serves it, and no answer names it
    world.age(days=2)
    context = world.collected()
    assert context.plan.mode == "optimized"
    assert summary_of(context, "check_limits").counts["same_size_objects"] == 2
    assert {served, twin} <= world.data()
    assert copy not in world.data()


def read_back(index: CommittedIndex, name: str) -> list[str]:
    return [range_id for range_id, (part, _) in index.places.items() if part == name]


RANGES = [named("a", 1, 2, sizes=(5,)), named("b", 3, 4, 5, sizes=()), named("c", 6, sizes=(7, 8))]


def read(kept: Kept, part: IndexPart, with_sizes: Callable[[str], bool]) -> list[tuple[object, ...]]:
    return [says(found) for found in read_part(kept.state, part, with_sizes)]


def test_a_part_whose_files_are_about_different_ranges_is_damaged(kept: Kept) -> None:
    one, other = (write_part(kept.state, name, [named(name)]).part for name in "ab")
    with pytest.raises(FormatError):
        read(kept, replace(one, sizes=other.sizes), lambda _: True)
    assert read(kept, replace(one, sizes=other.sizes), lambda _: False)


def test_a_part_that_is_not_as_it_was_written_is_damaged(kept: Kept) -> None:
    new = write_part(kept.state, "p", RANGES)
    other = write_part(kept.state, "other", RANGES[1:]).part
    kept.state.put(new.part.addresses.name, kept.state.get(other.addresses.name))
    with pytest.raises(FormatError):
        read(kept, new.part, lambda _: False)
    kept.damage(new)
    with pytest.raises(FormatError):
        read(kept, new.part, lambda _: False)


def test_the_newest_part_of_a_range_counts_and_only_for_the_number_of_records_it_has(kept: Kept) -> None:
    kept.add("p5", named("a", 1), named("b", 1))
    kept.add("p4", named("a", 1, 2))
    kept.add("p6", named("a", 1))
    index = kept.index
    assert index.places == {"a": ("p4", 2), "b": ("p5", 1)}
    assert [index.part_of("a", count) for count in (None, 1, 2)] == ["p4", None, "p4"]
    index.places["c"] = ("nowhere", 1)
    assert index.part_of("c") is None
    assert index.group("abcd") == ({"p4": ["a"], "p5": ["b"]}, ["c", "d"])


def test_the_newest_checkpoint_that_can_be_trusted_stands_for_all_before_it(kept: Kept) -> None:
    for name in ("p9", "p8", "p7"):
        kept.add(name, named(name))
        kept.index.checkpoint(name)
        if name == "p9":
            (first,) = kept.state.list_level(f"{CHECKPOINTS}/").objects
            kept.state.put(first.key, b"damaged: the next one does not know of it")
    (newest, older, oldest) = sorted(info.key for info in kept.state.list_level(f"{CHECKPOINTS}/").objects)
    manifests = {info.key for info in kept.state.list_level(f"{MANIFESTS}/").objects}
    assert kept.index.superseded == {older, oldest, *manifests}
    kept.state.put(newest, b"damaged")
    kept.add("p6", named("p6"))
    index = CommittedIndex.load(kept.state, NAMESPACE)
    assert index.distrusted == [newest]
    assert index.superseded == {oldest, *(name for name in manifests if "/p7" not in name)}
    assert index.places.keys() == {"p6", "p7", "p8", "p9"}
