"""The ledger: what became of each object that was to be deleted.

    bulk_delete/_raw/<part>/<attempt>-<round>-<n>-<nonce>.parquet   written after each request, never changed
    bulk_delete/<part>.parquet                                      one row for each object, settled at the end

Raw files are what a killed sweep resumes from. Their names never repeat, so a task that runs twice at once
overwrites nothing; settling takes the best outcome of each object.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.runs.folder import RunFolder
from dredge.runs.parts import grouped_bytes, parquet_bytes, read_parquet
from dredge.runs.summary import PartInfo
from dredge.storage import NOT_SENT, DeleteOutcome

STEP = "bulk_delete"
"""Folder of the step that deletes, in every collection."""
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
OUTCOMES = (DELETED, MISSING, KEPT, NOT_ADDRESSABLE, FAILED)
"""Best first: what another attempt found counts only if it is better."""
FINAL = (DELETED, MISSING, KEPT, NOT_ADDRESSABLE)
"""Outcomes that a later attempt does not try again."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the candidates of a part.

    Attributes:
        part: the settled ledger of these candidates.
        groups: `objects` and `bytes` by the columns that were asked for.
        failures: address, code and message of some objects that could not be deleted.
    """

    part: PartInfo
    groups: list[dict[str, Any]]
    failures: list[dict[str, Any]]


def stem_of(part: PartInfo) -> str:
    """What a part of the candidates is called in the ledger."""
    return part.name.rpartition("/")[2].removesuffix(".parquet")


def write_raw(folder: RunFolder, part: str, attempt: int, turn: int, number: int, rows: pa.Table) -> None:
    """Write what became of some objects of a part.

    Args:
        folder: the run folder.
        part: name of the candidates' part.
        attempt: of the step.
        turn: round between two re-checks.
        number: of the request.
        rows: of `SCHEMA`.
    """
    nonce = uuid.uuid4().hex[:8]
    name = f"{STEP}/_raw/{part}/{attempt:03d}-{turn:03d}-{number:05d}-{nonce}.parquet"
    folder.writer.put(name, parquet_bytes(rows))


def outcome_rows(group: pa.Table, outcomes: Sequence[DeleteOutcome], attempt: int, fencing: int) -> pa.Table:
    """Make rows of what a deleter did; none for keys whose request was held back.

    Args:
        group: candidates with address, size and reason.
        outcomes: one for each row.
        attempt: of the step.
        fencing: of the lease.
    """
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


def read_raw(folder: RunFolder, part: str) -> pa.Table:
    """Read everything known of the objects of a part, one row for each attempt."""
    return read_raw_with_time(folder, part)[0]


def read_raw_with_time(folder: RunFolder, part: str) -> tuple[pa.Table, datetime | None]:
    """The same, and when the last of it was written, by the store's clock: all that it tells was done by then. None
    where nothing is known."""
    times: dict[str, datetime] = {}
    for batch in folder.writer.list(f"{STEP}/_raw/{part}/"):
        times |= dict(zip(batch["key"].to_pylist(), batch["last_modified"].to_pylist(), strict=True))
    tables = [read_parquet(data) for _, data in folder.writer.get_many(sorted(times))]
    return (pa.concat_tables(tables) if tables else SCHEMA.empty_table()), max(times.values(), default=None)


def best(rows: pa.Table) -> pa.Table:
    """Give one row for each object: the best outcome, the latest where they are equal."""
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
    """Addresses that need no further attempt."""
    final = rows.filter(pc.is_in(rows["outcome"], pa.array(FINAL)))
    return final["address"].combine_chunks()


def write_settled(folder: RunFolder, part: str, rows: pa.Table) -> PartInfo:
    """Write the settled rows of a part, one for each object."""
    return folder.write_bytes(f"{STEP}/{part}.parquet", grouped_bytes(rows), rows.num_rows)


def settle_rows(
    folder: RunFolder, part: PartInfo, rows: pa.Table, by: Sequence[str], failures_max: int
) -> Settled:
    """Write the ledger of a part, and count.

    Args:
        folder: the run folder.
        part: of the candidates.
        rows: one for each object, as `best` gives them.
        by: columns to count by.
        failures_max: how many failures to give at most.
    """
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
    return Settled(write_settled(folder, stem_of(part), rows), groups, failures)


def rows_of(
    candidates: pa.Table, outcome: Sequence[str], attempt: int, fencing: int, **columns: Sequence[str | None]
) -> pa.Table:
    """Make rows of the ledger.

    Args:
        candidates: with address, size and reason.
        outcome: one for each row.
        attempt: of the step.
        fencing: of the lease.
        columns: `code`, `message`, `version_id`; None where not given.
    """
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
