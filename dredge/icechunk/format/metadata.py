"""Snapshots, the refs of spec 1, and the repo info of spec 2: every ref, every snapshot with parent and time, and the
log of operations.

The repo info is the only mutable object. Each change first copies the old repo info to `overwritten/`; `latest_updates`
has the names of those copies, newest first, and `repo_before_updates` is the name of the copy with earlier updates.

Spec 1 has a small JSON file for each branch or tag:

    refs/branch.<name>/ref.json           {"snapshot":"<id>"}, replaced by a conditional write
    refs/tag.<name>/ref.json              the same, written once
    refs/tag.<name>/ref.json.deleted      empty; the tag is deleted and its name can never be used again

A snapshot is a commit: its parent (spec 1 only), its nodes and their manifests. Spec 1 has the parent in the file, so
an expiration replaces the file; spec 2 has it in the repo info and the file never changes. Source: `snapshot.fbs`.
"""

import json
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.icechunk.format.envelope import FileType, close_file, open_accounted, open_file
from dredge.icechunk.format.flatbuffer import Buffer, Table
from dredge.icechunk.ids import ID_BYTES, NODE_ID_BYTES, decode_id, encode_id, is_id

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(micros: int) -> datetime:
    """Convert microseconds since 1970 to an aware UTC time."""
    return EPOCH + timedelta(microseconds=micros)


def micros(when: datetime) -> int:
    """Convert an aware time to microseconds since 1970, exactly."""
    return (when - EPOCH) // timedelta(microseconds=1)


class ManifestInfo(Struct, frozen=True):
    """A manifest in a snapshot's list."""

    id: str
    size_bytes: int
    refs: int


class Node(Struct, frozen=True):
    """A group or an array."""

    id: str
    path: str


class Snapshot(Struct, frozen=True):
    """A parsed snapshot."""

    id: str
    parent_id: str | None
    flushed_at: int
    message: str
    manifests: tuple[ManifestInfo, ...]
    nodes: tuple[Node, ...] = ()
    spec_version: int = 1


def parse_snapshot(data: bytes, name: str, *, nodes: bool = False) -> Snapshot:
    """Read a snapshot file."""
    opened, uses = open_accounted(data, name, FileType.SNAPSHOT, uses=True)
    body = opened.body
    root = Buffer(body, name).root()
    snapshot = Snapshot(
        id=encode_id(root.required_inline(0, ID_BYTES, "id")),
        parent_id=_optional_id(root.inline(1, ID_BYTES)),
        flushed_at=root.number(3, 8),
        message=root.required_text(4, "message"),
        manifests=_manifests(root),
        spec_version=opened.spec_version,
    )
    check_name(snapshot.id, name)
    _check_uses(name, body, uses.tolist(), snapshot.manifests)
    if not nodes:
        return snapshot
    found = (
        Node(
            encode_id(table.required_inline(0, NODE_ID_BYTES, "node id")), table.required_text(1, "node path")
        )
        for table in root.tables(2)
    )
    return replace(snapshot, nodes=tuple(found))


def parse_parentage(data: bytes, name: str) -> tuple[str, str | None, int, str]:
    """Read id, parent, time and message of a snapshot file."""
    opened, _ = open_accounted(data, name, FileType.SNAPSHOT)
    root = Buffer(opened.body, name).root()
    snapshot = encode_id(root.required_inline(0, ID_BYTES, "id"))
    check_name(snapshot, name)
    return (
        snapshot,
        _optional_id(root.inline(1, ID_BYTES)),
        root.number(3, 8),
        root.required_text(4, "message"),
    )


def with_parent(data: bytes, name: str, parent_id: str) -> bytes:
    """Give a snapshot file another parent: the in-place edit of an expiration on spec 1. Only 12 bytes of the decoded
    body change. Raises FormatError: a damaged snapshot, or one of spec 2 (its parent is in the repo info); ValueError:
    the snapshot has no parent: a root is never edited."""
    opened = open_file(data, name, FileType.SNAPSHOT)
    if opened.spec_version != 1:
        raise FormatError(
            f"{name}: a snapshot of spec version {opened.spec_version} does not contain its parent"
        )
    place = Buffer(opened.body, name).root().field(1, ID_BYTES)
    if not place:
        raise ValueError(f"{name}: is a root snapshot, which is never edited")
    body = bytearray(opened.body)
    body[place : place + ID_BYTES] = decode_id(parent_id)
    edited = close_file(opened.header, bytes(body))
    before, after = parse_snapshot(data, name), parse_snapshot(edited, name)
    if replace(before, parent_id=parent_id) != after:
        raise FormatError(f"{name}: the edit would change more than the parent; nothing was written")
    return edited


