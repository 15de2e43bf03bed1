"""A snapshot: a commit, its parent (spec 1 only), its nodes and their manifests.

Spec 1 has the parent in the file, so an expiration replaces the file; spec 2 has it in the repo info and the file never
changes. Source: `snapshot.fbs`; slots in the comments below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from dredge.errors import FormatError
from dredge.icechunk.format.envelope import READ_LIMITS, FileType, close_file, open_file
from dredge.icechunk.format.flatbuffer import Buffer, Table
from dredge.icechunk.format.verifier import open_accounted
from dredge.icechunk.ids import ID_BYTES, NODE_ID_BYTES, decode_id, encode_id

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(micros: int) -> datetime:
    """Convert microseconds since 1970 to an aware UTC time."""
    return EPOCH + timedelta(microseconds=micros)


def micros(when: datetime) -> int:
    """Convert an aware time to microseconds since 1970, exactly."""
    return (when - EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ManifestInfo:
    """A manifest in a snapshot's list."""

    id: str
    size_bytes: int
    refs: int


@dataclass(frozen=True, slots=True)
class ManifestUse:
    """A manifest of an array, and its chunk coordinates: (from, to) a dimension, `to` exclusive."""

    manifest_id: str
    extents: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A group or an array."""

    id: str
    path: str
    kind: str
    user_data: bytes
    manifests: tuple[ManifestUse, ...] = ()
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A parsed snapshot."""

    id: str
    parent_id: str | None
    flushed_at: int
    message: str
    manifests: tuple[ManifestInfo, ...]
    metadata: dict[str, bytes] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    spec_version: int = 1


def parse_snapshot(data: bytes, name: str, *, nodes: bool = False) -> Snapshot:
    """Read a snapshot file."""
    opened, accounted = open_accounted(data, name, FileType.SNAPSHOT, READ_LIMITS, uses=True)
    body = opened.body
    root = Buffer(body, name).root()
    snapshot = Snapshot(
        id=encode_id(root.required_inline(0, ID_BYTES, "id")),
        parent_id=_optional_id(root.inline(1, ID_BYTES)),
        flushed_at=root.u64(3),
        message=root.required_text(4, "message"),
        manifests=_manifests(root),
        metadata={item.required_text(0, "metadata name"): item.bytes_of(1) for item in root.tables(5)},
        spec_version=opened.spec_version,
    )
    check_name(snapshot.id, name)
    _check_uses(name, body, accounted.uses.tolist(), snapshot.manifests)
    return replace(snapshot, nodes=tuple(_node(table) for table in root.tables(2))) if nodes else snapshot


def parse_parentage(data: bytes, name: str) -> tuple[str, str | None, int, str]:
    """Read id, parent, time and message of a snapshot file."""
    opened, _ = open_accounted(data, name, FileType.SNAPSHOT, READ_LIMITS)
    root = Buffer(opened.body, name).root()
    snapshot = encode_id(root.required_inline(0, ID_BYTES, "id"))
    check_name(snapshot, name)
    return snapshot, _optional_id(root.inline(1, ID_BYTES)), root.u64(3), root.required_text(4, "message")


def with_parent(data: bytes, name: str, parent_id: str) -> bytes:
    """Give a snapshot file another parent: the in-place edit of an expiration on spec 1. Only 12 bytes of the decoded
    body change. Raises FormatError: a damaged snapshot, or one of spec 2 (its parent is in the repo info); ValueError:
    the snapshot has no parent: a root is never edited."""
    opened = open_file(data, name, FileType.SNAPSHOT)
    if opened.spec_version != 1:
        raise FormatError(
            f"{name}: a snapshot of spec version {opened.spec_version} does not hold its parent"
        )
    place = Buffer(opened.body, name).root().field(1, ID_BYTES)
    if not place:
        raise ValueError(f"{name}: has no parent; a root snapshot is never edited")
    body = bytearray(opened.body)
    body[place : place + ID_BYTES] = decode_id(parent_id)
    edited = close_file(opened.header, bytes(body))
    before, after = parse_snapshot(data, name), parse_snapshot(edited, name)
    if replace(before, parent_id=parent_id) != after:
        raise FormatError(f"{name}: the edited file differs in more than its parent; nothing was written")
    return edited


def check_name(object_id: str, name: str) -> None:
    """Refuse a file with another id than in its name."""
    tail = name.rsplit("/", 1)[-1]
    if len(tail) == len(object_id) and tail != object_id:
        raise FormatError(f"{name}: holds the object {object_id}")


def _check_uses(name: str, body: bytes, uses: Sequence[int], listed: Sequence[ManifestInfo]) -> None:
    ids = {info.id for info in listed}
    if len(ids) != len(listed):
        raise FormatError(f"{name}: damaged: lists a manifest twice")
    absent = {encode_id(raw) for raw in {body[at : at + ID_BYTES] for at in uses}} - ids
    if absent:
        raise FormatError(f"{name}: damaged: a node uses the manifest {min(absent)}, which the list lacks")


def _optional_id(raw: bytes | None) -> str | None:
    return None if raw is None else encode_id(raw)


def _manifests(root: Table) -> tuple[ManifestInfo, ...]:
    # Spec 1: 32-byte structs of id, padding, size u64 at 16, references u32 at 24. Spec 2: tables in slot 7.
    infos = [
        ManifestInfo(
            encode_id(raw[:12]), int.from_bytes(raw[16:24], "little"), int.from_bytes(raw[24:28], "little")
        )
        for raw in root.structs(6, 32)
    ]
    infos += [
        ManifestInfo(encode_id(table.required_inline(0, ID_BYTES, "manifest id")), table.u64(1), table.u32(2))
        for table in root.tables(7)
    ]
    return tuple(infos)


def _node(table: Table) -> Node:
    kind = {1: "array", 2: "group"}.get(table.u8(3))
    if kind is None:
        raise table.buffer.fail(f"unknown node type {table.u8(3)}", table.place)
    node_id = encode_id(table.required_inline(0, NODE_ID_BYTES, "node id"))
    path, user_data = table.required_text(1, "node path"), table.bytes_of(2)
    array = table.table(4)
    if kind == "group" or array is None:
        return Node(node_id, path, kind, user_data)
    uses = tuple(
        ManifestUse(
            encode_id(use.required_inline(0, ID_BYTES, "manifest id")),
            tuple(
                (int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:], "little"))
                for raw in use.structs(1, 8)
            ),
        )
        for use in array.tables(2)
    )
    shape = tuple(int.from_bytes(raw[:8], "little") for raw in array.structs(0, 16))
    shape = shape or tuple(dimension.u64(0) for dimension in array.tables(3))
    return Node(node_id, path, kind, user_data, uses, shape)
