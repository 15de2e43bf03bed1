"""Manifests of any size without a repository: a flatbuffer written straight from arrays."""

import struct
from typing import Any

import numpy as np

from dredge.icechunk.format.envelope import MAGIC, close_file
from dredge.icechunk.ids import encode_id

HEADER = MAGIC + b"made for tests".ljust(24) + bytes([1, 2, 1])
_REF_BYTES = 32


def manifest_file(ids: Any, manifest_id: bytes = b"\1" * 12, node_id: bytes = b"\2" * 8) -> tuple[str, bytes]:
    """Write a manifest with one array of one dimension and a native chunk for each id."""
    return f"manifests/{encode_id(manifest_id)}", close_file(HEADER, _body(ids, manifest_id, node_id))


def _body(ids: Any, manifest_id: bytes, node_id: bytes) -> bytes:
    count = len(ids)
    vector, items = 132, 136
    vtable = (items + 4 * count + 7) // 8 * 8 + 8
    tables = vtable + 16
    indexes = tables + _REF_BYTES * count
    body = np.zeros(indexes + 8 * count, np.uint8)

    def put(form: str, at: int, *values: Any) -> None:
        body[at : at + struct.calcsize(form)] = np.frombuffer(struct.pack(form, *values), np.uint8)

    put("<I", 0, 32)  # root table at 32: id, arrays
    put("<5H", 12, 10, 24, 4, 16, 0)
    put("<i12sI", 32, 32 - 12, manifest_id, 56 - 48)
    put("<II", 56, 1, 72 - 60)  # one array, at 72: node, references
    put("<4H", 64, 8, 16, 4, 12)
    put("<i8sI", 72, 72 - 64, node_id, vector - 84)
    put("<I", vector, count)
    put("<7H", vtable, 14, 28, 4, 0, 0, 8, 16)  # a reference: index, length, chunk id

    rows = np.arange(count, dtype=np.int64)
    places = tables + _REF_BYTES * rows
    body[items : items + 4 * count].view("<u4")[:] = places - (items + 4 * rows)
    index = body[indexes:].view("<u4").reshape(count, 2)
    index[:, 0] = 1
    index[:, 1] = rows
    refs = body[tables:indexes].reshape(count, _REF_BYTES)
    refs[:, 0:4] = (places - vtable).astype("<i4").view(np.uint8).reshape(count, 4)
    refs[:, 4:8] = (indexes + 8 * rows - places - 4).astype("<u4").view(np.uint8).reshape(count, 4)
    refs[:, 8:16] = np.full(count, 1000, "<u8").view(np.uint8).reshape(count, 8)
    refs[:, 16:28] = ids
    return body.tobytes()