def check_name(object_id: str, name: str) -> None:
    """Check that a file has the id in its name; raises FormatError."""
    tail = name.rsplit("/", 1)[-1]
    if len(tail) == len(object_id) and tail != object_id:
        raise FormatError(f"{name}: has the id {object_id}, so it is another object's file")


def _check_uses(name: str, body: bytes, uses: Sequence[int], listed: Sequence[ManifestInfo]) -> None:
    ids = {info.id for info in listed}
    if len(ids) != len(listed):
        raise FormatError(f"{name}: damaged: lists a manifest twice")
    absent = {encode_id(raw) for raw in {body[at : at + ID_BYTES] for at in uses}} - ids
    if absent:
        raise FormatError(f"{name}: damaged: an array uses manifest {min(absent)}, which is not listed")


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
        ManifestInfo(
            encode_id(table.required_inline(0, ID_BYTES, "manifest id")),
            table.number(1, 8),
            table.number(2, 4),
        )
        for table in root.tables(7)
    ]
    return tuple(infos)


REPO_KEY = "repo"
COPIES = "overwritten/"
_COPY = re.compile(r"^repo\.(\d{14})\.([0-9A-Z]{20})$")
_COUNTS_DOWN_FROM = datetime(3000, 1, 1, tzinfo=UTC)  # in milliseconds, so newer names sort first

UPDATE_KINDS = (
    "none",
    "repository initialised",
    "repository migrated",
    "configuration changed",
    "metadata changed",
    "tag created",
    "tag deleted",
    "branch created",
    "branch deleted",
    "branch reset",
    "commit",
    "amend",
    "detached snapshot",
    "collection ran",
    "expiration ran",
    "feature flag changed",
    "status changed",
)
_OF_A_REF = frozenset(
    {"tag created", "tag deleted", "branch created", "branch deleted", "branch reset", "commit", "amend"}
)
AVAILABILITY = ("online", "read-only", "offline")


class SnapshotEntry(Struct, frozen=True):
    """A snapshot in the repo info."""

    id: str
    parent_id: str | None
    flushed_at: int
    message: str
    pruned: tuple[str, ...] = ()


# Kind and time (microseconds since 1970) of an entry of the operations log.
type Operation = tuple[str, int]


class Update(Struct, frozen=True):
    """An entry of the operations log."""

    kind: str
    updated_at: int
    backup: str | None
    ref: str | None = None

    @property
    def operation(self) -> Operation:
        """Kind and time of the operation."""
        return self.kind, self.updated_at

    @property
    def label(self) -> str | None:
        """Label of the operation's ref, such as "branch:main"; None for an operation without a ref."""
        if self.ref is None:
            return None
        return f"{'tag' if self.kind.startswith('tag') else 'branch'}:{self.ref}"


class RepoInfo(Struct, frozen=True):
    """A parsed repo info."""

    spec_version: int
    snapshots: tuple[SnapshotEntry, ...]
    branches: dict[str, str]
    tags: dict[str, str]
    availability: str
    updates: tuple[Update, ...]
    before_updates: str | None
    config: bytes = b""

    @property
    def newest(self) -> Operation | None:
        """Kind and time of the newest operation; None for an empty log."""
        return self.updates[0].operation if self.updates else None


def written_at(name: str) -> datetime | None:
    """Return the time in the name of a copy of the repo info; None for another name."""
    match = _COPY.match(name)
    if match is None or not is_id(match[2]):
        return None
    try:
        return _COUNTS_DOWN_FROM - timedelta(milliseconds=int(match[1]))
    except OverflowError:  # before the year 1
        return None


