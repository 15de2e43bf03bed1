"""The files with candidates: one row for each, at most so many rows in a file."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dredge.icechunk.collection.list_candidates.output import ListCandidatesOutput
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.storage import LISTING_SCHEMA

SCHEMA = pa.schema([LISTING_SCHEMA.field("key").with_name("address"), *list(LISTING_SCHEMA)[1:]])
"""Columns of the candidates; `address` is the key relative to the repository."""


def write_candidates(
    folder: RunFolder, kind: str, number: int, listed: Sequence[pa.Table], rows: int
) -> list[PartInfo]:
    """Write candidates as parts.

    Args:
        folder: the run folder.
        kind: of the objects.
        number: of the task; kind and number make the names.
        listed: candidates as they were listed; schema `LISTING_SCHEMA`.
        rows: most rows of a part.
    """
    if not listed:
        return []
    table = pa.concat_tables(listed).select(LISTING_SCHEMA.names).rename_columns(SCHEMA.names)
    whole = table.combine_chunks()
    return [
        folder.write_table(ListCandidatesOutput.STEP, part, whole.slice(start, rows), f"{kind}-{number:04d}")
        for part, start in enumerate(range(0, whole.num_rows, rows))
    ]
