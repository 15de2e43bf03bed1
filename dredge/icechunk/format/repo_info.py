"""The refs of spec 1, and the repo info of spec 2: every ref, every snapshot with parent and time, and the log of
operations.

The repo info is the only mutable object. Each change first copies the old one to `overwritten/`; `latest_updates` has
the names of those copies, newest first, and `repo_before_updates` is the name of the copy with the updates before them.

Spec 1 has a small JSON file for each branch or tag:

    refs/branch.<name>/ref.json           {"snapshot":"<id>"}, replaced by a conditional write
    refs/tag.<name>/ref.json              the same, written once
    refs/tag.<name>/ref.json.deleted      empty; the tag is deleted and its name can never be used again
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dredge.errors import FormatError
from dredge.icechunk.format.envelope import READ_LIMITS, FileType
from dredge.icechunk.format.flatbuffer import Buffer, Table
from dredge.icechunk.format.verifier import open_accounted
from dredge.icechunk.ids import ID_BYTES, encode_id, is_id

REPO_KEY = "repo"
OVERWRITTEN = "overwritten/"
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


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A snapshot in the repo info."""

    id: str
    parent_id: str | None
    flushed_at: int
    message: str
    pruned: tuple[str, ...] = ()


# Kind and time (microseconds since 1970) of an entry of the operations log.
type Operation = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Update:
    """An entry of the operations log."""

    kind: str
    updated_at: int
    backup: str | None
    ref: str | None = None

    @property
    def operation(self) -> Operation:
        """Its kind and time."""
        return self.kind, self.updated_at

    @property
    def label(self) -> str | None:
        """Label of its ref, such as "branch:main"; None for other kinds of operations."""
        if self.ref is None:
            return None
        return f"{'tag' if self.kind.startswith('tag') else 'branch'}:{self.ref}"


@dataclass(frozen=True, slots=True)
class RepoInfo:
    """A parsed repo info."""

    spec_version: int
    snapshots: tuple[SnapshotEntry, ...]
    branches: dict[str, str]
    tags: dict[str, str]
    deleted_tags: tuple[str, ...]
    availability: str
    updates: tuple[Update, ...]
    before_updates: str | None
    config: bytes = b""

    @property
    def newest(self) -> Operation | None:
        """The newest operation; None for an empty log."""
        return self.updates[0].operation if self.updates else None


def written_at(name: str) -> datetime | None:
    """The time of a copy of the repo info, from its name; None for another name."""
    match = _COPY.match(name)
    if match is None or not is_id(match[2]):
        return None
    try:
        return _COUNTS_DOWN_FROM - timedelta(milliseconds=int(match[1]))
    except OverflowError:  # before the year 1
        return None


def parse_repo_info(data: bytes, name: str = REPO_KEY) -> RepoInfo:
    """Read a repo info file, the current one or a copy in `overwritten/`."""
    opened, _ = open_accounted(data, name, FileType.REPO_INFO, READ_LIMITS)
    buffer = Buffer(opened.body, name)
    root = buffer.root()
    tables = list(root.tables(4))
    ids = [encode_id(table.required_inline(0, ID_BYTES, "snapshot id")) for table in tables]
    if len(set(ids)) != len(ids):
        raise FormatError(f"{name}: lists a snapshot twice")
    status = root.table(5)
    availability = status.u8(0) if status else 0
    if availability >= len(AVAILABILITY):
        raise buffer.fail(f"unknown availability {availability}", root.place)
    return RepoInfo(
        spec_version=root.u8(0),
        snapshots=tuple(_entry(table, ids) for table in tables),
        branches=_refs(root, 2, ids),
        tags=_refs(root, 1, ids),
        deleted_tags=tuple(root.texts(3)),
        availability=AVAILABILITY[availability],
        updates=tuple(_update(table) for table in root.tables(7)),
        before_updates=root.text(8),
        config=root.bytes_of(9),
    )


def _entry(table: Table, ids: list[str]) -> SnapshotEntry:
    parent = table.i32(1)  # an absent slot means the first snapshot, not "no parent"
    if parent >= len(ids):
        raise table.buffer.fail(f"parent {parent} of {len(ids)} snapshots", table.place)
    return SnapshotEntry(
        id=encode_id(table.required_inline(0, ID_BYTES, "snapshot id")),
        parent_id=ids[parent] if parent >= 0 else None,
        flushed_at=table.u64(2),
        message=table.required_text(3, "message"),
        pruned=tuple(encode_id(raw) for raw in table.structs(5, ID_BYTES)),
    )


def _refs(root: Table, slot: int, ids: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for table in root.tables(slot):
        name, index = table.required_text(0, "ref name"), table.u32(1)
        if index >= len(ids):
            raise table.buffer.fail(f"ref {name!r} points to snapshot {index} of {len(ids)}", table.place)
        if name in found:
            raise table.buffer.fail(f"ref {name!r} is listed twice", table.place)
        found[name] = ids[index]
    return found


def _update(table: Table) -> Update:
    number = table.u8(0)
    kind = UPDATE_KINDS[number] if number < len(UPDATE_KINDS) else f"kind {number}"
    about = table.table(1) if kind in _OF_A_REF else None
    return Update(kind, table.u64(2), table.text(3), None if about is None else about.text(0))


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
        raise _damaged(key, "holds no snapshot id")
    return snapshot


def _damaged(key: str, what: str) -> FormatError:
    return FormatError(
        f"{key}: {what}. What this ref keeps alive is unknown, so nothing was changed or deleted. Restore the"
        " file, or let Icechunk delete the ref."
    )


def live_refs(keys: Collection[str]) -> dict[tuple[str, str], str]:
    """Choose the live refs among the keys below `refs/`: key of the file by ("branch" or "tag", name), without deleted
    tags."""
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
