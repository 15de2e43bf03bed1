"""Conditional writes: an object is replaced only in the version read before."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from dredge.errors import ConflictError, NotFoundError
from dredge.runs.payload import to_json
from dredge.storage import ObjectReader, ObjectWriter

_CHANGES_MAX = 5


def read_tagged(reader: ObjectReader, key: str) -> tuple[str, bytes] | None:
    """Read an object with its ETag; None if it does not exist."""
    # One answer gives both, so the tag is that of these bytes.
    try:
        with reader.open_read(key) as stream:
            return stream.info.etag or "", b"".join(stream)
    except NotFoundError:
        return None


def replace_tagged(writer: ObjectWriter, key: str, data: bytes, etag: str | None) -> bool:
    """Replace an object if it still has the ETag; returns whether it did. See `replaced_tag`."""
    return replaced_tag(writer, key, data, etag) is not None


def replaced_tag(writer: ObjectWriter, key: str, data: bytes, etag: str | None) -> str | None:
    """Replace an object if it still has the ETag.

    Args:
        etag: from `read_tagged`; None to create the object.

    Returns:
        The new ETag; None if another process changed the object. If the response was lost, the result can be None after
        a write: read the object again.
    """
    try:
        if etag is None:
            return writer.put_if_absent(key, data) or ""
        return writer.put_if_match(key, data, etag) or ""
    except ConflictError:
        return None


def change_file[T](writer: ObjectWriter, key: str, change: Callable[[Any], T]) -> T | None:
    """Replace a JSON file by the payload that `change` makes of its value, and return the payload; None without the
    file. Raises ConflictError if others change it all the time.
    """
    for _ in range(_CHANGES_MAX):
        tagged = read_tagged(writer, key)
        if tagged is None:
            return None
        found = change(json.loads(tagged[1]))
        if replace_tagged(writer, key, json.dumps(to_json(found), sort_keys=True).encode(), tagged[0]):
            return found
    raise ConflictError(f"{writer.uri}/{key} was changed at the same moment by another process. Try again.")


def replace_again(
    writer: ObjectWriter, key: str, data: bytes, etag: str | None, is_own: Callable[[bytes], bool]
) -> bool:
    """Replace an object if it still has the ETag, or if an earlier try of the same run wrote it.

    Args:
        etag: from `read_tagged`; None to create the object.
        is_own: whether bytes are from an earlier try.

    Returns:
        Whether the object has the data now, also when a response was lost.
    """
    if replace_tagged(writer, key, data, etag):
        return True
    tagged = read_tagged(writer, key)
    if tagged is None or not is_own(tagged[1]):
        return False
    return tagged[1] == data or replace_tagged(writer, key, data, tagged[0])
