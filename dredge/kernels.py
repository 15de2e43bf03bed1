"""Loops that Python is too slow for, compiled by numba: checksums, Snappy, the walk through blocks, hashes.

All kernels live in this one file on purpose: numba's cache looks at the file of a function only, and would
run old code after a change in a function that was inlined from another file. `dredge.compiled` imports this
module, with a cache folder named after this file's content; nobody else does.

Kernels work on addresses of memory, like C. Three rules keep that safe: a length read from a file is compared
with what is left before it is used; what a wide copy may overrun is slack that the caller provides (`SLACK`
bytes behind every buffer, and the rest of the file behind every block); a kernel never allocates.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any, NamedTuple

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba import njit, types  # noqa: TID253 - imported where it is needed, by dredge.compiled
from numba.extending import intrinsic  # noqa: TID253

from dredge import compiled

SLACK = 64
BLOCK_SIZE_MAX = 2 * (640 << 16) + (1 << 20)  # as in sstable.layout, which a kernel must not depend on

# Why a kernel stopped.
OK, BAD_CHECKSUM, BAD_TYPE, BAD_SNAPPY, BAD_RESTARTS, BAD_ENTRY, BAD_TRAILER, BAD_ORDER = range(8)
BAD_VALUE, BAD_ENTRY_MESSAGE, BAD_ADDRESS_TYPE, BAD_UTF8, TOO_MANY, NO_RECORDS = range(8, 14)

# What to write: bits of `wanted`. Address types are always written.
ADDRESS, SIZE, ETAG, KEY, ADDRESS_HASH, CONTENT_HASH = 1, 2, 4, 8, 16, 32

# Cells of `state`: where it stopped, and how far each output is filled.
CODE, BLOCK, PLACE, ROW, ADDRESS_AT, ETAG_AT, KEY_AT, KEY_SIZE, OTHERS = range(9)
STATE_SIZE = 9

SEED = 42  # of hashes; Spark's xxhash64 has it too


class Columns(NamedTuple):
    """The outputs of `decode`, and what a later decoding needs to take equal blocks from them.

    Texts are bytes one behind the other, with the offset of each. The last three have a cell for each block:
    its first row, and how many bytes its keys (with trailers) and values have.
    """

    address_offsets: Any
    address_bytes: Any
    address_types: Any
    sizes: Any
    etag_offsets: Any
    etag_bytes: Any
    key_offsets: Any
    key_bytes: Any
    address_hashes: Any
    content_hashes: Any
    first_rows: Any
    key_sums: Any
    value_sums: Any


_OPTIONS: Any = {"nogil": True, "cache": compiled.caching(), "error_model": "numpy"}
_jit = njit(**_OPTIONS)
_U = np.uint64
_HAS_CRC = bool(llvmlite.binding.get_host_cpu_features().get("sse4.2", False))


# Memory.


def _loader(bits: int) -> Any:
    def load(_typing: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return (types.uint64 if bits == 64 else types.int64)(types.int64), generate

    return intrinsic(load)


def _storer(_typing: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


_load8, _load16, _load32, _load64 = _loader(8), _loader(16), _loader(32), _loader(64)
_store64: Any = intrinsic(_storer)


@_jit
def _start(array):
    """The address of an array's first byte."""
    return np.int64(array.ctypes.data)


@_jit
def _copy(source, target, length):
    """Copy; may write 7 bytes more. Gives all words OR-ed, to see whether all is ASCII."""
    seen = _U(0)
    whole = length & ~7
    for at in range(0, whole, 8):
        word = _load64(source + at)
        _store64(target + at, word)
        seen |= word
    left = length - whole
    if left:
        word = _load64(source + whole)
        _store64(target + whole, word)
        seen |= word & ((_U(1) << _U(8 * left)) - _U(1))
    return seen


@_jit
def _seen(source, length):
    """All words of a text OR-ed; may read 7 bytes more."""
    seen = _U(0)
    whole = length & ~7
    for at in range(0, whole, 8):
        seen |= _load64(source + at)
    left = length - whole
    if left:
        seen |= _load64(source + whole) & ((_U(1) << _U(8 * left)) - _U(1))
    return seen


