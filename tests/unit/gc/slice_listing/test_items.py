"""Rows of a listing: what is old, what is young and told of, and how a long listing is stopped, written and counted."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.errors import RefusedError
from dredge.gc.slice_listing.slices import (
    Item,
    ListConfig,
    Listed,
    ListResult,
    ListTask,
    check_times,
    list_items,
    sort_by_age,
)
from dredge.gc.steps import slice_listing
from dredge.hashing import hash64
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import Stores, WorkerRun
from dredge.storage import open_writer
from dredge.storage.listing_schema import LISTING_SCHEMA, LISTING_SCHEMA_WITH_CLASS
from dredge.xid import new_descending_xid
from tests.support import memory_store as memory
from tests.support.gc import Parallel, World, make_world
from tests.support.memory_store import forget_memory_store, memory_store

CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
OLD = CUTOFF - timedelta(microseconds=1)
CONFIG = ListConfig(cutoff=CUTOFF, covers_until=CUTOFF, rows_max=1000, part_rows=1000, threads=2)


def batch(*rows: tuple[str, int, datetime | None], with_class: str | None = None) -> pa.RecordBatch:
    keys, sizes, times = zip(*rows, strict=True) if rows else ((), (), ())
    fields = [
        field.with_nullable(True) for field in (LISTING_SCHEMA_WITH_CLASS if with_class else LISTING_SCHEMA)
    ]
    columns = [keys, sizes, times, ["tag"] * len(keys), *([[with_class] * len(keys)] if with_class else [])]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def addresses(tables: list[pa.Table]) -> list[list[str]]:
    return [table["address"].to_pylist() for table in tables]


MIXED = (
    ("data/a", 1, OLD),
    ("data/b", 2, CUTOFF),
    ("data/c", 4, OLD),
    ("data/d", 8, CUTOFF + timedelta(days=1)),
)


@pytest.mark.parametrize("covered", [True, False])
def test_only_what_is_older_than_the_cutoff_is_old_and_young_rows_are_kept_of_slices_not_listed_again(
    covered: bool,
) -> None:
    listed = Listed()
    sort_by_age(batch(*MIXED), CUTOFF, listed, covered)
    assert addresses(listed.old) == [["data/a", "data/c"]]
    assert addresses(listed.young) == ([["data/b", "data/d"]] if covered else [])
    assert dict(listed.counts) == {"old_objects": 2, "old_bytes": 5, "young_objects": 2, "young_bytes": 10}
    sort_by_age(batch(MIXED[0]), CUTOFF, listed, covered)
    sort_by_age(batch(MIXED[1]), CUTOFF, listed, covered)
    assert addresses(listed.old) == [["data/a", "data/c"], ["data/a"]], "no tables without rows"
    assert addresses(listed.young) == ([["data/b", "data/d"], ["data/b"]] if covered else [])
    assert dict(listed.counts) == {"old_objects": 3, "old_bytes": 6, "young_objects": 3, "young_bytes": 12}


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("time", [None, EPOCH, EPOCH - timedelta(days=1)])
def test_one_object_without_a_time_stops_the_listing(time: datetime | None) -> None:
    with pytest.raises(RefusedError, match="'data/odd'"):
        check_times(batch(MIXED[0], ("data/odd", 1, time), MIXED[1]))
    check_times(batch(*MIXED, ("data/early", 1, EPOCH + timedelta(microseconds=1))))


@pytest.fixture
def run() -> Iterator[WorkerRun]:
    name = f"items-{uuid.uuid4().hex[:8]}"
    memory_store(name).clock = lambda: OLD
    root = f"memory://{name}"
    stores = Stores(
        run_uri=f"{root}/run",
        run_id="run",
        attempt=None,
        store_uri=f"{root}/lake",
        state_uri=f"{root}/state",
        progress="progress",
    )
    yield WorkerRun.open(stores, "t")
    forget_memory_store(name)


def put(run: WorkerRun, *keys: str, at: datetime = OLD) -> None:
    memory_store(run.stores.store_uri.split("/")[2]).clock = lambda: at
    for key in keys:
        open_writer(run.stores.store_uri).put(key, b"x")


def listed(run: WorkerRun, found: list[Item], **changes: Any) -> ListResult:
    return list_items.body(run, replace(CONFIG, **changes), ListTask(name="t", items=found))


def rows(run: WorkerRun, result: ListResult) -> list[tuple[str, list[str]]]:
    return [
        (part.name.rpartition("/")[2].partition("-")[0], run.folder.read_part(part)["address"].to_pylist())
        for part in result.parts
    ]


def test_young_rows_are_kept_of_slices_that_were_opened_before_the_covered_time(run: WorkerRun) -> None:
    early, late = (new_descending_xid(CUTOFF + timedelta(seconds=at)) for at in (-1, 0))
    for name in (early, late, "plain"):
        put(run, f"data/{name}/young", at=CUTOFF)
    result = listed(run, [Item(f"data/{name}/") for name in (early, late, "plain")])
    assert rows(run, result) == [("young", [f"data/{early}/young"])]
    assert result.counts["young_objects"] == 3


def test_a_folder_is_cut_when_it_is_as_long_as_may_be(run: WorkerRun, stand_in: Any) -> None:
    stand_in(memory.rows_of_a_page, lambda _: 2)
    keys = [f"data/x/{number}" for number in range(6)]
    put(run, *keys)
    whole = Item("data/x/")
    for rows_max, seen in ((1, 2), (2, 2), (3, 4), (4, 4), (5, 6), (7, 6)):
        result = listed(run, [whole], rows_max=rows_max)
        assert rows(run, result) == [("part", keys[:seen])], rows_max
        assert bool(result.rest) == (rows_max < 7)
        if result.rest:
            assert result.rest[0].start_after == keys[seen - 1]
            later = listed(run, result.rest)
            assert [key for _, found in rows(run, later) for key in found] == keys[seen:]
    assert rows(run, listed(run, [replace(whole, capped=False)], rows_max=1)) == [("part", keys)]


def listing(world: World, **settings: object) -> tuple[list[str], StepSummary]:
    context = world.plan(**settings)
    summary = slice_listing(context, Parallel())
    rows = [context.folder.read_part(part) for part in summary.parts]
    for table in rows:
        assert table["hash"].to_pylist() == hash64(table["address"]).tolist()
    return [address for table in rows for address in table["address"].to_pylist()], summary


def test_young_slices_are_not_listed_and_young_objects_are_only_counted() -> None:
    world = make_world()
    old = world.orphan(f"data/{new_descending_xid(world.lake.clock())}/old")
    world.age(days=2)
    fresh = new_descending_xid(world.lake.clock())
    world.orphan(f"data/{fresh}/young")
    world.orphan("data/elsewhere/young")
    world.age(hours=1)
    addresses, summary = listing(world)
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
    addresses, summary = listing(
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
