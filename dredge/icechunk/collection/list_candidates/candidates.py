"""The files with candidates: one row for each, at most so many rows in a file; and what of them is pinned."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dredge.hashing import hash64
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS, OVERWRITTEN
from dredge.icechunk.collection.list_candidates.output import FOUND, ListCandidatesOutput
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import LISTING_SCHEMA

UNREACHABLE = "unreachable"
REASONS = dict.fromkeys(OBJECT_FOLDERS, UNREACHABLE) | {OVERWRITTEN: "overwritten"}
"""Why objects of a kind go."""
SCHEMA = pa.schema(
    [
        LISTING_SCHEMA.field("key").with_name("address"),
        *list(LISTING_SCHEMA)[1:],
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""Columns of the candidates; `address` is the key relative to the repository, `hash` that of it, by which it can be
pinned. The tag of a chunk that nobody listed is null."""


def without_pinned(listed: pa.Table, pinned: Sequence[LocatedSet]) -> tuple[pa.Table, pa.Table]:
    """Part what was brought back, and is kept for now, from what may go.

    Args:
        listed: schema `LISTING_SCHEMA`.
        pinned: hashes of what is kept.

    Returns:
        What may go, and what is kept.
    """
    if not pinned or not listed.num_rows:
        return listed, listed.slice(0, 0)
    (held,) = in_any(pinned, [hash64(listed["key"])], its_shards_only=True)
    return listed.filter(pa.array(~held)), listed.filter(pa.array(held))


def write_candidates(
    folder: RunFolder, kind: str, number: int, listed: Sequence[pa.Table], rows: int
) -> list[PartInfo]:
    """Write what was found as parts.

    Args:
        folder: the run folder.
        kind: of the objects.
        number: of the task; kind and number make the names.
        listed: as it was listed; schema `LISTING_SCHEMA`.
        rows: most rows of a part.
    """
    if not listed:
        return []
    table = pa.concat_tables(listed).select(LISTING_SCHEMA.names)
    table = table.rename_columns(SCHEMA.names[: table.num_columns])
    whole = table.append_column("hash", pa.array(hash64(table["address"])))
    whole = (
        whole.append_column("reason", pa.repeat(REASONS[kind], table.num_rows)).cast(SCHEMA).combine_chunks()
    )
    return write_rows(folder, f"{FOUND}{kind}-{number:04d}", whole, rows)


def write_rows(folder: RunFolder, name: str, whole: pa.Table, rows: int) -> list[PartInfo]:
    """Write rows of candidates as parts.

    Args:
        folder: the run folder.
        name: begins the names of the files.
        whole: the rows (`SCHEMA`).
        rows: most of a part.
    """
    return [
        folder.write_table(ListCandidatesOutput.STEP, part, whole.slice(start, rows), name, grouped=True)
        for part, start in enumerate(range(0, whole.num_rows, rows))
    ]
