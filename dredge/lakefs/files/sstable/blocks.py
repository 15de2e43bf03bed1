"""Blocks of a table: loaded from the file, verified, and read entry by entry."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import cramjam

from dredge.kernels.interface import BLOCK_SIZE_MAX
from dredge.lakefs.files.sstable.layout import PLAIN, SNAPPY, Handle, checksum, damaged, get_uvarint

_U32 = struct.Struct("<I")


class BlockEntry(NamedTuple):
    """One entry: the complete key, including its trailer if it has one, and the value."""

    key: bytes
    value: bytes


def load_block(data: bytes, handle: Handle, name: str, place: str) -> bytes:
    """Load one block: verify its checksum and uncompress it.

    Args:
        data: the whole file.
        handle: where the block is.
        name: name of the file, for error messages.
        place: name of the block, for error messages.

    Raises:
        FormatError: it is outside the file, its checksum is wrong, or it cannot be uncompressed.
    """
    where = f"{place} at {handle}"
    if handle.end > len(data):
        raise damaged(name, where, f"outside the file of {len(data)} bytes")
    end = handle.offset + handle.length
    body = memoryview(data)[handle.offset : end]
    block_type = data[end]
    stored = _U32.unpack_from(data, end + 1)[0]
    if (computed := checksum(body, block_type)) != stored:
        raise damaged(name, where, f"checksum is {computed:08x}, the file says {stored:08x}")
    if block_type == PLAIN:
        return bytes(body)
    if block_type != SNAPPY:
        raise damaged(name, where, f"compression type {block_type} is not written by lakeFS")
    try:
        length, _ = get_uvarint(bytes(body[:10]), 0, min(10, handle.length))
        if length > BLOCK_SIZE_MAX:
            raise ValueError(f"{length} bytes uncompressed")
        raw = bytes(cramjam.snappy.decompress_raw(body))
    except (ValueError, cramjam.DecompressionError) as error:
        raise damaged(name, where, f"Snappy cannot uncompress it: {error}") from error
    return raw


def block_entries(block: bytes, name: str, place: str) -> Iterator[BlockEntry]:
    """Yield all entries of a block in order, checking the restart points.

    Args:
        block: the uncompressed body.
        name: name of the file, for error messages.
        place: name of the block, for error messages.

    Raises:
        FormatError: the entries do not fill the block exactly, or a restart point is not at an entry.
    """
    if len(block) < 8:
        raise damaged(name, place, f"{len(block)} bytes are too few for a block")
    number = _U32.unpack_from(block, len(block) - 4)[0]
    end = len(block) - 4 - 4 * number
    if number < 1 or end < 0:
        raise damaged(name, place, f"{number} restart points do not fit its {len(block)} bytes")
    restarts = struct.unpack_from(f"<{number}I", block, end)
    if restarts[0] != 0:
        raise damaged(name, place, "the first restart point is not its first byte")
    if end == 0 and number != 1:
        raise damaged(name, place, "restart points in an empty block")
    at = met = 0
    key = b""
    while at < end:
        start = at
        if end - at > 2 and (block[at] | block[at + 1] | block[at + 2]) < 0x80:
            shared, unshared, size = block[at], block[at + 1], block[at + 2]
            at += 3
        else:
            try:
                shared, at = get_uvarint(block, at, end)
                unshared, at = get_uvarint(block, at, end)
                size, at = get_uvarint(block, at, end)
            except ValueError as error:
                raise damaged(name, f"{place}, entry at {start}", str(error)) from error
        if shared > len(key) or unshared + size > end - at:
            raise damaged(
                name, f"{place}, entry at {start}", "lengths run out of the block or the previous key"
            )
        if met < number and restarts[met] == start:
            if shared:
                raise damaged(name, f"{place}, entry at {start}", "a restart point shares a prefix")
            met += 1
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield BlockEntry(key, block[at : at + size])
        at += size
    if met != number and end:
        raise damaged(name, place, f"only {met} of {number} restart points are at an entry")
