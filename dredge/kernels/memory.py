"""numba's options and types; loads, stores and copies at memory addresses; varints; UTF-8.

Loads, stores and copies check no bounds; their callers do.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

# The code needs nothing of numba when it runs: no counted references, no wrappers for Python, no exceptions.
OPTIONS: Any = {"_nrt": False, "error_model": "numpy", "no_cfunc_wrapper": True, "no_cpython_wrapper": True}
jit = njit(**OPTIONS)
U64 = np.uint64

# Types of arrays. Arrays over file contents are read-only.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
I64S, U8S, U64S, BLOCKS = types.int64[::1], types.uint8[::1], types.uint64[::1], types.int64[:, ::1]


def _loader(bits: int) -> Any:
    def load(_typing: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return (types.uint64 if bits == 64 else types.int64)(types.int64), generate

    return intrinsic(load)


def _storer(bits: int) -> Any:
    def store(_typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            kind = ir.IntType(bits)
            value = arguments[1] if bits == 64 else builder.trunc(arguments[1], kind)
            builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64), generate

    return intrinsic(store)


load8, load16, load32, load64 = _loader(8), _loader(16), _loader(32), _loader(64)
store8, store32, store64 = _storer(8), _storer(32), _storer(64)


@jit
def address_of(array):
    """The address of an array's first byte."""
    return np.int64(array.ctypes.data)


@jit
def copy(source, target, length):
    """Copy bytes; may write 7 bytes more. Returns all words OR-ed: with no high bit set, all bytes are ASCII."""
    seen = U64(0)
    whole = length & ~7
    for at in range(0, whole, 8):
        word = load64(source + at)
        store64(target + at, word)
        seen |= word
    left = length - whole
    if left:
        word = load64(source + whole)
        store64(target + whole, word)
        seen |= word & ((U64(1) << U64(8 * left)) - U64(1))
    return seen


@jit
def or_words(source, length):
    """All words of a text OR-ed; may read 7 bytes more."""
    seen = U64(0)
    whole = length & ~7
    for at in range(0, whole, 8):
        seen |= load64(source + at)
    left = length - whole
    if left:
        seen |= load64(source + whole) & ((U64(1) << U64(8 * left)) - U64(1))
    return seen


@jit
def differ(one, other, length):
    """Whether two memory areas differ."""
    whole = length & ~7
    for at in range(0, whole, 8):
        if load64(one + at) != load64(other + at):
            return True
    for at in range(whole, length):  # noqa: SIM110 - numba knows no generators
        if load8(one + at) != load8(other + at):
            return True
    return False


@jit
def read_uvarint(at, end):
    """An unsigned varint of at most 64 bits and the position behind it; position 0 for a truncated one."""
    value = U64(0)
    shift = 0
    while at < end:
        byte = load8(at)
        at += 1
        if shift == 63 and byte > 1:
            return value, 0
        value |= U64(byte & 127) << U64(shift)
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            return value, 0
    return value, 0


@jit
def read_length(at, end):
    """A byte count and the position behind it; position 0 for an invalid count."""
    if at < end:
        byte = load8(at)
        if byte < 128:
            return byte, at + 1
    value, after = read_uvarint(at, end)
    if after == 0 or value > U64(0x7FFFFFFF):
        return 0, 0
    return np.int64(value), after


@jit
def is_utf8(at, end):
    """Whether bytes are well-formed UTF-8 (Unicode, table 3-7)."""
    while at < end:
        byte = load8(at)
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
        second = load8(at + 1)
        if second < low or second > high:
            return False
        for place in range(2, more + 1):
            if load8(at + place) & 0xC0 != 0x80:
                return False
        at += more + 1
    return True
