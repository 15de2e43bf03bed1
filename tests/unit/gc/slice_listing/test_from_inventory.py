"""Runs on an inventory: what a listing would find, and nothing that has been written or deleted since."""

import io
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.slice_listing import SliceListingOutput, step
from dredge.gc.slice_listing.slices import ListConfig, Listed
from dredge.gc.steps import slice_listing
from dredge.gc.subtract import SubtractOutput
from dredge.storage.listing_schema import LISTING_SCHEMA
from dredge.xid import new_descending_xid
from tests.support.gc import World, busy_world, make_world, summary_of
from tests.support.inventories import Inventory, rows_of, table_of

ORPHAN = "data/orphan"


def planted() -> World:
    world = make_world()
    world.upload("live", b"live")
    world.orphan(ORPHAN)
    world.age(days=3)
    return world


def deleted(world: World, **settings: object) -> set[str]:
    before = world.data()
    assert world.collect(**settings).details["outcome"] in ("success", "dry_run")
    world.assert_readable()
    return before - world.data()


@pytest.mark.parametrize("kind", ["csv", "orc", "parquet"])
def test_a_run_on_an_inventory_deletes_what_a_run_with_a_listing_deletes(kind: str) -> None:
    listed, _, garbage = busy_world()
    listed.age(hours=1)
    assert deleted(listed) == garbage
    world, live, garbage = busy_world()
    uri = Inventory(world, kind).write()
    world.age(hours=1)
    assert deleted(world, inventory=uri) == garbage
    assert live <= world.data()


def test_what_is_younger_than_the_inventory_waits_for_the_next_one() -> None:
    world = planted()
    uri = Inventory(world).write()
    late = world.orphan("data/late")
    world.age(days=3)
    assert deleted(world, inventory=uri) == {ORPHAN}
    assert late in world.data()
    newer = Inventory(world, place="2026-01-08T01-00Z").write()
    world.age(hours=1)
    assert deleted(world, inventory=newer) == {late}


def test_the_cutoff_is_never_after_the_inventory() -> None:
    world = planted()
    inventory = Inventory(world)
    world.age(days=5)
    context = world.plan(inventory=inventory.write())
    assert context.plan.cutoff == inventory.created
    assert context.plan.covers_until < inventory.created - timedelta(days=8)  # type: ignore[operator]


def test_an_object_written_anew_since_the_inventory_is_young_and_stays() -> None:
    world = planted()
    uri = Inventory(world).write()
    world.age(days=2)
    world.orphan(ORPHAN, b"written anew, and perhaps about to be staged")
    world.age(hours=1)
    assert deleted(world, inventory=uri) == set()
    assert world.lake.objects.get(ORPHAN).startswith(b"written anew")


def test_an_object_written_anew_long_ago_but_after_the_inventory_stays_as_well() -> None:
    world = planted()
    uri = Inventory(world).write()
    world.age(hours=1)
    world.orphan(ORPHAN, b"written anew")
    world.age(days=4)
    assert deleted(world, inventory=uri) == set()


def test_an_object_that_went_since_the_inventory_is_forgotten() -> None:
    world = planted()
    rows = rows_of(world)
    ghost = dict(rows[0], key=f"{rows[0]['key'].partition('/')[0]}/data/ghost")
    uri = Inventory(world, rows=[*rows, ghost]).write()
    world.age(hours=1)
    context = world.collected(inventory=uri)
    counts = summary_of(context, "subtract").counts
    assert (counts["gone_objects"], counts["candidates_objects"]) == (1, 1)
    swept = summary_of(context, "bulk_delete").counts
    assert (swept["deleted_objects"], swept["missing_objects"]) == (1, 0)


def test_an_object_that_came_alive_since_the_inventory_stays() -> None:
    world = planted()
    uri = Inventory(world).write()
    world.age(hours=1)
    with world.during("branches", lambda: world.lake.commit()):  # of what was staged, while the run works
        assert deleted(world, inventory=uri) == {ORPHAN}


def test_an_object_that_is_in_the_inventory_twice_is_deleted_once() -> None:
    world = planted()
    rows = rows_of(world)
    uri = Inventory(world, rows=[*rows, *(row for row in rows if row["key"].endswith("orphan"))]).write()
    world.age(hours=1)
    context = world.collected(inventory=uri)
    assert summary_of(context, "bulk_delete").counts["deleted_objects"] == 1