@_jit
def _differ(one, other, length):
    """Whether two pieces of memory differ."""
    whole = length & ~7
    for at in range(0, whole, 8):
        if _load64(one + at) != _load64(other + at):
            return True
    for at in range(whole, length):  # noqa: SIM110 - numba knows no generators
        if _load8(one + at) != _load8(other + at):
            return True
    return False


# CRC-32C: the processor's instruction, or a table.

if _HAS_CRC:

    def _crc_intrinsic(name: str, crc_bits: int, data_bits: int) -> Any:
        def crc(_typing: Any, state: Any, data: Any) -> Any:
            def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
                state_type, data_type = ir.IntType(crc_bits), ir.IntType(data_bits)
                kind = ir.FunctionType(state_type, [state_type, data_type])
                function = builder.module.declare_intrinsic(name, fnty=kind)
                before = builder.trunc(arguments[0], state_type) if crc_bits < 64 else arguments[0]
                piece = builder.trunc(arguments[1], data_type) if data_bits < 64 else arguments[1]
                after = builder.call(function, [before, piece])
                return builder.zext(after, ir.IntType(64)) if crc_bits < 64 else after

            return types.uint64(types.uint64, types.uint64), generate

        return intrinsic(crc)

    _crc_word = _crc_intrinsic("llvm.x86.sse42.crc32.64.64", 64, 64)
    _crc_byte = _crc_intrinsic("llvm.x86.sse42.crc32.32.8", 32, 8)
else:

    def _crc_tables() -> Any:
        tables = np.zeros((8, 256), np.uint64)
        for index in range(256):
            value = index
            for _ in range(8):
                value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
            tables[0, index] = value
        for index in range(256):
            for row in range(1, 8):
                value = int(tables[row - 1, index])
                tables[row, index] = (value >> 8) ^ int(tables[0, value & 255])
        return tables

    _TABLES = _crc_tables()

    @_jit
    def _crc_word(crc, word):
        word ^= crc
        result = _U(0)
        for at in range(8):
            result ^= _TABLES[7 - at, (word >> _U(8 * at)) & _U(255)]
        return result

    @_jit
    def _crc_byte(crc, byte):
        return (crc >> _U(8)) ^ _TABLES[0, (crc ^ byte) & _U(255)]


@_jit
def _masked_crc(address, length):
    """The checksum of a block as it is stored: of its bytes and the type byte behind them."""
    crc = _U(0xFFFFFFFF)
    whole = length & ~7
    for at in range(0, whole, 8):
        crc = _crc_word(crc, _load64(address + at))
    for at in range(whole, length):
        crc = _crc_byte(crc, _U(_load8(address + at)))
    crc ^= _U(0xFFFFFFFF)
    return (((crc >> _U(15)) | (crc << _U(17))) + _U(0xA282EAD8)) & _U(0xFFFFFFFF)


# Numbers.


@_jit
def _uvarint(at, end):
    """An unsigned number of at most 64 bits and the position behind it, which is 0 when it is cut off."""
    value = _U(0)
    shift = 0
    while at < end:
        byte = _load8(at)
        at += 1
        if shift == 63 and byte > 1:
            return value, 0
        value |= _U(byte & 127) << _U(shift)
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            return value, 0
    return value, 0


@_jit
def _length(at, end):
    """A number that counts bytes, and the position behind it; 0 for the position when it cannot count any."""
    if at < end:
        byte = _load8(at)
        if byte < 128:
            return byte, at + 1
    value, after = _uvarint(at, end)
    if after == 0 or value > _U(0x7FFFFFFF):
        return 0, 0
    return np.int64(value), after


# Snappy.


