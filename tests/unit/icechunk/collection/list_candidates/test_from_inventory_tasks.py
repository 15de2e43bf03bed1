"""Chunks of an inventory: one is a candidate only where nothing live names it and the store still has it, old."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.list_candidates.from_inventory import (
    AbsentConfig,
    AbsentResult,
    AbsentTask,
    InventoryConfig,
    InventoryResult,
    InventoryTask,
    SelectConfig,
    SelectResult,
    SelectTask,
    ask_for_absent,
    name_inventory,
    select_unnamed,
)
from dredge.icechunk.collection.list_candidates.named import NAMED, write_by_shard
from dredge.inventory.manifest import InventoryFile, Layout
from dredge.runs.summary import PartInfo
from dredge.storage import open_writer
from tests.support.icechunk_tasks import CUTOFF, OLD, Task, named, raw

EARLIER = OLD - timedelta(days=1)

type Row = tuple[str, int | None, datetime | None]


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def inventory(task: Task, *files: Sequence[Row]) -> list[InventoryFile]:
    place, found = open_writer(task.uri.replace("/repo", "/inventory")), []
    for number, rows in enumerate(files):
        names, sizes, times = zip(*rows, strict=True)
        table = pa.table(
            {
                "key": [f"repo/{name}" for name in names],
                "size": pa.array(sizes, pa.int64()),
                "last_modified": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )
        pq.write_table(table, sink := io.BytesIO())
        place.put(f"{number}.parquet", sink.getvalue())
        found.append(InventoryFile(uri=f"{place.uri}/{number}.parquet", size=len(sink.getvalue()), md5=""))
    return found


def name(task: Task, *files: Sequence[Row], bits: int = 0) -> InventoryResult:
    config = InventoryConfig(layout=Layout(kind="parquet", bucket="", prefix="repo/"), bits=bits)
    given = InventoryTask(name="inventory-00000", files=inventory(task, *files))
    return name_inventory.body(task.run, config, given)


def rows(*found: tuple[int, int, int, datetime]) -> pa.Table:
    return pa.table([list(column) for column in zip(*found, strict=True)], schema=NAMED)


def select(task: Task, *tables: pa.Table, live: Sequence[PartInfo], **changes: Any) -> SelectResult:
    parts = [
        part
        for number, table in enumerate(tables)
        for part in write_by_shard(task.folder, 0, f"x-{number}", table).values()
    ]
    given: dict[str, Any] = {
        "cutoff": CUTOFF,
        "candidate_rows": 100,
        "threads": 2,
        "pinned": (),
        "keep_all": False,
    }
    return select_unnamed.body(
        task.run, SelectConfig(**(given | changes)), SelectTask(shard=3, rows=parts, live=list(live))
    )


def some_chunks(task: Task) -> tuple[pa.Table, pa.Table]:
    """1 is live; 2, 3 and 4 are nobody's; 5 is young by the inventory, 6 by the store, 7 is gone."""
    for number in range(1, 7):
        task.put(f"chunks/{named(number)}", b"x" * 10**number, CUTOFF if number == 6 else OLD)
    first = rows(*((number, 0, 9, EARLIER) for number in (1, 2, 3)))
    second = rows(
        (3, 0, 9, OLD),
        (4, 0, 9, OLD),
        (5, 0, 9, CUTOFF),
        (6, 0, 9, OLD),
        (7, 0, 9, OLD),
    )
    return first, second


def test_only_chunks_that_are_unnamed_old_and_still_there_are_candidates(task: Task) -> None:
    live = [task.ids("mark/a.ids", [1, 10]), task.ids("mark/b.ids", [1, 8])]
    found = select(task, *some_chunks(task), live=live, pinned=(task.pin(f"chunks/{named(4)}"),))
    assert task.addresses(found.parts) == [f"chunks/{named(2)}", f"chunks/{named(3)}"]
    assert found.counts == {
        "asked": 5,
        "candidates_objects": 2,
        "candidates_bytes": 1100,
        "pinned_objects": 1,
        "pinned_bytes": 10_000,
        "spared_objects": 0,
        "spared_bytes": 0,
        "young_objects": 1,
        "young_bytes": 9,
    }
    assert task.folder.read_bytes(found.absent) == b"".join(n.to_bytes(8, "little") for n in (8, 10))


def ask(task: Task, said: dict[str, list[bytes]], absent: Sequence[int], live: Sequence[int]) -> AbsentResult:
    half = len(absent) // 2
    parts = [task.ids("a/0.ids", absent[:half]), task.ids("a/1.ids", absent[half:])]
    config = AbsentConfig(absent=parts, threads=2)
    given = AbsentTask(index_part=task.indexed("part", said), live=task.ids("mark/manifests.ids", live))
    return ask_for_absent.body(task.run, config, given)


def test_live_manifest_that_is_gone_or_names_less_than_was_counted_stops_the_run(task: Task) -> None:
    manifest = task.manifest(1, [raw(5), raw(5, 1), raw(6)])
    with pytest.raises(FormatError):
        ask(task, {manifest: [raw(5), raw(7)]}, absent=[5, 7], live=[1])
    assert ask(task, {manifest: [raw(5), raw(7)]}, absent=[5, 6], live=[1]).asked == 2
    with pytest.raises(FormatError, match=f"manifests/{named(2)}"):
        ask(task, {named(2): [raw(5)]}, absent=[5], live=[2])
