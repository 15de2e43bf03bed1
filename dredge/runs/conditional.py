"""Objects that several processes change: read with their tag, replaced only as they were read."""

from __future__ import annotations

from collections.abc import Callable

from dredge.errors import ConflictError, NotFoundError
from dredge.storage import ObjectReader, ObjectWriter


def read_tagged(reader: ObjectReader, key: str) -> tuple[str, bytes] | None:
    """Read an object for who wants to replace it.

    Args:
        reader: on the folder of the object.
        key: relative to it.

    Returns:
        Its tag and its bytes; None when there is none.
    """
    # One answer gives both, so the tag is that of these bytes.
    try:
        with reader.open_read(key) as stream:
            return stream.info.etag or "", b"".join(stream)
    except NotFoundError:
        return None


def replace_tagged(writer: ObjectWriter, key: str, data: bytes, etag: str | None) -> bool:
    """Replace an object that is still as it was read; see `replaced_tag`. Returns whether it was."""
    return replaced_tag(writer, key, data, etag) is not None


def replaced_tag(writer: ObjectWriter, key: str, data: bytes, etag: str | None) -> str | None:
    """Replace an object that is still as it was read.

    Args:
        writer: on the folder of the object.
        key: relative to it.
        data: what it becomes.
        etag: as `read_tagged` gave it; None to write an object that is not there.

    Returns:
        Its new tag; None when somebody changed it since. After a request whose answer was lost this may say None
        although it was replaced, so the caller reads again before it concludes anything.
    """
    try:
        if etag is None:
            return writer.put_if_absent(key, data) or ""
        return writer.put_if_match(key, data, etag) or ""
    except ConflictError:
        return None


def replace_again(
    writer: ObjectWriter, key: str, data: bytes, etag: str | None, is_own: Callable[[bytes], bool]
) -> bool:
    """Replace an object that is still as it was read, or as an earlier try of the same run left it.

    Args:
        writer: on the folder of the object.
        key: relative to it.
        data: what it becomes.
        etag: as `read_tagged` gave it; None to write an object that is not there.
        is_own: whether bytes are of an earlier try.

    Returns:
        Whether it was, also when the answer to the request was lost.
    """
    if replace_tagged(writer, key, data, etag):
        return True
    tagged = read_tagged(writer, key)
    if tagged is None or not is_own(tagged[1]):
        return False
    return tagged[1] == data or replace_tagged(writer, key, data, tagged[0])
