"""The kernels for callers: the data blocks of a range and their rows; hashes of texts."""

# mypy: allow-untyped-defs, allow-untyped-calls
import numpy as np
from numba import njit, types

from dredge.kernels import interface as k
from dredge.kernels.blocks import take_blocks, walk_block
from dredge.kernels.codecs import masked_crc, uncompress, xxh64
from dredge.kernels.memory import (
    BLOCKS,
    BYTES,
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
    store32,
)


@njit(types.int64(BYTES, BLOCKS, types.int64), **OPTIONS)
def read_index(body, blocks, found):
    """Read the handles of an index block, after those found before; returns the number of all, or -1 when it is damaged
    or has too many."""
    block, size = address_of(body), len(body)
    if size < 8:
        return -1
    restarts = load32(block + size - 4)
    if restarts < 1 or 4 * restarts > size - 4:
        return -1
    end = block + size - 4 - 4 * restarts
    at = block
    key_size = 0
    while at < end:
        shared, at = read_length(at, end)
        if at == 0:
            return -1
        unshared, at = read_length(at, end)
        if at == 0:
            return -1
        value_size, at = read_length(at, end)
        if at == 0 or shared > key_size or unshared + value_size > end - at or found == len(blocks) - 1:
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
        blocks[found, k.OFFSET], blocks[found, k.LENGTH] = np.int64(offset), np.int64(length)
        found += 1
    return found


@njit(types.void(BYTES, types.int64, BLOCKS, BYTES, BLOCKS, I64S), **OPTIONS)
def measure(data, end, blocks, old_data, old_blocks, state):
    """Check that the data blocks tile the file up to `end`; read their uncompressed sizes; find blocks to copy from the
    range before: those between two blocks equal to the neighbours of an equal block."""
    base, old_base, at = address_of(data), address_of(old_data), 0
    count, old_count = len(blocks) - 1, len(old_blocks) - 1
    blocks[:, k.FIRST_ALIKE] = -1
    blocks[count, k.SOURCE] = -1
    for block in range(count):
        state[k.BLOCK] = block
        length = size = blocks[block, k.LENGTH]
        if blocks[block, k.OFFSET] != at or length > end - at - 5:
            state[k.CODE] = k.BAD_TILING
            return
        start, stop = base + at, base + at + length
        if load8(stop) == 1:
            snappy_size, behind = read_uvarint(start, stop)
            # Snappy's best is 64 bytes from 3.
            possible = behind > 0 and snappy_size <= U64(min(22 * length, k.BLOCK_SIZE_MAX))
            size = np.int64(snappy_size) if possible else -1
        blocks[block, k.RAW_SIZE] = size
        state[k.RAW] += max(size, 0)
        state[k.LARGEST] = max(size, state[k.LARGEST])
        state[k.IMPOSSIBLE] += size < 0
        checksum = load32(stop + 1)
        source = old_blocks[checksum % old_count, k.FIRST_ALIKE] if old_count else -1
        while source >= 0:
            old = old_base + old_blocks[source, k.OFFSET]
            if old_blocks[source, k.LENGTH] == length and load32(old + length + 1) == checksum:
                if differ(start, old, length + 5):
                    source = -1
                break
            source = old_blocks[source, k.NEXT_ALIKE]
        blocks[block, k.SOURCE] = source
        blocks[block, k.NEXT_ALIKE] = blocks[checksum % count, k.FIRST_ALIKE]
        blocks[checksum % count, k.FIRST_ALIKE] = block
        at += length + 5
    if at != end:
        state[k.CODE] = k.BAD_TILING
    before = -1
    for block in range(count):
        source = blocks[block, k.SOURCE]
        # The last of a run is decoded, since the next block's first key is compared with its last one.
        if before < 0 or before + 1 != source or blocks[block + 1, k.SOURCE] != source + 1:
            blocks[block, k.SOURCE] = -1
        before = source


@njit(types.void(BYTES, BLOCKS, BLOCKS, I64S, U8S, U8S, I64S), **OPTIONS)
def decode(data, blocks, old_blocks, old, scratch, key, state):
    """Decode the data blocks of a range, as `measure` left them in `blocks`.

    `old_blocks` and `old` are `blocks` and `state` of the range before. `scratch` has room for the largest block, `key`
    for the longest key.
    """
    base, room, last_key = address_of(data), address_of(scratch), address_of(key)
    count = len(blocks) - 1
    block = 0
    while block < count:
        state[k.BLOCK] = block
        state[k.PLACE] = 0
        if blocks[block, k.SOURCE] >= 0:
            after = block + 1
            while blocks[after, k.SOURCE] >= 0:
                after += 1
            state[k.CODE] = take_blocks(block, after, blocks, old_blocks, old, state)
            if state[k.CODE] != k.OK:
                return
            block = after
            continue
        before = blocks[block, k.FIRST_ROW] = state[k.ROW]
        start, length = base + blocks[block, k.OFFSET], blocks[block, k.LENGTH]
        stop, size = start + length, blocks[block, k.RAW_SIZE]
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
        # After copied rows this compares with the last key before them; their order was checked when they were decoded.
        state[k.CODE] = walk_block(raw, size, last_key, state[k.KEY_SIZE] >= 0, blocks, state)
        if state[k.CODE] != k.OK:
            return
        if state[k.ROW] == before and count > 1:
            state[k.CODE] = k.NO_RECORDS
            return
        block += 1
    rows = blocks[count, k.FIRST_ROW] = state[k.ROW]
    for column in (k.ADDRESS, k.ETAG, k.KEY):
        if state[column]:
            store32(state[column] + 4 * rows, state[column + 2])


@njit(types.void(BYTES, I64S, U64S), **OPTIONS)
def hash_texts(texts, offsets, hashes):
    """Hash concatenated texts by XXH64, all with the same seed."""
    base = address_of(texts)
    for row in range(len(hashes)):
        start = offsets[row]
        hashes[row] = xxh64(base + start, offsets[row + 1] - start, U64(k.SEED))
