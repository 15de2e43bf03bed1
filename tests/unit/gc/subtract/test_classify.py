"""Each candidate gets a reason; a row that can be no candidate stops the run."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.gc.config import GCConfig
from dredge.gc.slice_listing import LISTED
from dredge.gc.subtract import SAME_SIZE, SubtractOutput
from dredge.gc.subtract.candidates import SubtractConfig, classify, write_candidates
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepSummary
from dredge.sets.hashes import read_hashes, unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from dredge.storage import open_writer
from dredge.undo.pins import PINNED
from tests.support.memory_store import memory_store


@pytest.fixture
def folder() -> RunFolder:
    memory_store("classify-test").objects.clear()
    return RunFolder(open_writer("memory://classify-test/run"), "run")


def listed(*addresses: str) -> pa.Table:
    names, count = pa.array(addresses, pa.string()), len(addresses)
    columns = [
        names,
        pa.array(range(1, count + 1), pa.int64()),
        pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * count, pa.timestamp("us", tz="UTC")),
        pa.nulls(count, pa.string()),
        pa.array(hash64(names)),
        pa.nulls(count, pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=LISTED)


def config(expired: ShardedSet | None = None) -> SubtractConfig:
    return SubtractConfig(
        settings=GCConfig(repository="lake"),
        live=LiveSet(()),
        head_sizes=(),
        expired=expired or ShardedSet(0, {}),
    )


def test_whatever_the_step_knows_holds_its_candidates(folder: RunFolder) -> None:
    names = ["data/a", "data/b", "data/c"]
    brought_back, *_ = hash64(pa.array(names)).tolist()

    def one(name: str, value: int) -> tuple[LocatedSet, ...]:
        part = write_hashes(folder, f"{name}.u64", np.array([value], np.uint64))
        return (LocatedSet(folder.uri, ShardedSet(0, {0: part})),)

    known = replace(
        config(),
        head_sizes=one("sizes", 2),
        pinned=one("pinned", brought_back),
    )
    held = [PINNED, SAME_SIZE, None]
    assert classify(folder, listed(*names), known)["hold"].to_pylist() == held
    written = write_candidates(folder, known, [listed(*names)], "a")
    assert {reason: figures.examples for reason, figures in written.by_reason.items()} == {
        "unreferenced": ("data/c",)
    }
    assert {code: (figures.objects, figures.size_bytes) for code, figures in written.by_hold.items()} == {
        PINNED: (1, 1),
        SAME_SIZE: (1, 2),
    }


def test_an_object_outside_data_is_no_candidate(folder: RunFolder) -> None:
    with pytest.raises(FormatError, match="'_lakefs/x' is not below data/"):
        classify(folder, listed("data/x", "_lakefs/x"), config())


def test_a_row_whose_hash_is_another_addresss_is_no_candidate(folder: RunFolder) -> None:
    """It was compared with the live set by that hash."""
    rows = listed("data/x", "data/y")
    wrong = rows.set_column(4, LISTED.field("hash"), rows["hash"].take(pa.array([1, 0])))
    with pytest.raises(FormatError, match="hashes"):
        classify(folder, wrong, config())


def test_files_with_held_rows_are_known_by_their_hashes(folder: RunFolder) -> None:
    free = write_candidates(folder, config(), [listed("data/x", "data/y")], "a")
    held = write_candidates(folder, config(), [listed("data/z")], "b", undescribed=True)
    both = free + held
    now = datetime(2026, 1, 1, tzinfo=UTC)
    output = SubtractOutput(StepSummary("subtract", "run", "success", now, now, parts=tuple(both.parts)))
    assert [part.name for part in output.with_holds] == ["subtract/part-b-00000.parquet"]
    deletable = unite([read_hashes(folder, part) for part in output.hashes])
    assert deletable.tolist() == unite([hash64(pa.array(["data/x", "data/y"]))]).tolist()
    assert (both.total.objects, both.total.size_bytes) == (3, 4)
    assert {code: figures.objects for code, figures in both.by_hold.items()} == {"unreadable": 1}
    assert both.by_reason["unreferenced"].examples == ("data/x", "data/y")


def in_classes(*classes: str | None) -> pa.Table:
    """Objects of a day in 2026, in these classes; sizes are 1, 2, …"""
    rows = listed(*(f"data/{number}" for number in range(len(classes))))
    return rows.set_column(5, "storage_class", pa.array(classes, pa.string()))


def test_what_is_archived_is_held_and_counted_and_nothing_else_for_its_class(folder: RunFolder) -> None:
    rows = in_classes(
        None, "AZURE_ARCHIVE", "AZURE_COOL", "AZURE_COLD", "GLACIER", "GCS_ARCHIVE", "AZURE_ARCHIVE"
    )
    assert classify(folder, rows, config())["hold"].to_pylist() == [
        None,
        "archived",
        None,
        None,
        None,
        None,
        "archived",
    ]
    found = write_candidates(folder, config(), [rows], "classes")
    assert {code: (item.objects, item.size_bytes) for code, item in found.by_hold.items()} == {
        "archived": (2, 9)
    }
