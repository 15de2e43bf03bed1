"""The pending list of an Icechunk repository in a local folder: read, and made older."""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from dredge.icechunk.maintenance import open_state
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json, to_json
from dredge.runs.pending.rows import PENDING, WAITING
from dredge.runs.pending.store import NEWEST, POINTER, PendingList, write_part


def pointer(folder: Path) -> PendingList:
    return from_json(PendingList, json.loads((folder / "_dredge" / POINTER).read_text()))


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    state = RunFolder(open_state(f"file://{folder}"), "the pending list")
    tables = [state.read_part(part) for part in pointer(folder).parts.values()]
    found = pa.concat_tables([PENDING.empty_table(), *tables]).to_pylist()
    assert len({row["address"] for row in found}) == len(found)
    return {row["address"]: row for row in found}


def waiting(folder: Path) -> set[str]:
    return {address for address, row in rows(folder).items() if row["status"] == WAITING}


def let_wait(folder: Path, hours: float) -> None:
    state, found, ago = open_state(f"file://{folder}"), pointer(folder), timedelta(hours=hours)
    parts = {}
    for shard, part in found.parts.items():
        table = RunFolder(state, "the pending list").read_part(part)
        since = pc.subtract(table["since"], pa.scalar(ago, pa.duration("us")))
        place = table.schema.get_field_index("since")
        parts[shard] = write_part(
            state, f"aged-{hours}-{found.run_id}", shard, table.set_column(place, "since", since)
        )
    aged = replace(found, parts=parts, marked_at=found.marked_at - ago, left_at=found.left_at - ago)
    path = folder / "_dredge" / POINTER
    path.write_text(json.dumps(to_json(aged)))
    (folder / "_dredge" / NEWEST).unlink(missing_ok=True)
    os.utime(path, (aged.left_at.timestamp(), aged.left_at.timestamp()))
