"""What a run deleted, as its candidates and its raw ledger tell, word for word."""

import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dredge.hashing import hash64
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.storage import open_writer
from dredge.undo.deleted import swept_rows
from tests.support.memory_store import forget_memory_store, memory_store

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ADDRESSES = ["data/a", "data/b", "data/c", "data/d", "data/e", "data/f"]


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    name = f"deleted-{uuid.uuid4().hex[:8]}"
    memory_store(name).clock = lambda: NOW
    yield RunFolder(open_writer(f"memory://{name}/run"), "run")
    forget_memory_store(name)


def candidates(folder: RunFolder, addresses: list[str]) -> PartInfo:
    count = len(addresses)
    columns = {
        "address": pa.array(addresses, pa.string()),
        "size": list(range(count)),
        "last_modified": pa.array([NOW] * count, pa.timestamp("us", tz="UTC")),
        "etag": pa.array([None] * count, pa.string()),
        "hash": pa.array(hash64(pa.array(addresses, pa.string()))),
        "reason": ["expired"] * count,
    }
    return folder.write_table("subtract", 0, pa.table(columns), "candidates")


def tell(folder: RunFolder, part: PartInfo, outcomes: Mapping[str, str], attempt: int = 1) -> None:
    count = len(outcomes)
    rows = pa.table({"address": list(outcomes), "size": [0] * count, "reason": ["expired"] * count})
    versions = [f"{address}-{attempt}" for address in outcomes]
    told = ledger.rows_of(rows, [*outcomes.values()], attempt, 1, version_id=versions)
    ledger.write_raw(folder, ledger.part_stem(part), attempt, 0, 0, told)


def test_only_what_is_known_to_have_stayed_is_left_out(folder: RunFolder) -> None:
    """What has no row may have been deleted right before a kill, and what failed may have gone all the same."""
    part = candidates(folder, ADDRESSES)
    told = dict(zip(ADDRESSES, ledger.OUTCOMES, strict=False))
    tell(folder, part, told)
    rows = swept_rows(folder, part, ["data/"])
    found = {row["address"]: row for row in rows.to_pylist()}
    assert {address: row["outcome"] for address, row in found.items()} == {
        "data/a": ledger.DELETED,
        "data/b": ledger.MISSING,
        "data/e": ledger.FAILED,
        "data/f": None,
    }
    assert [found[address]["version_id"] for address in ("data/a", "data/f")] == ["data/a-1", None]
    assert {row["done_by"] for row in found.values()} == {NOW}