def test_sizes_and_etags_of_candidates_are_the_stores_and_not_the_inventorys() -> None:
    world = planted()
    rows = [row | {"size": 999, "etag": None} for row in rows_of(world)]
    uri = Inventory(world, rows=rows).write()
    world.age(hours=1)
    context = world.plan(inventory=uri)
    slice_listing(context, world.runner)
    world.mark(context)
    summary = summary_of(context, "subtract")
    (part,) = SubtractOutput.of(summary).candidates
    (row,) = context.folder.read_part(part).to_pylist()
    assert (row["address"], row["size"]) == (ORPHAN, len(b"orphan"))
    assert row["etag"] is not None


def test_slices_of_an_inventory_count_as_covered_by_its_own_time() -> None:
    world = make_world()
    early = new_descending_xid(world.lake.clock())
    world.orphan(f"data/{early}/a")
    world.age(days=20)
    uri = Inventory(world).write()
    between = new_descending_xid(world.lake.clock())
    world.orphan(f"data/{between}/b")
    world.age(days=12)
    assert deleted(world, inventory=uri) == {f"data/{early}/a"}
    # A listing of today would have covered that slice; the inventory did not see it, so the next run looks there.
    assert deleted(world, mode="optimized") == {f"data/{between}/b"}


def test_tables_without_a_time_cover_nothing() -> None:
    world = planted()
    inventory = Inventory(world)
    sink = io.BytesIO()
    pq.write_table(table_of(inventory.rows).select(["key", "size", "last_modified_date"]), sink)
    inventory.writer.put("tables/one.parquet", sink.getvalue())
    world.age(hours=1)
    assert deleted(world, inventory=f"{inventory.folder}/tables/one.parquet") == {ORPHAN}
    slice_folder = world.orphan(f"data/{new_descending_xid(world.lake.clock() - timedelta(days=60))}/x")
    world.age(days=2)
    assert deleted(world, mode="optimized") == {slice_folder}


def test_an_inventory_without_an_old_slice_is_refused() -> None:
    world = make_world()
    seen, unseen = (new_descending_xid(world.lake.clock() + timedelta(hours=n)) for n in (0, 2))
    for name in (seen, unseen):
        world.orphan(f"data/{name}/a")
    world.age(days=20)
    rows = [row for row in rows_of(world) if unseen not in row["key"]]
    uri = Inventory(world, rows=rows).write()
    with pytest.raises(RefusedError, match=f"data/{unseen}/"):
        world.collect(inventory=uri)
    assert len(world.data()) == 2


@pytest.mark.parametrize("damage", [b"", b"x"])
def test_a_file_that_is_not_what_the_manifest_says_stops_the_run(damage: bytes) -> None:
    world = planted()
    inventory = Inventory(world)
    uri = inventory.write()
    data = bytearray(inventory.writer.get("data/0.csv.gz"))
    data[-1] ^= len(damage)
    inventory.writer.put("data/0.csv.gz", bytes(data) if damage else b"")
    before = world.data()
    with pytest.raises(FormatError, match="manifest"):
        world.collect(inventory=uri)
    assert world.data() == before


def test_an_inventory_that_was_replaced_since_the_plan_stops_the_run() -> None:
    world = planted()
    context = world.plan(inventory=Inventory(world).write())
    Inventory(world, rows=rows_of(world)[:-1]).write()
    with pytest.raises(RefusedError):
        slice_listing(context, world.runner)


def test_an_inventory_is_not_too_old_because_the_run_took_long() -> None:
    world = planted()
    uri = Inventory(world).write()
    world.age(days=13.9)
    context = world.plan(inventory=uri)
    world.age(hours=5)
    slice_listing(context, world.runner)
    assert SliceListingOutput.of(summary_of(context, "slice_listing")).from_inventory


CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
OLD, SECOND = CUTOFF - timedelta(days=1), timedelta(seconds=1)
EARLY, LATE = (f"data/{new_descending_xid(CUTOFF + at * SECOND)}/" for at in (-1, 0))
CONFIG = ListConfig(cutoff=CUTOFF, covers_until=CUTOFF, rows_max=10, part_rows=10, threads=1)