def parse_repo_info(data: bytes, name: str = REPO_KEY) -> RepoInfo:
    """Read a repo info file, the current one or a copy in `overwritten/`."""
    opened, _ = open_accounted(data, name, FileType.REPO_INFO)
    buffer = Buffer(opened.body, name)
    root = buffer.root()
    tables = list(root.tables(4))
    ids = [encode_id(table.required_inline(0, ID_BYTES, "snapshot id")) for table in tables]
    if len(set(ids)) != len(ids):
        raise FormatError(f"{name}: lists a snapshot twice")
    status = root.table(5)
    availability = status.number(0, 1) if status else 0
    if availability >= len(AVAILABILITY):
        raise buffer.fail(f"unknown availability {availability}", root.place)
    return RepoInfo(
        spec_version=root.number(0, 1),
        snapshots=tuple(_entry(table, ids) for table in tables),
        branches=_refs(root, 2, ids),
        tags=_refs(root, 1, ids),
        availability=AVAILABILITY[availability],
        updates=tuple(_update(table) for table in root.tables(7)),
        before_updates=root.text(8),
        config=root.bytes_of(9),
    )


def _entry(table: Table, ids: list[str]) -> SnapshotEntry:
    parent = table.number(1, 4, signed=True)  # an absent slot means the first snapshot, not "no parent"
    if parent >= len(ids):
        raise table.buffer.fail(f"parent {parent} of {len(ids)} snapshots", table.place)
    return SnapshotEntry(
        id=encode_id(table.required_inline(0, ID_BYTES, "snapshot id")),
        parent_id=ids[parent] if parent >= 0 else None,
        flushed_at=table.number(2, 8),
        message=table.required_text(3, "message"),
        pruned=tuple(encode_id(raw) for raw in table.structs(5, ID_BYTES)),
    )


def _refs(root: Table, slot: int, ids: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for table in root.tables(slot):
        name, index = table.required_text(0, "ref name"), table.number(1, 4)
        if index >= len(ids):
            raise table.buffer.fail(f"ref {name!r} points to snapshot {index} of {len(ids)}", table.place)
        if name in found:
            raise table.buffer.fail(f"ref {name!r} is listed twice", table.place)
        found[name] = ids[index]
    return found


def _update(table: Table) -> Update:
    number = table.number(0, 1)
    kind = UPDATE_KINDS[number] if number < len(UPDATE_KINDS) else f"kind {number}"
    about = table.table(1) if kind in _OF_A_REF else None
    return Update(kind, table.number(2, 8), table.text(3), None if about is None else about.text(0))


REFS_FOLDER = "refs/"
DELETED = ".deleted"
_UNFINISHED = re.compile(r"ref\.json(\.deleted)?#\d+")  # as Icechunk's local store writes it, before a rename
REF_BYTES_MAX = 4096


def ref_key(kind: str, name: str) -> str:
    """The key of a branch's or tag's file."""
    return f"{REFS_FOLDER}{kind}.{name}/ref.json"


def parse_ref(data: bytes, key: str) -> str:
    """Read the snapshot id in a ref file."""
    if len(data) > REF_BYTES_MAX:
        raise _damaged(key, f"{len(data)} bytes are too many for a ref")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise _damaged(key, "not JSON" if data else "the file is empty") from None
    snapshot = value.get("snapshot") if isinstance(value, dict) else None
    if not isinstance(snapshot, str) or not is_id(snapshot):
        raise _damaged(key, "the file has no snapshot id")
    return snapshot


def _damaged(key: str, what: str) -> FormatError:
    return FormatError(
        f"{key}: {what}. The snapshots of this ref are unknown, so nothing was changed or deleted. Restore the file,"
        " or delete the ref with Icechunk."
    )


def live_refs(keys: Collection[str]) -> dict[tuple[str, str], str]:
    """Choose the refs that are not deleted among the keys below `refs/`; returns the file's key by ("branch" or "tag",
    name)."""
    present = set(keys)
    found: dict[tuple[str, str], str] = {}
    for key in keys:
        folder, _, file = key.removeprefix(REFS_FOLDER).rpartition("/")
        kind, dot, name = folder.partition(".")
        if _UNFINISHED.fullmatch(file):
            continue  # the library's own listing on disk leaves out what its writer has not renamed yet
        if (
            file not in ("ref.json", f"ref.json{DELETED}")
            or not dot
            or not name
            or kind not in ("branch", "tag")
        ):
            raise FormatError(f"{key}: not the key of a branch or a tag")
        if file == "ref.json" and not (kind == "tag" and f"{key}{DELETED}" in present):
            found[kind, name] = key
    return found
