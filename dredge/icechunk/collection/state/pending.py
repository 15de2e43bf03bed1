"""What a run is about to delete, noted before it deletes, so that the next one finds what it left.

    pending/<fencing>-<run id>.json    the run's folder, and its files of candidates among the chunks

A run that stops may have deleted the manifests that named its chunks, and not the chunks. The note is of use until a
run is complete that took the lease later.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.runs.folder import read_json
from dredge.runs.payload import from_json, to_json
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectReader, ObjectWriter

log = logging.getLogger("dredge")

PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Pending:
    """A run that may have stopped while it deleted.

    Attributes:
        run_id: of the run.
        run_uri: its folder.
        chunks: files of candidates.
    """

    run_id: str
    run_uri: str
    chunks: list[PartInfo]


def note_pending(
    state: ObjectWriter, run_id: str, run_uri: str, fencing: int, chunks: Sequence[PartInfo]
) -> None:
    """Note what a run is about to delete.

    Args:
        state: on the folder of lease and index.
        run_id: of the run.
        run_uri: its folder.
        fencing: number of its lease.
        chunks: its files of candidates.
    """
    value = {"run_uri": run_uri, "chunks": [to_json(part) for part in chunks]}
    state.put(f"{PENDING}/{fencing:012d}-{run_id}.json", json.dumps(value, sort_keys=True).encode())


def noted_fencing(key: str) -> int:
    """Number of the lease of the run that a note is of; larger than any other when its name tells none.

    Args:
        key: of the note.
    """
    number = key.removeprefix(f"{PENDING}/").partition("-")[0]
    return int(number) if number.isdecimal() else sys.maxsize


def read_pending(state: ObjectReader, since: int, own: str) -> list[Pending]:
    """Read what runs after a complete one were to delete.

    Args:
        state: on the folder of lease and index.
        since: number of the complete run's lease.
        own: id of the run that asks.
    """
    found = []
    for info in state.list_level(f"{PENDING}/").objects:
        run_id = info.key.removesuffix(".json").partition("-")[2]
        if run_id == own or not since < noted_fencing(info.key) < sys.maxsize:
            continue
        try:
            value = read_json(state, info.key)
            parts = [from_json(PartInfo, part) for part in value["chunks"]]
            found.append(Pending(run_id, value["run_uri"], parts))
        except (FormatError, KeyError, TypeError, ValueError) as error:
            log.warning("%s/%s is left out: %s", state.uri, info.key, error)
    return found