@_jit
def _uncompress(at, end, target, size):
    """Write exactly `size` bytes from raw Snappy, its length read already. May overrun the target by 15."""
    out = target
    stop = target + size
    while at < end:
        tag = _load8(at)
        at += 1
        kind = tag & 3
        if kind == 0:
            length = (tag >> 2) + 1
            if length > 60:
                more = length - 60
                if more > end - at:
                    return False
                length = (_load32(at) & ((1 << (8 * more)) - 1)) + 1
                at += more
            if length > end - at or length > stop - out:
                return False
            for piece in range(0, length, 16):
                _store64(out + piece, _load64(at + piece))
                _store64(out + piece + 8, _load64(at + piece + 8))
            at += length
            out += length
            continue
        if kind == 1:
            length = ((tag >> 2) & 7) + 4
            back = ((tag >> 5) << 8) | _load8(at)
            at += 1
        elif kind == 2:
            length = (tag >> 2) + 1
            back = _load16(at)
            at += 2
        else:
            length = (tag >> 2) + 1
            back = _load32(at)
            at += 4
        if at > end or back == 0 or back > out - target or length > stop - out:
            return False
        source = out - back
        if back >= 16:
            for piece in range(0, length, 16):
                _store64(out + piece, _load64(source + piece))
                _store64(out + piece + 8, _load64(source + piece + 8))
        elif back >= 8:
            for piece in range(0, length, 8):
                _store64(out + piece, _load64(source + piece))
        else:
            # A pattern shorter than a word: repeat it to a word, then step by whole patterns.
            word = _load64(source) & ((_U(1) << _U(8 * back)) - _U(1))
            width = back
            while width < 8:
                word |= word << _U(8 * width)
                width *= 2
            step = 8 - 8 % back
            for piece in range(0, length, step):
                _store64(out + piece, word)
        out += length
    return out == stop


# Text.


@_jit
def _is_utf8(at, end):
    """Whether bytes are well-formed UTF-8, as Unicode's table 3-7 has it."""
    while at < end:
        byte = _load8(at)
        if byte < 0x80:
            at += 1
            continue
        low, high = 0x80, 0xBF
        if byte < 0xC2:
            return False
        if byte < 0xE0:
            more = 1
        elif byte < 0xF0:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif byte < 0xF5:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return False
        if more >= end - at:
            return False
        second = _load8(at + 1)
        if second < low or second > high:
            return False
        for place in range(2, more + 1):
            if _load8(at + place) & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


# XXH64.

_P1, _P2, _P3 = _U(0x9E3779B185EBCA87), _U(0xC2B2AE3D27D4EB4F), _U(0x165667B19E3779F9)
_P4, _P5 = _U(0x85EBCA77C2B2AE63), _U(0x27D4EB2F165667C5)


@_jit
def _rotate(value, bits):
    return (value << _U(bits)) | (value >> _U(64 - bits))


@_jit
def _round(lane, word):
    return _rotate(lane + word * _P2, 31) * _P1


