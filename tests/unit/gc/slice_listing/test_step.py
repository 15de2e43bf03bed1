"""Slice listing: every old object once, whatever the layout and however it is cut."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.gc.steps import slice_listing
from dredge.hashing import hash64
from dredge.runs.summary import StepSummary
from dredge.xid import new_descending_xid
from tests.support import memory_store as memory
from tests.support.gc import Parallel, World, make_world


def listed(world: World, **settings: object) -> tuple[list[str], StepSummary]:
    context = world.plan(**settings)
    summary = slice_listing(context, Parallel())
    rows = [context.folder.read_part(part) for part in summary.parts]
    for table in rows:
        assert table["hash"].to_pylist() == hash64(table["address"]).tolist()
    return [address for table in rows for address in table["address"].to_pylist()], summary


def layouts(world: World) -> set[str]:
    made = set()
    for _ in range(5):
        name = new_descending_xid(world.lake.clock())
        world.age(hours=1)
        for number in range(7):
            made.add(world.orphan(f"data/{name}/{number:03d}"))
    for shard in ("!ab/c", "!ab/d", "!zz/0"):
        for number in range(4):
            made.add(world.orphan(f"data/{shard}/{new_descending_xid(world.lake.clock())}/{number}"))
    made.update(world.orphan(f"data/{name}") for name in ("plain", "plain,2", "a b"))
    made.add(world.orphan("data/deep/er/and/deeper"))
    return made


@pytest.mark.parametrize("rows_max", [1, 2, 5, 200_000])
@pytest.mark.parametrize("part_rows", [1, 10, 250_000])
def test_every_layout_is_listed_exactly_once(rows_max: int, part_rows: int) -> None:
    world = make_world()
    made = layouts(world)
    world.age(days=2)
    addresses, summary = listed(world, tuning={"listing_rows_max": rows_max, "part_rows": part_rows})
    assert sorted(addresses) == sorted(made)
    assert summary.counts["old_objects"] == len(made)


def test_young_slices_are_not_listed_and_young_objects_are_only_counted() -> None:
    world = make_world()
    old = world.orphan(f"data/{new_descending_xid(world.lake.clock())}/old")
    world.age(days=2)
    fresh = new_descending_xid(world.lake.clock())
    world.orphan(f"data/{fresh}/young")
    world.orphan("data/elsewhere/young")
    world.age(hours=1)
    addresses, summary = listed(world)
    assert addresses == [old]
    assert summary.counts["young_slices"] == 1
    assert summary.counts["young_objects"] == 1
    assert summary.details["first_slice"] == "elsewhere"
    assert summary.details["rounds"] == 1


@pytest.mark.parametrize("rounds_max", [1, 2, 5])
def test_the_last_round_lists_all_that_is_left(rounds_max: int, stand_in: Any) -> None:
    stand_in(memory.rows_of_a_page, lambda _: 1)
    world = make_world()
    made = {world.orphan(f"data/flat/{number:03d}") for number in range(40)}
    world.age(days=2)
    addresses, summary = listed(
        world, tuning={"listing_rows_max": 1, "listing_rounds_max": rounds_max}, mode="clean"
    )
    assert sorted(addresses) == sorted(made)
    assert summary.details["rounds"] == rounds_max + 1


def test_what_is_left_alone_is_told_and_only_clean_runs_look_for_it() -> None:
    world = make_world(mode="auto")
    for key in ("root-1", "root-2", "exports/x"):
        world.orphan(key)
    world.orphan("data/plain")
    world.age(days=2)
    context = world.plan()
    summary = slice_listing(context, Parallel())
    assert context.plan.mode == "clean"
    assert [summary.counts[name] for name in ("root_objects", "elsewhere_objects", "old_objects")] == [
        2,
        1,
        1,
    ]
    assert any("2 objects" in text for text in summary.warnings)
    world.run(context)
    world.age(days=2)
    later = world.plan()
    assert later.plan.mode == "optimized"
    summary = slice_listing(later, Parallel())
    assert [summary.counts[name] for name in ("root_objects", "elsewhere_objects")] == [0, 0]
    assert summary.warnings == ()


def test_without_objects_directly_below_data_nothing_is_listed_there(stand_in: Any) -> None:
    world = make_world()
    world.orphan("data/slice/a")
    world.age(days=2)
    asked = []

    def level(honest: Any, reader: object, prefix: str = "") -> object:
        asked.append(prefix)
        return honest(reader, prefix)

    context = world.plan()
    stand_in(memory.MemoryReader.list_level, level)
    slice_listing(context, Parallel())
    assert asked == ["data/"], "to see what there is"
