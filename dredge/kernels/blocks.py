"""Blocks of a range: decodes the entries of one, or copies the rows of equal blocks."""

# mypy: allow-untyped-defs, allow-untyped-calls

from dredge.kernels import interface as k
from dredge.kernels import memory
from dredge.kernels.codecs import xxh64


@memory.jit
def _compare_keys(key, key_size, shared, suffix, size):
    """Whether a user key (`shared` bytes of the previous key, then the suffix) sorts after the previous one, `key`."""
    if shared >= key_size:
        return size > key_size  # it begins with the whole old key
    if size <= shared:
        return False  # the old key begins with it
    limit = min(size, key_size)
    for at in range(shared, limit):
        new, old = memory.load8(suffix + at - shared), memory.load8(key + at)
        if new != old:
            return new > old
    return size > key_size


@memory.jit
def walk_block(raw, raw_size, key, in_order, blocks, state):
    """Decode all records of an uncompressed block. Returns a code; `state` has the position and sizes of outputs."""
    number = memory.load32(raw + raw_size - 4)
    if number < 1 or 4 * number > raw_size - 4:
        return k.BAD_RESTARTS
    end = raw + raw_size - 4 - 4 * number
    if memory.load32(end) != 0 or (end == raw and number != 1):
        return k.BAD_RESTARTS
    met = 0
    next_restart = 0
    address_types, sizes = state[k.ADDRESS_TYPE], state[k.SIZE]
    address_hashes, content_hashes = state[k.ADDRESS_HASH], state[k.CONTENT_HASH]
    address_offsets, address_bytes, address_at = state[k.ADDRESS], state[k.ADDRESS + 1], state[k.ADDRESS + 2]
    etag_offsets, etag_bytes, etag_at = state[k.ETAG], state[k.ETAG + 1], state[k.ETAG + 2]
    key_offsets, key_bytes, key_at = state[k.KEY], state[k.KEY + 1], state[k.KEY + 2]
    row, rows, keys_max = state[k.ROW], state[k.ROWS_MAX], state[k.KEYS_MAX]
    key_size = state[k.KEY_SIZE]
    internal_size = 0  # keys share no prefix across blocks
    keys = values = 0
    at = raw
    while at < end:
        start = at
        state[k.PLACE] = start - raw
        shared, at = memory.read_length(at, end)
        if at == 0:
            return k.BAD_ENTRY
        unshared, at = memory.read_length(at, end)
        if at == 0:
            return k.BAD_ENTRY
        value_size, at = memory.read_length(at, end)
        if at == 0 or shared > internal_size or unshared + value_size > end - at:
            return k.BAD_ENTRY
        if met < number and next_restart == start - raw:
            if shared:
                return k.BAD_RESTARTS
            met += 1
            next_restart = memory.load32(end + 4 * met)
        # The key.
        internal_size = shared + unshared
        size = internal_size - 8
        if size < 0:
            return k.BAD_TRAILER
        if in_order and not _compare_keys(key, key_size, shared, at, size):
            return k.BAD_ORDER
        in_order = True
        memory.copy(at, key + shared, unshared)
        if memory.load64(key + size) != memory.U64(1):
            return k.BAD_TRAILER
        key_size = size
        at += unshared
        keys += internal_size
        values += value_size
        if row == rows:
            return k.TOO_MANY
        # The value: identity, then the entry.
        stop = at + value_size
        following = stop
        length, at = memory.read_length(at, stop)
        if at == 0 or length & 1 or (length >> 1) > stop - at:
            return k.BAD_VALUE
        at += length >> 1
        length, at = memory.read_length(at, stop)
        if at == 0 or length & 1 or (length >> 1) > stop - at:
            return k.BAD_VALUE
        stop = at + (length >> 1)
        # The entry's fields.
        address = etag = at
        address_size = etag_size = 0
        object_size = memory.U64(0)
        address_type = memory.U64(0)
        while at < stop:
            tag, at = memory.read_length(at, stop)
            if at == 0 or tag < 8:
                return k.BAD_ENTRY_MESSAGE
            wire = tag & 7
            if wire == 2:
                length, at = memory.read_length(at, stop)
                if at == 0 or length > stop - at:
                    return k.BAD_ENTRY_MESSAGE
                if tag == 10:
                    address, address_size = at, length
                elif tag == 34:
                    etag, etag_size = at, length
                at += length
            elif wire == 0:
                value, at = memory.read_uvarint(at, stop)
                if at == 0:
                    return k.BAD_ENTRY_MESSAGE
                if tag == 24:
                    object_size = value
                elif tag == 48:
                    address_type = value
            elif wire == 1 or wire == 5:
                at += 8 if wire == 1 else 4
                if at > stop:
                    return k.BAD_ENTRY_MESSAGE
            else:
                return k.BAD_ENTRY_MESSAGE
        at = following
        if address_type > memory.U64(2):
            return k.BAD_ADDRESS_TYPE
        # The requested columns.
        if address_types:
            memory.store8(address_types + row, address_type)
        if address_offsets:
            memory.store32(address_offsets + 4 * row, address_at)
            seen = memory.copy(address, address_bytes + address_at, address_size)
            address_at += address_size
        else:
            seen = memory.or_words(address, address_size)
        if seen & memory.U64(0x8080808080808080) and not memory.is_utf8(address, address + address_size):
            return k.BAD_UTF8
        if address_hashes:
            memory.store64(address_hashes + 8 * row, xxh64(address, address_size, memory.U64(k.SEED)))
        if sizes:
            memory.store64(sizes + 8 * row, object_size)
        if content_hashes:
            memory.store64(content_hashes + 8 * row, xxh64(etag, etag_size, object_size))
        if etag_offsets:
            memory.store32(etag_offsets + 4 * row, etag_at)
            seen = memory.copy(etag, etag_bytes + etag_at, etag_size)
            etag_at += etag_size
            if seen & memory.U64(0x8080808080808080) and not memory.is_utf8(etag, etag + etag_size):
                return k.BAD_UTF8
        if key_offsets:
            if size > keys_max - key_at:
                return k.TOO_MANY
            memory.store32(key_offsets + 4 * row, key_at)
            memory.copy(key, key_bytes + key_at, size)
            key_at += size
        row += 1
    if met != number and end != raw:
        return k.BAD_RESTARTS
    block = state[k.BLOCK]
    blocks[block, k.KEY_BYTES], blocks[block, k.VALUE_BYTES] = keys, values
    state[k.KEY_TOTAL] += keys
    state[k.VALUE_TOTAL] += values
    state[k.ADDRESS + 2], state[k.ETAG + 2], state[k.KEY + 2] = address_at, etag_at, key_at
    state[k.ROW], state[k.KEY_SIZE] = row, key_size
    return k.OK


