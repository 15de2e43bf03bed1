"""One block of a range: decodes its entries, or copies the rows of an equal block."""

# mypy: allow-untyped-defs, allow-untyped-calls
import numpy as np

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
def walk_block(raw, raw_size, key, in_order, wanted, columns, state):
    """Decode all records of an uncompressed block. Returns a code; `state` has the position and sizes of outputs."""
    number = memory.load32(raw + raw_size - 4)
    if number < 1 or 4 * number > raw_size - 4:
        return k.BAD_RESTARTS
    end = raw + raw_size - 4 - 4 * number
    if memory.load32(end) != 0 or (end == raw and number != 1):
        return k.BAD_RESTARTS
    met = 0
    next_restart = 0
    address_bytes = memory.address_of(columns.address_bytes)
    etag_bytes = memory.address_of(columns.etag_bytes)
    key_bytes = memory.address_of(columns.key_bytes)
    row, address_at, etag_at, key_at = state[k.ROW], state[k.ADDRESS_AT], state[k.ETAG_AT], state[k.KEY_AT]
    rows = len(columns.address_types)
    key_size = state[k.KEY_SIZE]
    internal_size = 0  # keys share no prefix across blocks
    keys = values = others = 0
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
        columns.address_types[row] = address_type
        others += address_type != memory.U64(1)
        # The requested columns.
        if wanted & k.ADDRESS:
            columns.address_offsets[row] = address_at
            seen = memory.copy(address, address_bytes + address_at, address_size)
            address_at += address_size
        else:
            seen = memory.or_words(address, address_size)
        if seen & memory.U64(0x8080808080808080) and not memory.is_utf8(address, address + address_size):
            return k.BAD_UTF8
        if wanted & k.ADDRESS_HASH:
            columns.address_hashes[row] = xxh64(address, address_size, memory.U64(k.SEED))
        if wanted & k.SIZE:
            columns.sizes[row] = np.int64(object_size)
        if wanted & k.CONTENT_HASH:
            columns.content_hashes[row] = xxh64(etag, etag_size, object_size)
        if wanted & k.ETAG:
            columns.etag_offsets[row] = etag_at
            seen = memory.copy(etag, etag_bytes + etag_at, etag_size)
            etag_at += etag_size
            if seen & memory.U64(0x8080808080808080) and not memory.is_utf8(etag, etag + etag_size):
                return k.BAD_UTF8
        if wanted & k.KEY:
            if size > len(columns.key_bytes) - k.SLACK - key_at:
                return k.TOO_MANY
            columns.key_offsets[row] = key_at
            memory.copy(key, key_bytes + key_at, size)
            key_at += size
        row += 1
    if met != number and end != raw:
        return k.BAD_RESTARTS
    block = state[k.BLOCK]
    columns.key_sums[block] = keys
    columns.value_sums[block] = values
    state[k.ROW], state[k.ADDRESS_AT], state[k.ETAG_AT], state[k.KEY_AT] = row, address_at, etag_at, key_at
    state[k.KEY_SIZE] = key_size
    state[k.OTHERS] += others
    return k.OK


@memory.jit
def _copy_words(old, new, first, row, count):
    memory.copy(memory.address_of(old) + 8 * first, memory.address_of(new) + 8 * row, 8 * count)


@memory.jit
def _copy_texts(old_offsets, old_bytes, offsets, texts, first, last, row, at):
    """Copy the texts of a range of rows to `row`, after `at` bytes of output. Returns the number of bytes added."""
    start = np.int64(old_offsets[first])
    for source in range(first, last):
        offsets[row + source - first] = np.int64(old_offsets[source]) - start + at
    size = np.int64(old_offsets[last]) - start
    memory.copy(memory.address_of(old_bytes) + start, memory.address_of(texts) + at, size)
    return size


@memory.jit
def take_block(source, old, wanted, columns, state):
    """Copy the rows of a block from an earlier decoding."""
    block = state[k.BLOCK]
    first, last = old.first_rows[source], old.first_rows[source + 1]
    row = state[k.ROW]
    count = last - first
    if count > len(columns.address_types) - row:
        return k.TOO_MANY
    columns.key_sums[block] = old.key_sums[source]
    columns.value_sums[block] = old.value_sums[source]
    for at in range(count):
        kind = old.address_types[first + at]
        columns.address_types[row + at] = kind
        state[k.OTHERS] += kind != 1
    if wanted & k.SIZE:
        _copy_words(old.sizes, columns.sizes, first, row, count)
    if wanted & k.ADDRESS_HASH:
        _copy_words(old.address_hashes, columns.address_hashes, first, row, count)
    if wanted & k.CONTENT_HASH:
        _copy_words(old.content_hashes, columns.content_hashes, first, row, count)
    if wanted & k.ADDRESS:
        state[k.ADDRESS_AT] += _copy_texts(
            old.address_offsets,
            old.address_bytes,
            columns.address_offsets,
            columns.address_bytes,
            first,
            last,
            row,
            state[k.ADDRESS_AT],
        )
    if wanted & k.ETAG:
        state[k.ETAG_AT] += _copy_texts(
            old.etag_offsets,
            old.etag_bytes,
            columns.etag_offsets,
            columns.etag_bytes,
            first,
            last,
            row,
            state[k.ETAG_AT],
        )
    if wanted & k.KEY:
        size = np.int64(old.key_offsets[last]) - np.int64(old.key_offsets[first])
        if size > len(columns.key_bytes) - k.SLACK - state[k.KEY_AT]:
            return k.TOO_MANY
        state[k.KEY_AT] += _copy_texts(
            old.key_offsets,
            old.key_bytes,
            columns.key_offsets,
            columns.key_bytes,
            first,
            last,
            row,
            state[k.KEY_AT],
        )
    state[k.ROW] = row + count
    return k.OK
