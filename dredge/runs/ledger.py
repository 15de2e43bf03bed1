"""The ledger: the outcome of each object in a sweep.

    bulk_delete/_raw/<part>/<attempt>-<round>-<n>-<nonce>.parquet   written after each request, never changed
    bulk_delete/<part>.parquet                                      a row for each object, settled at the end

A killed sweep continues from the raw files. Their names never repeat, so two runs of a task overwrite no file; settling
takes the best outcome of each object.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.runs.folder import RunFolder
from dredge.runs.parts import get_part_cache, grouped_bytes, parquet_bytes, read_parquet
from dredge.runs.payload import PartInfo
from dredge.storage import NOT_SENT, DeleteOutcome

# Folder of the deleting step of every collector.
STEP = "bulk_delete"
SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("code", pa.string()),
        pa.field("message", pa.string()),
        pa.field("version_id", pa.string()),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("fencing", pa.int64(), nullable=False),
    ]
)

DELETED, MISSING, KEPT, NOT_ADDRESSABLE, FAILED = "deleted", "missing", "kept", "not_addressable", "failed"
# Best first: the outcome of another attempt replaces a worse one.
OUTCOMES = (DELETED, MISSING, KEPT, NOT_ADDRESSABLE, FAILED)
# A later attempt does not try these again.
FINAL = (DELETED, MISSING, KEPT, NOT_ADDRESSABLE)


class Settled(Struct, frozen=True):
    """Outcomes of the candidates of a part."""

    part: PartInfo
    groups: list[dict[str, Any]]  # `objects` and `bytes` by the given columns
    failures: list[dict[str, Any]]  # address, code and message of some failed deletions


def part_stem(part: PartInfo) -> str:
    """Return the name of a part of candidates in the ledger."""
    return part.name.rpartition("/")[2].removesuffix(".parquet")


def write_raw(folder: RunFolder, part: str, attempt: int, turn: int, number: int, rows: pa.Table) -> None:
    """Write outcomes of objects of a part. `part`: name of the candidates' part. `turn`: round between two
    re-checks."""
    nonce = uuid.uuid4().hex[:8]
    name = f"{STEP}/_raw/{part}/{attempt:03d}-{turn:03d}-{number:05d}-{nonce}.parquet"
    data = parquet_bytes(rows)
    folder.writer.put(name, data)
    if (kept := get_part_cache(folder.uri)) is not None:
        kept.put(name, data)


def outcome_rows(group: pa.Table, outcomes: Sequence[DeleteOutcome], attempt: int, fencing: int) -> pa.Table:
    """Return rows for the outcomes of a deleter, without held-back requests. `group`: candidates with address, size and
    reason. `outcomes`: one per row."""
    sent = [item for item in outcomes if item.code != NOT_SENT]
    return rows_of(
        group.filter(pa.array([item.code != NOT_SENT for item in outcomes], pa.bool_())),
        [item.outcome for item in sent],
        attempt,
        fencing,
        code=[item.code for item in sent],
        message=[item.message for item in sent],
        version_id=[item.version_id for item in sent],
    )


def has_raw(folder: RunFolder) -> bool:
    """Whether a sweep of this run has written outcomes."""
    return any(batch.num_rows for batch in folder.writer.list(f"{STEP}/_raw/"))


def read_raw(folder: RunFolder, part: str) -> pa.Table:
    """Read all outcomes of the objects of a part, a row for each attempt."""
    return read_raw_with_time(folder, part)[0]


def read_raw_with_time(folder: RunFolder, part: str) -> tuple[pa.Table, datetime | None]:
    """Read all outcomes of a part, and the store's time of the last file; None without a file."""
    times: dict[str, datetime] = {}
    for batch in folder.writer.list(f"{STEP}/_raw/{part}/"):
        times |= dict(zip(batch["key"].to_pylist(), batch["last_modified"].to_pylist(), strict=True))
    kept = get_part_cache(folder.uri)
    found = {name: None if kept is None else kept.get(name) for name in sorted(times)}
    found.update(folder.writer.get_many([name for name, data in found.items() if data is None]))
    tables = [read_parquet(data) for data in found.values() if data is not None]
    return (pa.concat_tables(tables) if tables else SCHEMA.empty_table()), max(times.values(), default=None)


def best(rows: pa.Table) -> pa.Table:
    """Return a row for each object: the best outcome, the latest of equal ones."""
    if not rows.num_rows:
        return rows
    order = pc.index_in(rows["outcome"], pa.array(OUTCOMES))
    ranked = rows.append_column("rank", order).sort_by(
        [("address", "ascending"), ("rank", "ascending"), ("attempt", "descending")]
    )
    addresses = ranked["address"].combine_chunks()
    first = pa.concat_arrays([pa.array([True]), pc.not_equal(addresses[1:], addresses[:-1])])
    return ranked.filter(first).drop_columns(["rank"]).combine_chunks()


def finished(rows: pa.Table) -> pa.Array:
    """Return the addresses with a final outcome."""
    final = rows.filter(pc.is_in(rows["outcome"], pa.array(FINAL)))
    return final["address"].combine_chunks()


def settle_rows(
    folder: RunFolder, part: PartInfo, rows: pa.Table, by: Sequence[str], failures_max: int
) -> Settled:
    """Write the ledger of a part, and count. `rows`: one for each object, from `best`. `by`: columns to count by.
    `failures_max`: largest number of failures in the result."""
    groups = [
        {
            **{column: group[column] for column in by},
            "objects": group["size_count"],
            "bytes": group["size_sum"],
        }
        for group in rows.group_by(list(by)).aggregate([("size", "count"), ("size", "sum")]).to_pylist()
    ]
    failed = rows.filter(pc.equal(rows["outcome"], FAILED)).slice(0, failures_max)
    failures = failed.select(["address", "code", "message"]).to_pylist()
    settled = folder.write_bytes(f"{STEP}/{part_stem(part)}.parquet", grouped_bytes(rows), rows.num_rows)
    return Settled(settled, groups, failures)


def rows_of(
    candidates: pa.Table, outcome: Sequence[str], attempt: int, fencing: int, **columns: Sequence[str | None]
) -> pa.Table:
    """Return rows of the ledger. `candidates`: with address, size and reason. `outcome`: one per row. `columns`:
    `code`, `message`, `version_id`; None if missing."""
    count = candidates.num_rows
    nothing = [None] * count
    return pa.table(
        {
            "address": candidates["address"],
            "size": candidates["size"],
            "reason": candidates["reason"],
            "outcome": pa.array(outcome, pa.string()),
            "code": pa.array(columns.get("code", nothing), pa.string()),
            "message": pa.array(columns.get("message", nothing), pa.string()),
            "version_id": pa.array(columns.get("version_id", nothing), pa.string()),
            "attempt": pa.array([attempt] * count, pa.int32()),
            "fencing": pa.array([fencing] * count, pa.int64()),
        },
        schema=SCHEMA,
    )
