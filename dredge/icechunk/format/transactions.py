"""A transaction log: what a commit changed. Collection needs only its name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dredge.icechunk.format.envelope import LIMITS, FileType, Limits, open_file
from dredge.icechunk.format.flatbuffer import Buffer, Table
from dredge.icechunk.format.snapshots import check_name
from dredge.icechunk.ids import ID_BYTES, NODE_ID_BYTES, encode_id


@dataclass(frozen=True, slots=True)
class Move:
    """A node that got another path."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class TransactionLog:
    """What a transaction log says; nodes by id.

    Args:
        id: the snapshot's id.
        updated_chunks: a node's changed chunk coordinates, an array of shape (chunks, dimensions).
    """

    id: str
    new_groups: tuple[str, ...]
    new_arrays: tuple[str, ...]
    deleted_groups: tuple[str, ...]
    deleted_arrays: tuple[str, ...]
    updated_arrays: tuple[str, ...]
    updated_groups: tuple[str, ...]
    updated_chunks: dict[str, npt.NDArray[np.uint32]]
    moves: tuple[Move, ...]


def parse_transaction_log(data: bytes, name: str, *, limits: Limits = LIMITS) -> TransactionLog:
    """Read a transaction log.

    Raises:
        FormatError: bytes that are no sound transaction log, or one under another one's name.
    """
    root = Buffer(open_file(data, name, FileType.TRANSACTION_LOG, limits).body, name).root()
    groups = [tuple(encode_id(raw) for raw in root.structs(slot, NODE_ID_BYTES)) for slot in range(1, 7)]
    found = TransactionLog(
        id=encode_id(root.required_inline(0, ID_BYTES, "id")),
        new_groups=groups[0],
        new_arrays=groups[1],
        deleted_groups=groups[2],
        deleted_arrays=groups[3],
        updated_arrays=groups[4],
        updated_groups=groups[5],
        updated_chunks={
            encode_id(table.required_inline(0, NODE_ID_BYTES, "node id")): _coordinates(table)
            for table in root.tables(7)
        },
        moves=tuple(Move(table.text(0) or "", table.text(1) or "") for table in root.tables(8)),
    )
    check_name(found.id, name)
    return found


def _coordinates(table: Table) -> npt.NDArray[np.uint32]:
    rows = [np.frombuffer(b"".join(chunk.structs(0, 4)), dtype="<u4") for chunk in table.tables(1)]
    if len({len(row) for row in rows}) > 1:
        raise table.buffer.fail("chunk coordinates of different dimensions", table.place)
    return np.array(rows, dtype=np.uint32).reshape(len(rows), -1 if rows else 0)