@_jit
def _xxh64(at, length, seed):
    """The XXH64 hash of some bytes."""
    end = at + length
    if length >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            one = _round(one, _load64(at))
            two = _round(two, _load64(at + 8))
            three = _round(three, _load64(at + 16))
            four = _round(four, _load64(at + 24))
            at += 32
        value = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
        value = (value ^ _round(_U(0), one)) * _P1 + _P4
        value = (value ^ _round(_U(0), two)) * _P1 + _P4
        value = (value ^ _round(_U(0), three)) * _P1 + _P4
        value = (value ^ _round(_U(0), four)) * _P1 + _P4
    else:
        value = seed + _P5
    value += _U(length)
    while at + 8 <= end:
        value = _rotate(value ^ _round(_U(0), _load64(at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        value = _rotate(value ^ (_U(_load32(at)) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        value = _rotate(value ^ (_U(_load8(at)) * _P5), 11) * _P1
        at += 1
    value = (value ^ (value >> _U(33))) * _P2
    value = (value ^ (value >> _U(29))) * _P3
    return value ^ (value >> _U(32))


_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_I32, _I64, _U8, _U64 = types.int32[::1], types.int64[::1], types.uint8[::1], types.uint64[::1]


@njit(types.void(_BYTES, _I64, _U64, _U64), **_OPTIONS)
def hash_texts(texts, offsets, seeds, hashes):
    """Hash texts that lie one behind the other, each with its own seed or all with the only one there is."""
    base = _start(texts)
    for row in range(len(hashes)):
        start = offsets[row]
        seed = seeds[row] if len(seeds) > 1 else seeds[0]
        hashes[row] = _xxh64(base + start, offsets[row + 1] - start, seed)


# Tables.


@njit(types.int64(_BYTES, _I64, _I64), **_OPTIONS)
def read_index(body, offsets, lengths):
    """Read the handles of an index block; gives their number, or -1 when it is damaged or has too many."""
    block, size = _start(body), len(body)
    if size < 8:
        return -1
    restarts = _load32(block + size - 4)
    if restarts < 1 or 4 * restarts > size - 4:
        return -1
    end = block + size - 4 - 4 * restarts
    at = block
    count = key_size = 0
    while at < end:
        shared, at = _length(at, end)
        if at == 0:
            return -1
        unshared, at = _length(at, end)
        if at == 0:
            return -1
        value_size, at = _length(at, end)
        if at == 0 or shared > key_size or unshared + value_size > end - at or count == len(offsets):
            return -1
        key_size = shared + unshared
        at += unshared
        stop = at + value_size
        offset, at = _uvarint(at, stop)
        if at == 0:
            return -1
        length, at = _uvarint(at, stop)
        if at != stop or (offset | length) >> _U(62):
            return -1
        offsets[count] = np.int64(offset)
        lengths[count] = np.int64(length)
        count += 1
    return count


@njit(types.void(_BYTES, _I64, _I64, _I64), **_OPTIONS)
def measure(data, offsets, lengths, sizes):
    """Tell how many bytes each block says it has uncompressed; -1 for what cannot be true."""
    for block in range(len(offsets)):
        start, length = _start(data) + offsets[block], lengths[block]
        sizes[block] = length
        if _load8(start + length) == 1:
            size, behind = _uvarint(start, start + length)
            # Snappy's best is 64 bytes from 3.
            possible = behind > 0 and size <= _U(22 * length) and size <= _U(BLOCK_SIZE_MAX)
            sizes[block] = np.int64(size) if possible else -1


@njit(types.void(_BYTES, _I64, _I64, _BYTES, _I64, _I64, _I64), **_OPTIONS)
def keep_equal(data, offsets, lengths, old_data, old_offsets, old_lengths, sources):
    """Of the guesses which old block each block equals, keep those right to the last byte; else -1."""
    for block in range(len(sources)):
        source = sources[block]
        if source >= 0 and (
            lengths[block] != old_lengths[source]
            or _differ(
                _start(data) + offsets[block], _start(old_data) + old_offsets[source], lengths[block] + 5
            )
        ):
            sources[block] = -1


@_jit
def _compare_keys(key, key_size, shared, suffix, size):
    """Whether a user key (`shared` bytes of the old one, then the suffix) comes after the old one, `key`."""
    if shared >= key_size:
        return size > key_size  # it begins with the whole old key
    if size <= shared:
        return False  # the old key begins with it
    limit = min(size, key_size)
    for at in range(shared, limit):
        new, old = _load8(suffix + at - shared), _load8(key + at)
        if new != old:
            return new > old
    return size > key_size


@_jit
def _walk(raw, raw_size, key, in_order, wanted, columns, state):
    """Take all records of one uncompressed block. Gives a code; `state` says where, and what was filled."""
    number = _load32(raw + raw_size - 4)
    if number < 1 or 4 * number > raw_size - 4:
        return BAD_RESTARTS
    end = raw + raw_size - 4 - 4 * number
    if _load32(end) != 0 or (end == raw and number != 1):
        return BAD_RESTARTS
    met = 0
    next_restart = 0
    address_bytes = _start(columns.address_bytes)
    etag_bytes = _start(columns.etag_bytes)
    key_bytes = _start(columns.key_bytes)
    row, address_at, etag_at, key_at = state[ROW], state[ADDRESS_AT], state[ETAG_AT], state[KEY_AT]
    rows = len(columns.address_types)
    key_size = state[KEY_SIZE]
    internal_size = 0  # nothing of another block's key may be shared
    keys = values = others = 0
    at = raw
    while at < end:
        start = at
        state[PLACE] = start - raw
        shared, at = _length(at, end)
        if at == 0:
            return BAD_ENTRY
        unshared, at = _length(at, end)
        if at == 0:
            return BAD_ENTRY
        value_size, at = _length(at, end)
        if at == 0 or shared > internal_size or unshared + value_size > end - at:
            return BAD_ENTRY
        if met < number and next_restart == start - raw:
            if shared:
                return BAD_RESTARTS
            met += 1
            next_restart = _load32(end + 4 * met)
        # The key.
        internal_size = shared + unshared
        size = internal_size - 8
        if size < 0:
            return BAD_TRAILER
        if in_order and not _compare_keys(key, key_size, shared, at, size):
            return BAD_ORDER
        in_order = True
        _copy(at, key + shared, unshared)
        if _load64(key + size) != _U(1):
            return BAD_TRAILER
        key_size = size
        at += unshared
        keys += internal_size
        values += value_size
        if row == rows:
            return TOO_MANY
        # The value: identity, then the entry.
        stop = at + value_size
        following = stop
        length, at = _length(at, stop)
        if at == 0 or length & 1 or (length >> 1) > stop - at:
            return BAD_VALUE
        at += length >> 1
        length, at = _length(at, stop)
        if at == 0 or length & 1 or (length >> 1) > stop - at:
            return BAD_VALUE
        stop = at + (length >> 1)
        # The entry's fields.
        address = etag = at
        address_size = etag_size = 0
        object_size = _U(0)
        address_type = _U(0)
        while at < stop:
            tag, at = _length(at, stop)
            if at == 0 or tag < 8:
                return BAD_ENTRY_MESSAGE
            wire = tag & 7
            if wire == 2:
                length, at = _length(at, stop)
                if at == 0 or length > stop - at:
                    return BAD_ENTRY_MESSAGE
                if tag == 10:
                    address, address_size = at, length
                elif tag == 34:
                    etag, etag_size = at, length
                at += length
            elif wire == 0:
                value, at = _uvarint(at, stop)
                if at == 0:
                    return BAD_ENTRY_MESSAGE
                if tag == 24:
                    object_size = value
                elif tag == 48:
                    address_type = value
            elif wire == 1 or wire == 5:
                at += 8 if wire == 1 else 4
                if at > stop:
                    return BAD_ENTRY_MESSAGE
            else:
                return BAD_ENTRY_MESSAGE
        at = following
        if address_type > _U(2):
            return BAD_ADDRESS_TYPE
        columns.address_types[row] = address_type
        others += address_type != _U(1)
        # What was asked for.
        if wanted & ADDRESS:
            columns.address_offsets[row] = address_at
            seen = _copy(address, address_bytes + address_at, address_size)
            address_at += address_size
        else:
            seen = _seen(address, address_size)
        if seen & _U(0x8080808080808080) and not _is_utf8(address, address + address_size):
            return BAD_UTF8
        if wanted & ADDRESS_HASH:
            columns.address_hashes[row] = _xxh64(address, address_size, _U(SEED))
        if wanted & SIZE:
            columns.sizes[row] = np.int64(object_size)
        if wanted & CONTENT_HASH:
            columns.content_hashes[row] = _xxh64(etag, etag_size, object_size)
        if wanted & ETAG:
            columns.etag_offsets[row] = etag_at
            seen = _copy(etag, etag_bytes + etag_at, etag_size)
            etag_at += etag_size
            if seen & _U(0x8080808080808080) and not _is_utf8(etag, etag + etag_size):
                return BAD_UTF8
        if wanted & KEY:
            if size > len(columns.key_bytes) - SLACK - key_at:
                return TOO_MANY
            columns.key_offsets[row] = key_at
            _copy(key, key_bytes + key_at, size)
            key_at += size
        row += 1
    if met != number and end != raw:
        return BAD_RESTARTS
    block = state[BLOCK]
    columns.key_sums[block] = keys
    columns.value_sums[block] = values
    state[ROW], state[ADDRESS_AT], state[ETAG_AT], state[KEY_AT] = row, address_at, etag_at, key_at
    state[KEY_SIZE] = key_size
    state[OTHERS] += others
    return OK


@_jit
def _copy_words(old, new, first, row, count):
    """Copy whole words: `count` cells of eight bytes."""
    _copy(_start(old) + 8 * first, _start(new) + 8 * row, 8 * count)


@_jit
def _copy_texts(old_offsets, old_bytes, offsets, texts, first, last, row, at):
    """Copy the texts of some rows to `row`, where `at` bytes are filled. Gives how many it adds."""
    start = np.int64(old_offsets[first])
    for source in range(first, last):
        offsets[row + source - first] = np.int64(old_offsets[source]) - start + at
    size = np.int64(old_offsets[last]) - start
    _copy(_start(old_bytes) + start, _start(texts) + at, size)
    return size


@_jit
def _take(source, old, wanted, columns, state):
    """Take the rows of a block that was decoded before."""
    block = state[BLOCK]
    first, last = old.first_rows[source], old.first_rows[source + 1]
    row = state[ROW]
    count = last - first
    if count > len(columns.address_types) - row:
        return TOO_MANY
    columns.key_sums[block] = old.key_sums[source]
    columns.value_sums[block] = old.value_sums[source]
    for at in range(count):
        kind = old.address_types[first + at]
        columns.address_types[row + at] = kind
        state[OTHERS] += kind != 1
    if wanted & SIZE:
        _copy_words(old.sizes, columns.sizes, first, row, count)
    if wanted & ADDRESS_HASH:
        _copy_words(old.address_hashes, columns.address_hashes, first, row, count)
    if wanted & CONTENT_HASH:
        _copy_words(old.content_hashes, columns.content_hashes, first, row, count)
    if wanted & ADDRESS:
        state[ADDRESS_AT] += _copy_texts(
            old.address_offsets,
            old.address_bytes,
            columns.address_offsets,
            columns.address_bytes,
            first,
            last,
            row,
            state[ADDRESS_AT],
        )
    if wanted & ETAG:
        state[ETAG_AT] += _copy_texts(
            old.etag_offsets,
            old.etag_bytes,
            columns.etag_offsets,
            columns.etag_bytes,
            first,
            last,
            row,
            state[ETAG_AT],
        )
    if wanted & KEY:
        size = np.int64(old.key_offsets[last]) - np.int64(old.key_offsets[first])
        if size > len(columns.key_bytes) - SLACK - state[KEY_AT]:
            return TOO_MANY
        state[KEY_AT] += _copy_texts(
            old.key_offsets,
            old.key_bytes,
            columns.key_offsets,
            columns.key_bytes,
            first,
            last,
            row,
            state[KEY_AT],
        )
    state[ROW] = row + count
    return OK


_COLUMNS = types.NamedTuple(
    [_I32, _U8, _U8, _I64, _I32, _U8, _I32, _U8, _U64, _U64, _I64, _I64, _I64], Columns
)


@njit(types.void(_BYTES, _I64, _I64, _I64, _I64, _COLUMNS, _U8, _U8, types.int64, _COLUMNS, _I64), **_OPTIONS)
def decode(data, offsets, lengths, sizes, sources, old, scratch, key, wanted, columns, state):
    """Decode the data blocks of a range.

    `sizes` are those of `measure`. `sources` names for each block the one of `old` whose rows may be taken,
    or -1; such a block stands between two that are equal to the neighbours of its source. `scratch` has
    room for the largest block, `key` for the longest key.
    """
    base, room, last_key = _start(data), _start(scratch), _start(key)
    taken = False
    for block in range(len(offsets)):
        state[BLOCK] = block
        state[PLACE] = 0
        columns.first_rows[block] = state[ROW]
        if sources[block] >= 0:
            state[CODE] = _take(sources[block], old, wanted, columns, state)
            if state[CODE] != OK:
                return
            taken = True
            continue
        start, length, size = base + offsets[block], lengths[block], sizes[block]
        stop = start + length
        if _masked_crc(start, length + 1) != _U(_load32(stop + 1)):
            state[CODE] = BAD_CHECKSUM
            return
        kind = _load8(stop)
        if kind > 1:
            state[CODE] = BAD_TYPE
            return
        raw = start
        if kind == 1:
            _, body = _uvarint(start, stop)
            if size < 0 or body == 0 or not _uncompress(body, stop, room, size):
                state[CODE] = BAD_SNAPPY
                return
            raw = room
        if size < 8:
            state[CODE] = BAD_RESTARTS
            return
        before = state[ROW]
        # After rows that were taken the key is not at hand, but the order was checked when they were decoded.
        state[CODE] = _walk(raw, size, last_key, state[KEY_SIZE] >= 0 and not taken, wanted, columns, state)
        taken = False
        if state[CODE] != OK:
            return
        if state[ROW] == before and len(offsets) > 1:
            state[CODE] = NO_RECORDS
            return
    columns.first_rows[len(offsets)] = state[ROW]
    if wanted & ADDRESS:
        columns.address_offsets[state[ROW]] = state[ADDRESS_AT]
    if wanted & ETAG:
        columns.etag_offsets[state[ROW]] = state[ETAG_AT]
    if wanted & KEY:
        columns.key_offsets[state[ROW]] = state[KEY_AT]