def batch(*rows: tuple[str, int | None, datetime | None]) -> pa.RecordBatch:
    fields = [field.with_nullable(True) for field in LISTING_SCHEMA]
    columns = [*zip(*rows, strict=True)] if rows else [(), (), ()]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip([*columns, [None] * len(rows)], fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def sorted_rows(
    total: Listed, slices: set[str], *rows: tuple[str, int | None, datetime | None]
) -> list[list[str]]:
    found = step._sorted(batch(*rows), CONFIG, total, slices)
    return [
        [key for table in tables for key in table["address"].to_pylist()]
        for tables in (found.old, found.young)
    ]


def test_only_objects_below_data_become_rows_and_the_rest_is_counted() -> None:
    total, slices = Listed(), set[str]()
    rows = [
        ("dummy", 1, OLD),
        ("root", 2, OLD),
        ("x/y", 4, OLD),
        ("_lakefs/a", 8, OLD),
        ("_lakefs0", 16, OLD),
    ]
    assert sorted_rows(total, slices, *rows) == [[], []]
    assert {name: count for name, count in total.counts.items() if count} == {
        "root_objects": 2,
        "root_bytes": 18,
        "elsewhere_objects": 1,
    }
    assert slices == set()
    kept = sorted_rows(
        total, slices, ("data/a", 1, OLD), ("data/s/b", 2, CUTOFF), ("data/t/u/c", 4, OLD), ("other", 1, OLD)
    )
    assert kept == [["data/a", "data/t/u/c"], ["data/s/b"]]
    assert slices == {"data/s/", "data/t/"}
    assert (total.counts["old_objects"], total.counts["young_objects"], total.counts["root_objects"]) == (
        2,
        1,
        3,
    )
    assert sorted_rows(total, slices, ("data/v/d", 1, OLD)) == [["data/v/d"], []]
    assert total.counts["old_objects"] == 3


@pytest.mark.parametrize(
    ("row", "message"), [(("data/odd", None, OLD), "no size"), (("data/odd", 1, None), "no time")]
)
def test_an_object_without_size_or_time_is_named(
    row: tuple[str, int | None, datetime | None], message: str
) -> None:
    with pytest.raises((FormatError, RefusedError), match=f"{message} for 'data/odd'"):
        sorted_rows(Listed(), set(), ("data/a", 1, OLD), row)
    assert sorted_rows(Listed(), set(), ("elsewhere/odd", None, None)) == [[], []], "nothing hangs on it"


def test_young_rows_are_kept_of_slices_that_were_opened_before_the_covered_time() -> None:
    keys = [f"{EARLY}a", f"{LATE}a", "data/plain/a", "data/a", f"{EARLY}b/c"]
    rows = step._of_covered_slices(pa.table({"address": keys}), CUTOFF)
    assert rows["address"].to_pylist() == [f"{EARLY}a", f"{EARLY}b/c"]


MARGIN_HOURS = 24.0


def check(seen: set[str], there: set[str], created: datetime | None) -> None:
    run = SimpleNamespace(
        plan=SimpleNamespace(
            namespace="memory://lake/", config=SimpleNamespace(slice_margin_hours=MARGIN_HOURS)
        )
    )
    contents = SimpleNamespace(source=SimpleNamespace(uri="memory://inventory", created_at=created))
    step._check_complete(cast("Any", run), cast("Any", contents), seen, there)


def test_an_inventory_lacks_nothing_that_was_opened_a_margin_before_it() -> None:
    created = CUTOFF + timedelta(hours=MARGIN_HOURS)
    check({"data/x/"}, {"data/x/", LATE}, created)
    check({"data/x/"}, {"data/x/", "data/plain/"}, created)
    check({EARLY}, {EARLY, LATE}, created)
    with pytest.raises(RefusedError, match=EARLY):
        check({"data/x/", LATE}, {"data/x/", EARLY, LATE}, created)
    check({"data/x/"}, {"data/x/", EARLY}, None)


@pytest.mark.parametrize("created", [None, CUTOFF])
def test_an_inventory_of_nothing_is_one_only_where_nothing_is(created: datetime | None) -> None:
    check(set(), set(), created)
    check({"data/x/"}, set(), created)
    with pytest.raises(RefusedError, match="memory://lake/data/"):
        check(set(), {"data/plain/"}, created)
