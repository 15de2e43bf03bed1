"""Decoding of one block: CRC-32C, raw Snappy, XXH64.

CRC-32C uses the processor's instruction where available, else eight table lookups a word. XXH64 gives the same values
as Spark's `xxhash64`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dredge.kernels.memory import U64, jit, load8, load16, load32, load64, store64

_HAS_CRC = bool(llvmlite.binding.get_host_cpu_features().get("sse4.2", False))


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

    @jit
    def _crc_word(crc, word):
        word ^= crc
        result = U64(0)
        for at in range(8):
            result ^= _TABLES[7 - at, (word >> U64(8 * at)) & U64(255)]
        return result

    @jit
    def _crc_byte(crc, byte):
        return (crc >> U64(8)) ^ _TABLES[0, (crc ^ byte) & U64(255)]


@jit
def masked_crc(address, length):
    """The stored checksum of a block: of its bytes and the type byte behind them."""
    crc = U64(0xFFFFFFFF)
    whole = length & ~7
    for at in range(0, whole, 8):
        crc = _crc_word(crc, load64(address + at))
    for at in range(whole, length):
        crc = _crc_byte(crc, U64(load8(address + at)))
    crc ^= U64(0xFFFFFFFF)
    return (((crc >> U64(15)) | (crc << U64(17))) + U64(0xA282EAD8)) & U64(0xFFFFFFFF)


@jit
def uncompress(at, end, target, size):
    """Write exactly `size` bytes from raw Snappy, after its length field. May overrun the target by 15."""
    out = target
    stop = target + size
    while at < end:
        tag = load8(at)
        at += 1
        kind = tag & 3
        if kind == 0:
            length = (tag >> 2) + 1
            if length > 60:
                more = length - 60
                if more > end - at:
                    return False
                length = (load32(at) & ((1 << (8 * more)) - 1)) + 1
                at += more
            if length > end - at or length > stop - out:
                return False
            for piece in range(0, length, 16):
                store64(out + piece, load64(at + piece))
                store64(out + piece + 8, load64(at + piece + 8))
            at += length
            out += length
            continue
        if kind == 1:
            length = ((tag >> 2) & 7) + 4
            back = ((tag >> 5) << 8) | load8(at)
            at += 1
        elif kind == 2:
            length = (tag >> 2) + 1
            back = load16(at)
            at += 2
        else:
            length = (tag >> 2) + 1
            back = load32(at)
            at += 4
        if at > end or back == 0 or back > out - target or length > stop - out:
            return False
        source = out - back
        if back >= 16:
            for piece in range(0, length, 16):
                store64(out + piece, load64(source + piece))
                store64(out + piece + 8, load64(source + piece + 8))
        elif back >= 8:
            for piece in range(0, length, 8):
                store64(out + piece, load64(source + piece))
        else:
            # A pattern shorter than a word: repeat it to a word, then step by whole patterns.
            word = load64(source) & ((U64(1) << U64(8 * back)) - U64(1))
            width = back
            while width < 8:
                word |= word << U64(8 * width)
                width *= 2
            step = 8 - 8 % back
            for piece in range(0, length, step):
                store64(out + piece, word)
        out += length
    return out == stop


_P1, _P2, _P3 = U64(0x9E3779B185EBCA87), U64(0xC2B2AE3D27D4EB4F), U64(0x165667B19E3779F9)
_P4, _P5 = U64(0x85EBCA77C2B2AE63), U64(0x27D4EB2F165667C5)


@jit
def _rotate(value, bits):
    return (value << U64(bits)) | (value >> U64(64 - bits))


@jit
def _round(lane, word):
    return _rotate(lane + word * _P2, 31) * _P1


@jit
def xxh64(at, length, seed):
    """The XXH64 hash of a byte string."""
    end = at + length
    if length >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            one = _round(one, load64(at))
            two = _round(two, load64(at + 8))
            three = _round(three, load64(at + 16))
            four = _round(four, load64(at + 24))
            at += 32
        value = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
        value = (value ^ _round(U64(0), one)) * _P1 + _P4
        value = (value ^ _round(U64(0), two)) * _P1 + _P4
        value = (value ^ _round(U64(0), three)) * _P1 + _P4
        value = (value ^ _round(U64(0), four)) * _P1 + _P4
    else:
        value = seed + _P5
    value += U64(length)
    while at + 8 <= end:
        value = _rotate(value ^ _round(U64(0), load64(at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        value = _rotate(value ^ (U64(load32(at)) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        value = _rotate(value ^ (U64(load8(at)) * _P5), 11) * _P1
        at += 1
    value = (value ^ (value >> U64(33))) * _P2
    value = (value ^ (value >> U64(29))) * _P3
    return value ^ (value >> U64(32))
