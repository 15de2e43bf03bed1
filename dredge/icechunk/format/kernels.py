"""Loops over bodies and chunk references, compiled by numba, without a Python object for each reference.

A `ChunkRef` table, in a body of n bytes (`flatbuffer` explains tables and vtables):

    slot 0  index      reference to a vector of u32, one a dimension
    slot 1  inline     reference to a vector of bytes: the chunk itself
    slot 2  offset     u64, in a virtual chunk's file
    slot 3  length     u64
    slot 4  chunk_id   12 bytes inside the table: of a native chunk only
    slot 5  location   reference to a string: of a virtual chunk only (slot 8 when compressed)

The functions take the body as three views (u8, u16, u32) because flatbuffers are aligned; a misaligned offset is
damage. They use no helpers and globals, so that numba can cache them on disk, and they run undecorated too (in tests).
They return -1, or the place of the damage.

`cover` has a byte for each four bytes of the body; a loop sets it for each structure (`verifier`).
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

# A process reads so many bytes of bodies without numba, which takes half a second and 100 MiB to load.
_FEW = 1 << 20
_read = 0


def walk_refs(u8, u16, u32, start, count, dimensions, kind, ids, lengths, coords, places):  # type: ignore[no-untyped-def]
    """Fill one row for each chunk reference in the vector at `start`."""
    size = len(u8)
    known = -1
    table_bytes = index_at = inline_at = length_at = id_at = location_at = packed_at = 0
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
            length_at = int(u16[half + 5]) if slots > 3 else 0
            id_at = int(u16[half + 6]) if slots > 4 else 0
            location_at = int(u16[half + 7]) if slots > 5 else 0
            packed_at = int(u16[half + 10]) if slots > 8 else 0
            known = vtable
            if table_bytes < 4 or (index_at | inline_at | length_at) & 3:
                return table
            if index_at + 4 > table_bytes or inline_at + 4 > table_bytes:
                return table
            if length_at and length_at + 8 > table_bytes:
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


def native_hashes(u8, u16, u32, start, count, out, texts, frames, filled, cover):  # type: ignore[no-untyped-def]
    """Collect the first 64 bits of each native chunk's id, and the place of each virtual chunk's location.

    `texts` and `frames` get place and length of plain and compressed locations; `filled` has the numbers of ids, texts
    and frames. Every field and vector of a reference is marked in `cover`.
    """
    size = len(u8)
    known = -1
    table_bytes = index_at = inline_at = offset_at = length_at = id_at = 0
    location_at = etag_at = modified_at = packed_at = extra_at = 0
    used, plain, packed = int(filled[0]), int(filled[1]), int(filled[2])
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
            if vtable_bytes < 4 or vtable_bytes & 1 or vtable + vtable_bytes > size or table_bytes < 4:
                return table
            slots = (vtable_bytes - 4) >> 1
            index_at = int(u16[half + 2]) if slots > 0 else 0
            inline_at = int(u16[half + 3]) if slots > 1 else 0
            offset_at = int(u16[half + 4]) if slots > 2 else 0
            length_at = int(u16[half + 5]) if slots > 3 else 0
            id_at = int(u16[half + 6]) if slots > 4 else 0
            location_at = int(u16[half + 7]) if slots > 5 else 0
            etag_at = int(u16[half + 8]) if slots > 6 else 0
            modified_at = int(u16[half + 9]) if slots > 7 else 0
            packed_at = int(u16[half + 10]) if slots > 8 else 0
            extra_at = int(u16[half + 11]) if slots > 9 else 0
            for slot in range(10, slots):
                if u16[half + 2 + slot]:
                    return table
            if index_at < 4 or index_at + 4 > table_bytes:
                return table
            if (inline_at and inline_at < 4) or (location_at and location_at < 4):
                return table
            if (etag_at and etag_at < 4) or (packed_at and packed_at < 4) or (extra_at and extra_at < 4):
                return table
            if (index_at | inline_at | offset_at | length_at | id_at | location_at) & 3:
                return table
            if (etag_at | modified_at | packed_at | extra_at) & 3:
                return table
            if inline_at + 4 > table_bytes or location_at + 4 > table_bytes or etag_at + 4 > table_bytes:
                return table
            if packed_at + 4 > table_bytes or extra_at + 4 > table_bytes:
                return table
            if offset_at and (offset_at < 4 or offset_at + 8 > table_bytes):
                return table
            if length_at and (length_at < 4 or length_at + 8 > table_bytes):
                return table
            if id_at and (id_at < 4 or id_at + 12 > table_bytes):
                return table
            if modified_at and (modified_at < 4 or modified_at + 4 > table_bytes):
                return table
            known = vtable
            for word in range(vtable >> 2, ((vtable + vtable_bytes - 1) >> 2) + 1):
                cover[word] = 1
        if table + table_bytes > size:
            return table
        word = table >> 2
        cover[word] = 1
        field = word + (index_at >> 2)
        cover[field] = 1
        vector = (field << 2) + int(u32[field])
        if vector & 3 or vector + 4 > size:
            return table
        vector >>= 2
        coordinates = int(u32[vector])
        if ((vector + 1 + coordinates) << 2) > size:
            return table
        for at in range(vector, vector + 1 + coordinates):
            cover[at] = 1
        if offset_at:
            cover[word + (offset_at >> 2)] = 1
            cover[word + (offset_at >> 2) + 1] = 1
        if length_at:
            cover[word + (length_at >> 2)] = 1
            cover[word + (length_at >> 2) + 1] = 1
        if id_at:
            if inline_at or location_at or packed_at:
                return table
            field = word + (id_at >> 2)
            cover[field] = 1
            cover[field + 1] = 1
            cover[field + 2] = 1
            value = out[used] * 0
            for byte in range(8):
                value = (value << 8) | u8[table + id_at + byte]
            out[used] = value
            used += 1
        elif not (inline_at or location_at or packed_at):
            return table
        if modified_at:
            cover[word + (modified_at >> 2)] = 1
        if inline_at or location_at or etag_at or packed_at or extra_at:
            for at in (inline_at, location_at, etag_at, packed_at, extra_at):
                if at:
                    field = word + (at >> 2)
                    cover[field] = 1
                    vector = (field << 2) + int(u32[field])
                    if vector & 3 or vector + 4 > size:
                        return table
                    end = vector + 4 + int(u32[vector >> 2])
                    if end > size:
                        return table
                    for touched in range(vector >> 2, ((end - 1) >> 2) + 1):
                        cover[touched] = 1
            if location_at:
                field = word + (location_at >> 2)
                vector = (field << 2) + int(u32[field])
                texts[plain, 0] = vector + 4
                texts[plain, 1] = u32[vector >> 2]
                plain += 1
            if packed_at:
                field = word + (packed_at >> 2)
                vector = (field << 2) + int(u32[field])
                frames[packed, 0] = vector + 4
                frames[packed, 1] = u32[vector >> 2]
                packed += 1
    filled[0], filled[1], filled[2] = used, plain, packed
    return -1


def account(u8, u16, u32, kinds, widths, below, firsts, frames, cover, wanted, found, whole):  # type: ignore[no-untyped-def]
    """Follow every field of every table from the root, check its bounds, and mark it in `cover`."""
    size = len(u8)
    tables = used = 0
    depth = 0
    frames[0, 0], frames[0, 1], frames[0, 2] = 0, 1, 0
    if size >= 8 and u32[1] == 1802003273:  # "Ichk", the identifier of the format
        cover[1] = 1
    cover[0] = 1
    while depth >= 0:
        if frames[depth, 1] == 0:
            depth -= 1
            continue
        place = int(frames[depth, 0])
        shape = int(frames[depth, 2])
        frames[depth, 0] += 4
        frames[depth, 1] -= 1
        table = place + int(u32[place >> 2])
        if table & 3 or table + 4 > size:
            return place
        tables += 1
        if tables > size:
            return place
        if shape < 0:  # a string
            end = table + 4 + int(u32[table >> 2]) + 1
            if end > size:
                return place
            for word in range(table >> 2, ((end - 1) >> 2) + 1):
                cover[word] = 1
            continue
        distance = int(u32[table >> 2])
        if distance >= 2147483648:
            distance -= 4294967296
        vtable = table - distance
        if vtable < 0 or vtable & 1 or vtable + 4 > size:
            return table
        half = vtable >> 1
        vtable_bytes = int(u16[half])
        table_bytes = int(u16[half + 1])
        if vtable_bytes < 4 or vtable_bytes & 1 or vtable + vtable_bytes > size:
            return table
        if table_bytes < 4 or table + table_bytes > size:
            return table
        cover[table >> 2] = 1
        for word in range(vtable >> 2, ((vtable + vtable_bytes - 1) >> 2) + 1):
            cover[word] = 1
        first = int(firsts[shape])
        known = int(firsts[shape + 1]) - first
        before = 0
        for slot in range((vtable_bytes - 4) >> 1):
            at = int(u16[half + 2 + slot])
            chooser, before = before, at
            if at == 0:
                continue
            if slot >= known or at < 4:
                return table
            kind = int(kinds[first + slot])
            width = int(widths[first + slot])
            field = table + at
            if kind == 0:
                if at + width > table_bytes:
                    return table
                if first + slot == wanted:
                    used += 1
                    if used >= len(found):
                        return table
                    found[used] = field
                for word in range(field >> 2, ((field + width - 1) >> 2) + 1):
                    cover[word] = 1
                continue
            if at + 4 > table_bytes or field & 3:
                return table
            cover[field >> 2] = 1
            target = field + int(u32[field >> 2])
            if target & 3 or target + 4 > size:
                return table
            if kind == 3 or kind == 6:
                lower = int(below[first + slot])
                if kind == 6:
                    choice = int(u8[table + chooser]) if chooser else 0
                    if choice == 0 or choice > width:
                        return table
                    lower += choice - 1
                depth += 1
                frames[depth, 0], frames[depth, 1], frames[depth, 2] = field, 1, lower
                continue
            count = int(u32[target >> 2])
            item = 1 if kind == 2 else width if kind == 1 else 4
            end = target + 4 + count * item + (1 if kind == 2 else 0)
            if end > size:
                return table
            for word in range(target >> 2, ((end - 1) >> 2) + 1):
                cover[word] = 1
            if kind == 4 or kind == 5:
                depth += 1
                frames[depth, 0], frames[depth, 1] = target + 4, count
                frames[depth, 2] = int(below[first + slot]) if kind == 4 else -1
    found[0] = used
    if whole:
        for word in range(len(cover)):
            if u32[word] and not cover[word]:
                return word * 4
    return -1


def uncovered(u32, cover, words):  # type: ignore[no-untyped-def]
    """Find a word outside all structures that is not zero; returns its place, or -1."""
    step = 256
    for start in range(0, words, step):
        stop = min(start + step, words)
        found = 0
        for word in range(start, stop):
            found |= int(u32[word]) * (1 - int(cover[word]))
        if found:
            for word in range(start, stop):
                if u32[word] and not cover[word]:
                    return word * 4
    return -1


def loop_for(name: str, size: int) -> Callable[..., int]:
    """Return a loop for a body of `size` bytes: in Python until the process has read enough, then compiled."""
    global _read
    _read += size
    if _read > _FEW or "numba" in sys.modules:
        return compiled(name)
    loop: Callable[..., int] = globals()[name]
    return loop


@functools.cache
def compiled(name: str) -> Callable[..., int]:
    """Return a compiled loop of this module, from numba's cache on disk if that is writable."""
    import numba

    function: Any = globals()[name]
    try:
        loop: Callable[..., int] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for the cache: a read-only package without a home
        loop = numba.njit(nogil=True)(function)
    return loop
