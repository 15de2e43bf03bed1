"""Account for every byte of a decoded body: as part of a structure reachable from the root, or as padding.

Files have no checksum. A flipped bit in a length, an offset or a table of offsets can leave a body that still parses
with one manifest, snapshot or chunk fewer. The lost part is still in the body, but unreachable. So each reachable
field, vector and string is checked against the body's bounds and marked, and all unmarked bytes must be zero, as in the
padding between structures. The schemas give the structures (`flatbuffer` explains the layout); an unknown field is
damage or belongs to a newer library, and might refer to live objects: the file is refused either way.

A flip in a value, such as an id, passes: its object is then missing from the store, which stops or holds a collection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError
from dredge.icechunk.format.envelope import FileType, Opened, ReadLimits, open_file
from dredge.icechunk.format.kernels import loop_for

type Cover = npt.NDArray[np.uint8]
type Slot = tuple[int, int, str]
type Views = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16], npt.NDArray[np.uint32]]

_DEPTH_MAX = 16
_ID_BYTES = 12


def _field(width: int) -> Slot:
    return 0, width, ""


def _vector(width: int) -> Slot:
    return 1, width, ""


def _table(name: str) -> Slot:
    return 3, 0, name


def _tables(name: str) -> Slot:
    return 4, 0, name


_STRING: Slot = (2, 0, "")
_STRINGS: Slot = (5, 0, "")
_BYTES = _vector(1)
_ID, _NODE_ID = _field(12), _field(8)
_U8, _U16, _U32, _U64 = (_field(width) for width in (1, 2, 4, 8))

_UPDATES: dict[str, Sequence[Slot]] = {  # in the order of `repo_info.UPDATE_KINDS`, without its first
    "initialised": [],
    "migrated": [_U8, _U8],
    "configuration changed": [],
    "metadata changed": [],
    "tag created": [_STRING],
    "tag deleted": [_STRING, _ID],
    "branch created": [_STRING],
    "branch deleted": [_STRING, _ID],
    "branch reset": [_STRING, _ID],
    "commit": [_STRING, _ID],
    "amend": [_STRING, _ID, _ID],
    "detached snapshot": [_ID],
    "collection ran": [],
    "expiration ran": [],
    "feature flag changed": [_U16, _U8, _U8],
    "status changed": [_table("status")],
}
_NODE_DATA: dict[str, Sequence[Slot]] = {
    "array": [_vector(16), _tables("dimension name"), _tables("manifest use"), _tables("dimension")],
    "group": [],
}
_METADATA: dict[str, Sequence[Slot]] = {"metadata": [_STRING, _BYTES]}

_SNAPSHOT: dict[str, Sequence[Slot]] = {
    "snapshot": [
        _ID,
        _ID,
        _tables("node"),
        _U64,
        _STRING,
        _tables("metadata"),
        _vector(32),
        _tables("manifest info"),
        _BYTES,
    ],
    "node": [_NODE_ID, _STRING, _BYTES, _U8, (6, len(_NODE_DATA), "array"), _BYTES],
    **_NODE_DATA,
    "dimension name": [_STRING],
    "dimension": [_U64, _U32],
    "manifest use": [_ID, _vector(8)],
    "manifest info": [_ID, _U64, _U32, _BYTES],
    **_METADATA,
}
_MANIFEST: dict[str, Sequence[Slot]] = {
    "manifest": [_ID, _tables("array"), _BYTES, _U8, _BYTES],
    "array": [_NODE_ID, (7, 0, ""), _BYTES],  # `kernels.native_hashes` follows the references
}
_REPO_INFO: dict[str, Sequence[Slot]] = {
    "repo": [
        _U8,
        _tables("ref"),
        _tables("ref"),
        _STRINGS,
        _tables("snapshot"),
        _table("status"),
        _tables("metadata"),
        _tables("update"),
        _STRING,
        _BYTES,
        _vector(2),
        _vector(2),
        _BYTES,
    ],
    "ref": [_STRING, _U32],
    "snapshot": [_ID, _field(4), _U64, _STRING, _tables("metadata"), _vector(12)],
    "status": [_U8, _U64, _STRING],
    "update": [_U8, (6, len(_UPDATES), "initialised"), _U64, _STRING],
    **_UPDATES,
    **_METADATA,
}


class _Schema:
    """Types of tables as arrays for `kernels.account`; the first type is the root's."""

    def __init__(self, tables: dict[str, Sequence[Slot]], wanted: str = "") -> None:
        number = {name: row for row, name in enumerate(tables)}
        slots = [slot for found in tables.values() for slot in found]
        self.kinds = np.array([kind for kind, _, _ in slots], np.int32)
        self.widths = np.array([width for _, width, _ in slots], np.int32)
        self.below = np.array([number.get(name, -1) for _, _, name in slots], np.int32)
        self.firsts = np.cumsum([0, *(len(found) for found in tables.values())]).astype(np.int32)
        self.wanted = int(self.firsts[number[wanted]]) if wanted else -1


_SCHEMAS = {
    FileType.SNAPSHOT: _Schema(_SNAPSHOT, "manifest use"),
    FileType.MANIFEST: _Schema(_MANIFEST),
    FileType.REPO_INFO: _Schema(_REPO_INFO),
}


@dataclass(frozen=True, slots=True, eq=False)
class Accounted:
    """The structures of a body."""

    cover: Cover
    uses: npt.NDArray[np.int64]


def views_of(opened: Opened) -> Views:
    """The body as bytes, and with its padding as numbers of two and of four bytes."""
    padded = opened.padded
    return padded[: opened.size], padded.view("<u2"), padded.view("<u4")


def account(
    opened: Opened, *, whole: bool = True, uses: bool = False, run: Callable[..., int] | None = None
) -> Accounted:
    """Follow and mark every structure of a body."""
    schema = _SCHEMAS[opened.file_type]
    cover: Cover = np.zeros(len(opened.padded) // 4, np.uint8)
    frames = np.empty((_DEPTH_MAX, 3), np.int64)
    found = np.empty(opened.size // _ID_BYTES + 2 if uses else 1, np.int64)
    arrays = schema.kinds, schema.widths, schema.below, schema.firsts
    wanted = schema.wanted if uses else -1
    loop = run or loop_for("account", opened.size)
    damaged = loop(*views_of(opened), *arrays, frames, cover, wanted, found, whole)
    if damaged >= 0:
        raise _damaged(opened, damaged)
    return Accounted(cover, found[1 : found[0] + 1])


def check_covered(opened: Opened, cover: Cover, run: Callable[..., int] | None = None) -> None:
    """Check that all unmarked bytes are zero."""
    _, _, words = views_of(opened)
    place = (run or loop_for("uncovered", opened.size))(words, cover, len(cover))
    if place >= 0:
        raise _damaged(opened, place)


def _damaged(opened: Opened, place: int) -> FormatError:
    return FormatError(
        f"{opened.name}: damaged, or of a newer format than this reader knows: byte {place} of the decoded body"
        f" ({opened.size} bytes) is no part of a sound structure"
    )


def open_accounted(
    data: bytes, name: str, expected: FileType, limits: ReadLimits, *, uses: bool = False
) -> tuple[Opened, Accounted]:
    """Open a snapshot or a repo info, and account for every byte."""
    opened = open_file(data, name, expected, limits)
    return opened, account(opened, uses=uses)
