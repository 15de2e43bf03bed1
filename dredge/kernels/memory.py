"""Loads, stores and copies at addresses of memory; none of them checks a bound, their callers do."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from dredge.kernels.compiling import U64, jit


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


load8, load16, load32, load64 = _loader(8), _loader(16), _loader(32), _loader(64)
store64: Any = intrinsic(_storer)


@jit
def address_of(array):
    """The address of an array's first byte."""
    return np.int64(array.ctypes.data)


@jit
def copy(source, target, length):
    """Copy; may write 7 bytes more. Gives all words OR-ed, to see whether all is ASCII."""
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
    """Whether two pieces of memory differ."""
    whole = length & ~7
    for at in range(0, whole, 8):
        if load64(one + at) != load64(other + at):
            return True
    for at in range(whole, length):  # noqa: SIM110 - numba knows no generators
        if load8(one + at) != load8(other + at):
            return True
    return False
