"""The committed index: what cannot be trusted is decoded again."""

from __future__ import annotations

import pyarrow as pa

from dredge.gc.index import CommittedIndex
from dredge.runs.folder import parquet_bytes, read_parquet
from dredge.storage import open_deleter, open_writer
from tests.support.gc import busy_world, summary_of


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
        counts = summary_of(context, "committed").counts
        assert counts["index_parts_rebuilt"] == (0 if damage == "manifest" else 1)
        assert counts["ranges_decoded"] == 1
        # And the time after, the new part is used.
        world.age(hours=1)
        context = world.plan()
        world.run(context)
        assert summary_of(context, "committed").counts["ranges_decoded"] == 0


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
