"""Chunks of an inventory: one is a candidate only where nothing live names it and the store still has it, old."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime

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
    ask_for_absent,
    name_inventory,
)
from dredge.icechunk.collection.list_candidates.named import NAMED
from dredge.inventory.manifest import InventoryFile, Layout
from dredge.storage import open_writer
from tests.support.icechunk_tasks import Task, named, raw

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