@memory.jit
def _copy_numbers(old, state, column, width, first, count):
    if state[column]:
        memory.copy(old[column] + width * first, state[column] + width * state[k.ROW], width * count)


@memory.jit
def _copy_texts(old, state, column, first, count):
    source, target = old[column] + 4 * first, state[column] + 4 * state[k.ROW]
    if not state[column]:
        return True
    start, at = memory.load32(source), state[column + 2]
    size = memory.load32(source + 4 * count) - start
    if column == k.KEY and size > state[k.KEYS_MAX] - at:
        return False
    for offset in range(0, 4 * count, 4):
        memory.store32(target + offset, memory.load32(source + offset) - start + at)
    memory.copy(old[column + 1] + start, state[column + 1] + at, size)
    state[column + 2] = at + size
    return True


@memory.jit
def take_blocks(block, stop, blocks, old_blocks, old, state):
    """Copy the rows of successive blocks from an earlier decoding."""
    source = blocks[block, k.SOURCE]
    first = old_blocks[source, k.FIRST_ROW]
    count = old_blocks[source + stop - block, k.FIRST_ROW] - first
    if count > state[k.ROWS_MAX] - state[k.ROW]:
        return k.TOO_MANY
    _copy_numbers(old, state, k.ADDRESS_TYPE, 1, first, count)
    _copy_numbers(old, state, k.SIZE, 8, first, count)
    _copy_numbers(old, state, k.ADDRESS_HASH, 8, first, count)
    _copy_numbers(old, state, k.CONTENT_HASH, 8, first, count)
    _copy_texts(old, state, k.ADDRESS, first, count)
    _copy_texts(old, state, k.ETAG, first, count)
    if not _copy_texts(old, state, k.KEY, first, count):
        return k.TOO_MANY
    for at in range(block, stop):
        equal = source + at - block
        blocks[at, k.FIRST_ROW] = old_blocks[equal, k.FIRST_ROW] - first + state[k.ROW]
        blocks[at, k.KEY_BYTES], blocks[at, k.VALUE_BYTES] = (
            old_blocks[equal, k.KEY_BYTES],
            old_blocks[equal, k.VALUE_BYTES],
        )
        state[k.KEY_TOTAL] += blocks[at, k.KEY_BYTES]
        state[k.VALUE_TOTAL] += blocks[at, k.VALUE_BYTES]
    state[k.ROW] += count
    return k.OK
