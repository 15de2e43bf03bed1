"""The two loops over chunk references, compiled by numba: no Python object a reference.

A `ChunkRef` table, in a body of n bytes (`flatbuffer` explains tables and vtables):

    slot 0  index      reference to a vector of u32, one a dimension
    slot 1  inline     reference to a vector of bytes: the chunk itself
    slot 2  offset     u64, in a virtual chunk's file
    slot 3  length     u64
    slot 4  chunk_id   12 bytes inside the table: there only for a native chunk
    slot 5  location   reference to a string: there only for a virtual chunk (slot 8 when compressed)

The functions take the body as three views (u8, u16, u32) because flatbuffers are aligned; a misaligned
offset is damage. They stay free of helpers and globals, so that numba can cache them on disk, and they run
undecorated too (tests do that). They return -1, or the place of the damage.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

NATIVE, INLINE, VIRTUAL = 0, 1, 2


def walk_refs(u8, u16, u32, start, count, dimensions, kind, ids, offsets, lengths, coords, places):  # type: ignore[no-untyped-def]
    """Fill one row a chunk reference; the vector of references starts at `start`."""
    size = len(u8)
    known = -1
    table_bytes = index_at = inline_at = offset_at = length_at = id_at = location_at = packed_at = 0
    for row in range(count):
        place = start + 4 * row
        table = place + int(u32[place >> 2])
        if table & 3 or table + 4 > size:
            return place
        distance = int(u32[table >> 2])
        if distance >= 2147483648:
            distance -= 4294967296
        vtable = table - distance
        if vtable != known:
            if vtable < 0 or vtable & 1 or vtable + 4 > size:
                return table
            half = vtable >> 1
            vtable_bytes = int(u16[half])
            table_bytes = int(u16[half + 1])
            if vtable_bytes < 4 or vtable_bytes & 1 or vtable + vtable_bytes > size:
                return table
            slots = (vtable_bytes - 4) >> 1
            index_at = int(u16[half + 2]) if slots > 0 else 0
            inline_at = int(u16[half + 3]) if slots > 1 else 0
            offset_at = int(u16[half + 4]) if slots > 2 else 0
            length_at = int(u16[half + 5]) if slots > 3 else 0
            id_at = int(u16[half + 6]) if slots > 4 else 0
            location_at = int(u16[half + 7]) if slots > 5 else 0
            packed_at = int(u16[half + 10]) if slots > 8 else 0
            known = vtable
            if table_bytes < 4 or (index_at | inline_at | offset_at | length_at) & 3:
                return table
            if index_at + 4 > table_bytes or inline_at + 4 > table_bytes:
                return table
            if (offset_at and offset_at + 8 > table_bytes) or (length_at and length_at + 8 > table_bytes):
                return table
            if id_at and id_at + 12 > table_bytes:
                return table
        if table + table_bytes > size or index_at == 0:
            return table
        field = table + index_at
        vector = field + int(u32[field >> 2])
        if vector & 3 or vector + 4 + 4 * dimensions > size or int(u32[vector >> 2]) != dimensions:
            return table
        for axis in range(dimensions):
            coords[row, axis] = u32[(vector >> 2) + 1 + axis]
        if offset_at:
            field = (table + offset_at) >> 2
            offsets[row] = int(u32[field]) + (int(u32[field + 1]) << 32)
        if length_at:
            field = (table + length_at) >> 2
            lengths[row] = int(u32[field]) + (int(u32[field + 1]) << 32)
        if id_at:
            kind[row] = 0
            for byte in range(12):
                ids[row, byte] = u8[table + id_at + byte]
        elif inline_at:
            kind[row] = 1
            field = table + inline_at
            vector = field + int(u32[field >> 2])
            if vector & 3 or vector + 4 > size or vector + 4 + int(u32[vector >> 2]) > size:
                return table
            lengths[row] = int(u32[vector >> 2])
        elif location_at or packed_at:
            kind[row] = 2
        else:
            return table
        places[row] = table
    return -1


def native_hashes(u8, u16, u32, start, count, out, filled):  # type: ignore[no-untyped-def]
    """Append the first 64 bits of each native chunk's id; `filled[0]` counts them."""
    size = len(u8)
    known = -1
    table_bytes = inline_at = id_at = location_at = packed_at = 0
    used = int(filled[0])
    for row in range(count):
        place = start + 4 * row
        table = place + int(u32[place >> 2])
        if table & 3 or table + 4 > size:
            return place
        distance = int(u32[table >> 2])
        if distance >= 2147483648:
            distance -= 4294967296
        vtable = table - distance
        if vtable != known:
            if vtable < 0 or vtable & 1 or vtable + 4 > size:
                return table
            half = vtable >> 1
            vtable_bytes = int(u16[half])
            table_bytes = int(u16[half + 1])
            if vtable_bytes < 4 or vtable_bytes & 1 or vtable + vtable_bytes > size:
                return table
            slots = (vtable_bytes - 4) >> 1
            inline_at = int(u16[half + 3]) if slots > 1 else 0
            id_at = int(u16[half + 6]) if slots > 4 else 0
            location_at = int(u16[half + 7]) if slots > 5 else 0
            packed_at = int(u16[half + 10]) if slots > 8 else 0
            known = vtable
            if id_at and id_at + 12 > table_bytes:
                return table
        if table + table_bytes > size:
            return table
        if id_at:
            value = out[used] * 0
            for byte in range(8):
                value = (value << 8) | u8[table + id_at + byte]
            out[used] = value
            used += 1
        elif not (inline_at or location_at or packed_at):
            return table
    filled[0] = used
    return -1


@functools.cache
def compiled(name: str) -> Callable[..., int]:
    """Give a loop of this module compiled, from numba's cache on disk when it can be written."""
    import numba

    function: Any = globals()[name]
    try:
        loop: Callable[..., int] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for the cache: a read-only package without a home
        loop = numba.njit(nogil=True)(function)
    return loop
