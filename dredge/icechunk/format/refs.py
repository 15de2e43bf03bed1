"""The refs of spec 1: a small JSON file for each branch or tag.

refs/branch.<name>/ref.json           {"snapshot":"<id>"}, replaced by a conditional write
refs/tag.<name>/ref.json              the same, written once
refs/tag.<name>/ref.json.deleted      empty; the tag is deleted and its name can never be used again
"""

from __future__ import annotations

import json
from collections.abc import Collection

from dredge.errors import FormatError
from dredge.icechunk.ids import is_id

REFS_FOLDER = "refs/"
DELETED = ".deleted"
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
    """Choose the live refs among the keys below `refs/`.

    Returns:
        Key of the file by ("branch" or "tag", name), without deleted tags.
    """
    present = set(keys)
    found: dict[tuple[str, str], str] = {}
    for key in keys:
        folder, _, file = key.removeprefix(REFS_FOLDER).rpartition("/")
        kind, dot, name = folder.partition(".")
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
