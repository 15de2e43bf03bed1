"""The committed index: what cannot be trusted is decoded again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dredge.gc.index.store import CommittedIndex, read_part, write_part
from dredge.gc.index.upkeep import compact, rebuild_index, verify_index
from dredge.runs.parts import parquet_bytes, read_parquet
from dredge.storage import open_deleter, open_writer
from dredge.xid import new_descending_xid
from tests.support.gc import World, busy_world, make_world, summary_of


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
        context = world.plan()
        world.run(context)
        assert world.data() == kept
        assert orphan not in world.data()
        counts = summary_of(context, "list_committed").counts
        assert counts["index_parts_rebuilt"] == (0 if damage == "manifest" else 1)
        assert counts["ranges_decoded"] == 1
        # And the time after, the new part is used.
        world.age(hours=1)
        context = world.plan()
        world.run(context)
        assert summary_of(context, "list_committed").counts["ranges_decoded"] == 0


def test_an_index_made_for_another_namespace_is_not_believed() -> None:
    """A bucket that was copied brings its index along, but full addresses mean another place there."""
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
    """A lake after several runs, each of which added a part to the index."""
    world = make_world(mode="auto")
    world.rules(30)
    for number in range(count):
        world.upload(f"p{number}", b"%d" % number)
        world.lake.commit()
        world.age(hours=30)
        world.collect(tuning={"index_parts_max": 1000})
    return world


def test_small_parts_are_united_and_older_manifests_not_read_again() -> None:
    world = grown(5)
    context = world.plan()
    state, namespace = context.state, world.lake.namespace
    before = CommittedIndex.load(state, namespace)
    names = {name for name, _ in before.places.values()}
    assert len(names) == 5
    assert compact(state, namespace, context.plan.run_id, before.places, parts_max=5) == 0
    assert compact(state, namespace, context.plan.run_id, before.places, parts_max=4) == 5
    after = CommittedIndex.load(state, namespace)
    assert len({name for name, _ in after.places.values()}) == 1
    assert after.places.keys() == before.places.keys()
    assert verify_index(context.reader, state, namespace, against_ranges=True).is_good
    read: list[str] = []
    honest = type(state).get

    def get(self: Any, key: str) -> bytes:
        read.append(key)
        return honest(self, key)

    type(state).get = get  # type: ignore[method-assign]
    try:
        assert CommittedIndex.load(state, namespace).places == after.places
    finally:
        type(state).get = honest  # type: ignore[method-assign]
    assert not [key for key in read if key.startswith("index/manifests/")]
    world.run(context)
    world.age(days=2)
    world.collect(mode="clean", tuning={"index_parts_max": 1})


def test_a_damaged_checkpoint_is_left_out() -> None:
    world = grown(3)
    context = world.plan()
    state, namespace = context.state, world.lake.namespace
    before = CommittedIndex.load(state, namespace)
    compact(state, namespace, context.plan.run_id, before.places, parts_max=1)
    for info in state.list_level("index/checkpoints/").objects:
        state.put(info.key, state.get(info.key)[:-1] + b"?")
    assert CommittedIndex.load(state, namespace).places.keys() == before.places.keys()


def test_verify_finds_damage_and_rebuild_mends_it(tmp_path: Path) -> None:
    world = grown(3)
    context = world.plan()
    state, namespace = context.state, world.lake.namespace
    assert verify_index(context.reader, state, namespace, against_ranges=True).is_good
    index = CommittedIndex.load(state, namespace)
    flipped, wrong = sorted(index.parts)[:2]
    data = state.get(index.parts[flipped].addresses.name)
    state.put(index.parts[flipped].addresses.name, data[:50] + b"?" + data[51:])
    # A part that fits its digest but was worked out wrongly.
    ranges = read_part(state, index.parts[wrong], lambda _: True)
    bad = [replace(item, addresses=item.addresses[1:]) for item in ranges]
    index.add(f"{context.plan.run_id}-x", [write_part(state, f"{context.plan.run_id}-bad", bad)])
    shallow = verify_index(context.reader, state, namespace, against_ranges=False)
    assert (shallow.damaged, shallow.wrong) == ([flipped], [])
    deep = verify_index(context.reader, state, namespace, against_ranges=True)
    assert deep.damaged == [flipped]
    assert deep.wrong == [item.range_id for item in bad]
    done = rebuild_index(context.reader, state, namespace, new_descending_xid(world.age(seconds=5)), deep)
    assert done == len(deep.wrong) + len(read_back(index, flipped))
    assert verify_index(context.reader, state, namespace, against_ranges=True).is_good


def lose_index(world: World) -> None:
    """Remove the index, as somebody does who takes it for a cache."""
    keys = world.lake.keys("_lakefs/retention/gc/dredge/index/")
    assert keys
    open_deleter(world.lake.namespace).delete(keys)


def test_an_optimized_run_without_its_index_still_asks_about_objects_of_equal_size() -> None:
    world = make_world(mode="optimized")
    world.rules(30)
    world.upload("a", b"same bytes")
    world.lake.commit()
    world.age(days=2)
    world.collect()
    lose_index(world)
    served = world.upload("b", b"same bytes")  # staged, and no answer of the server leaves it out
    copy = world.orphan("data/copy", b"same bytes")
    twin = world.upload("a", b"same bytes")  # the branch serves it, and no answer names it
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert context.plan.mode == "optimized"
    assert summary_of(context, "check_limits").counts["same_size_objects"] == 2
    assert {served, twin} <= world.data()
    assert copy not in world.data()


def test_ranges_are_grouped_by_the_part_that_counts_and_those_that_are_lacking_are_told() -> None:
    world = grown(3)
    context = world.plan()
    index = CommittedIndex.load(context.state, world.lake.namespace)
    known = sorted(index.places)
    groups, lacking = index.group([*known, "unknown"])
    assert lacking == ["unknown"]
    assert sorted(range_id for ids in groups.values() for range_id in ids) == known
    assert all(read_back(index, name) == ids for name, ids in groups.items())
    name, count = index.places[known[0]]
    assert (index.part_of(known[0]), index.part_of(known[0], count)) == (name, name)
    assert index.part_of(known[0], count + 1) is None
    assert index.part_of("unknown") is None


def read_back(index: CommittedIndex, name: str) -> list[str]:
    """The ranges that the index has in a part."""
    return [range_id for range_id, (part, _) in index.places.items() if part == name]
