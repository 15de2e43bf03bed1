"""Files of an Icechunk repository, written from plain values: snapshots, manifests and the repo info.

The library does its own I/O and cannot be stepped, and takes ids and times from the machine. So the files are written
here, in the layout described in `dredge.icechunk.format.flatbuffer`.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import cramjam
import numpy as np

from dredge.icechunk.format.envelope import MAGIC, close_file
from dredge.icechunk.ids import decode_id, encode_id
from tests.support.icechunk_manifests import manifest_file

SNAPSHOT_FILE, MANIFEST_FILE, TRANSACTION_LOG, REPO_FILE = 1, 2, 4, 6
MIGRATED, CONFIGURATION_CHANGED = 2, 3


class Buffer:
    """A growing flatbuffer: a table first, then its references."""

    def __init__(self) -> None:
        self.data = bytearray(4)

    def done(self, root: int) -> bytes:
        struct.pack_into("<I", self.data, 0, root)
        return bytes(self.data)

    def align(self, to: int, rest: int = 0) -> None:
        """Pad with zeros up to a place with a given remainder."""
        while len(self.data) % to != rest:
            self.data.append(0)


type Child = Callable[[Buffer], int]
"""Writes a part at the end of a buffer; returns its place."""
type Slots = Mapping[int, bytes | Child]
"""Fields of a table by slot: inline bytes, or references."""


def table(slots: Slots) -> Child:

    def write(buffer: Buffer) -> int:
        offsets, body = _inside(slots)
        count = max(slots, default=-1) + 1
        buffer.align(8)
        vtable = len(buffer.data)
        entries = [offsets.get(slot, 0) for slot in range(count)]
        buffer.data += struct.pack(f"<{2 + count}H", 4 + 2 * count, 4 + len(body), *entries)
        buffer.align(8)
        place = len(buffer.data)
        buffer.data += struct.pack("<i", place - vtable) + body
        for slot, value in slots.items():
            if not isinstance(value, bytes):
                _refer(buffer, place + offsets[slot], value)
        return place

    return write


def _inside(slots: Slots) -> tuple[dict[int, int], bytes]:
    body = bytearray()
    offsets = {}
    for slot, value in sorted(slots.items(), key=lambda item: -_size(item[1])):
        size = _size(value)
        while (4 + len(body)) % (8 if size == 8 else min(4, size)):
            body.append(0)
        offsets[slot] = 4 + len(body)
        body += value if isinstance(value, bytes) else bytes(4)
    return offsets, bytes(body)


def _size(value: bytes | Child) -> int:
    return len(value) if isinstance(value, bytes) else 4


def _refer(buffer: Buffer, place: int, child: Child) -> None:
    target = child(buffer)
    struct.pack_into("<I", buffer.data, place, target - place)


def text(value: str) -> Child:

    def write(buffer: Buffer) -> int:
        buffer.align(4)
        place = len(buffer.data)
        raw = value.encode()
        buffer.data += struct.pack("<I", len(raw)) + raw + b"\0"
        return place

    return write


def structs(items: Sequence[bytes], align: int = 4) -> Child:

    def write(buffer: Buffer) -> int:
        buffer.align(align, (align - 4) % align)
        place = len(buffer.data)
        buffer.data += struct.pack("<I", len(items)) + b"".join(items)
        return place

    return write


def tables(items: Sequence[Child]) -> Child:
    def write(buffer: Buffer) -> int:
        buffer.align(4)
        place = len(buffer.data)
        buffer.data += struct.pack("<I", len(items)) + bytes(4 * len(items))
        for number, item in enumerate(items):
            _refer(buffer, place + 4 + 4 * number, item)
        return place

    return write


@dataclass(frozen=True)
class Snapshot:
    id: str  # its name
    parent: str | None  # of the same; None for the root
    flushed_at: int  # microseconds since 1970
    manifests: Mapping[str, int] = field(default_factory=dict)  # number of references by manifest


def snapshot_file(snapshot: Snapshot, spec: int) -> bytes:
    slots: dict[int, bytes | Child] = {
        0: decode_id(snapshot.id),
        3: struct.pack("<Q", snapshot.flushed_at),
        4: text("a commit"),
    }
    items = sorted(snapshot.manifests.items())
    if spec == 1:
        if snapshot.parent is not None:
            slots[1] = decode_id(snapshot.parent)
        rows = [decode_id(name) + bytes(4) + struct.pack("<QII", 1000, refs, 0) for name, refs in items]
        slots[6] = structs(rows, 8)
    else:
        slots[7] = tables(
            [
                table({0: decode_id(name), 1: struct.pack("<Q", 1000), 2: struct.pack("<I", refs)})
                for name, refs in items
            ]
        )
    return _closed(slots, spec, SNAPSHOT_FILE)


def transaction_file(snapshot: Snapshot, spec: int) -> bytes:
    """Write a transaction log without a node."""
    return _closed({0: decode_id(snapshot.id)}, spec, TRANSACTION_LOG)


def chunk_manifest(manifest: str, chunks: Sequence[str]) -> bytes:
    ids = np.frombuffer(b"".join(map(decode_id, chunks)), np.uint8).reshape(len(chunks), 12)
    return manifest_file(ids, decode_id(manifest))[1]


def virtual_manifest(manifest: str, locations: Sequence[str], spec: int) -> bytes:
    refs = [
        table({0: structs([struct.pack("<I", number)]), 3: struct.pack("<Q", 1000), 5: text(location)})
        for number, location in enumerate(locations)
    ]
    array = table({0: b"\2" * 8, 1: tables(refs)})
    return _closed({0: decode_id(manifest), 1: tables([array])}, spec, MANIFEST_FILE)


@dataclass(frozen=True)
class Repo:
    """The repo info of spec 2."""

    snapshots: Mapping[str, Snapshot]  # all that it lists, by id
    branches: Mapping[str, str]
    tags: Mapping[str, str]
    # (microseconds, name of the copy of the earlier state), newest first
    updates: Sequence[tuple[int, str | None]]
    # microseconds of the upgrade from spec 1, which is the oldest operation; None for another
    migrated: int | None = None


def repo_file(repo: Repo) -> bytes:
    ids = sorted(repo.snapshots)
    place = {name: number for number, name in enumerate(ids)}

    def refs(found: Mapping[str, str]) -> Child:
        rows = [
            table({0: text(name), 1: struct.pack("<I", place[tip])}) for name, tip in sorted(found.items())
        ]
        return tables(rows)

    def entry(snapshot: Snapshot) -> Child:
        parent = -1 if snapshot.parent is None else place[snapshot.parent]
        return table(
            {
                0: decode_id(snapshot.id),
                1: struct.pack("<i", parent),
                2: struct.pack("<Q", snapshot.flushed_at),
                3: text("a commit"),
            }
        )

    def update(when: int, backup: str | None) -> Child:
        slots: dict[int, bytes | Child] = {
            0: bytes([MIGRATED if when == repo.migrated else CONFIGURATION_CHANGED]),
            1: table({}),
            2: struct.pack("<Q", when),
        }
        if backup is not None:
            slots[3] = text(backup)
        return table(slots)

    slots: dict[int, bytes | Child] = {
        0: bytes([2]),
        1: refs(repo.tags),
        2: refs(repo.branches),
        3: tables([]),
        4: tables([entry(repo.snapshots[name]) for name in ids]),
        7: tables([update(*each) for each in repo.updates]),
    }
    return _closed(slots, 2, REPO_FILE)


def _closed(slots: Slots, spec: int, kind: int) -> bytes:
    buffer = Buffer()
    header = MAGIC + b"simulated".ljust(24) + bytes([spec, kind, 1])
    return close_file(header, buffer.done(table(slots)(buffer)))


def parent_in(data: bytes, snapshot: Snapshot) -> str | None:
    """The parent in a snapshot's file: read at its place, unchanged by edits."""
    if snapshot.parent is None:
        return None
    new, old = (bytes(cramjam.zstd.decompress(each[39:])) for each in (data, snapshot_file(snapshot, 1)))
    at = old.index(decode_id(snapshot.parent))
    return encode_id(new[at : at + 12])
