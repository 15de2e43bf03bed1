"""The kernels for callers: the data blocks of a range and their rows; hashes of texts."""

# mypy: allow-untyped-defs, allow-untyped-calls
import numpy as np
from numba import njit, types

from dredge.kernels import interface as k
from dredge.kernels.blocks import take_block, walk_block
from dredge.kernels.codecs import masked_crc, uncompress, xxh64
from dredge.kernels.memory import (
    BYTES,
    I32S,
    I64S,
    OPTIONS,
    U8S,
    U64,
    U64S,
    address_of,
    differ,
    load8,
    load32,
    read_length,
    read_uvarint,
)


@njit(types.int64(BYTES, I64S, I64S), **OPTIONS)
def read_index(body, offsets, lengths):
    """Read the handles of an index block; returns their number, or -1 when it is damaged or has too many."""
    block, size = address_of(body), len(body)
    if size < 8:
        return -1
    restarts = load32(block + size - 4)
    if restarts < 1 or 4 * restarts > size - 4:
        return -1
    end = block + size - 4 - 4 * restarts
    at = block
    count = key_size = 0
    while at < end:
        shared, at = read_length(at, end)
        if at == 0:
            return -1
        unshared, at = read_length(at, end)
        if at == 0:
            return -1
        value_size, at = read_length(at, end)
        if at == 0 or shared > key_size or unshared + value_size > end - at or count == len(offsets):
            return -1
        key_size = shared + unshared
        at += unshared
        stop = at + value_size
        offset, at = read_uvarint(at, stop)
        if at == 0:
            return -1
        length, at = read_uvarint(at, stop)
        if at != stop or (offset | length) >> U64(62):
            return -1
        offsets[count] = np.int64(offset)
        lengths[count] = np.int64(length)
        count += 1
    return count


@njit(types.void(BYTES, I64S, I64S, I64S), **OPTIONS)
def measure(data, offsets, lengths, sizes):
    """Read the uncompressed size of each block; -1 for an impossible size."""
    for block in range(len(offsets)):
        start, length = address_of(data) + offsets[block], lengths[block]
        sizes[block] = length
        if load8(start + length) == 1:
            size, behind = read_uvarint(start, start + length)
            # Snappy's best is 64 bytes from 3.
            possible = behind > 0 and size <= U64(22 * length) and size <= U64(k.BLOCK_SIZE_MAX)
            sizes[block] = np.int64(size) if possible else -1


@njit(types.void(BYTES, I64S, I64S, BYTES, I64S, I64S, I64S), **OPTIONS)
def keep_equal(data, offsets, lengths, old_data, old_offsets, old_lengths, sources):
    """Of the guessed equal old blocks, keep those equal to the last byte; else -1."""
    for block in range(len(sources)):
        source = sources[block]
        if source >= 0 and (
            lengths[block] != old_lengths[source]
            or differ(
                address_of(data) + offsets[block],
                address_of(old_data) + old_offsets[source],
                lengths[block] + 5,
            )
        ):
            sources[block] = -1


_COLUMNS = types.NamedTuple(
    [I32S, U8S, U8S, I64S, I32S, U8S, I32S, U8S, U64S, U64S, I64S, I64S, I64S], k.Columns
)


@njit(types.void(BYTES, I64S, I64S, I64S, I64S, _COLUMNS, U8S, U8S, types.int64, _COLUMNS, I64S), **OPTIONS)
def decode(data, offsets, lengths, sizes, sources, old, scratch, key, wanted, columns, state):
    """Decode the data blocks of a range.

    `sizes` are the results of `measure`. `sources` has for each block an equal block of `old`, or -1; such a block
    is between two blocks equal to the neighbours of its source. `scratch` has room for the largest block, `key`
    for the longest key.
    """
    base, room, last_key = address_of(data), address_of(scratch), address_of(key)
    taken = False
    for block in range(len(offsets)):
        state[k.BLOCK] = block
        state[k.PLACE] = 0
        columns.first_rows[block] = state[k.ROW]
        if sources[block] >= 0:
            state[k.CODE] = take_block(sources[block], old, wanted, columns, state)
            if state[k.CODE] != k.OK:
                return
            taken = True
            continue
        start, length, size = base + offsets[block], lengths[block], sizes[block]
        stop = start + length
        if masked_crc(start, length + 1) != U64(load32(stop + 1)):
            state[k.CODE] = k.BAD_CHECKSUM
            return
        kind = load8(stop)
        if kind > 1:
            state[k.CODE] = k.BAD_TYPE
            return
        raw = start
        if kind == 1:
            _, body = read_uvarint(start, stop)
            if size < 0 or body == 0 or not uncompress(body, stop, room, size):
                state[k.CODE] = k.BAD_SNAPPY
                return
            raw = room
        if size < 8:
            state[k.CODE] = k.BAD_RESTARTS
            return
        before = state[k.ROW]
        # After copied rows the last key is unknown; their order was checked when they were decoded.
        state[k.CODE] = walk_block(
            raw, size, last_key, state[k.KEY_SIZE] >= 0 and not taken, wanted, columns, state
        )
        taken = False
        if state[k.CODE] != k.OK:
            return
        if state[k.ROW] == before and len(offsets) > 1:
            state[k.CODE] = k.NO_RECORDS
            return
    columns.first_rows[len(offsets)] = state[k.ROW]
    if wanted & k.ADDRESS:
        columns.address_offsets[state[k.ROW]] = state[k.ADDRESS_AT]
    if wanted & k.ETAG:
        columns.etag_offsets[state[k.ROW]] = state[k.ETAG_AT]
    if wanted & k.KEY:
        columns.key_offsets[state[k.ROW]] = state[k.KEY_AT]


@njit(types.void(BYTES, I64S, U64S), **OPTIONS)
def hash_texts(texts, offsets, hashes):
    """Hash concatenated texts by XXH64, all with the same seed."""
    base = address_of(texts)
    for row in range(len(hashes)):
        start = offsets[row]
        hashes[row] = xxh64(base + start, offsets[row + 1] - start, U64(k.SEED))
