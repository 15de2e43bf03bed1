"""Numbers of variable length: seven bits in each byte, the lowest first, the high bit set in all but the last."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from dredge.kernels.compiling import U64, jit
from dredge.kernels.memory import load8


@jit
def read_uvarint(at, end):
    """An unsigned number of at most 64 bits and the position behind it, which is 0 when it is cut off."""
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
    """A number that counts bytes, and the position behind it; 0 for the position when it cannot count any."""
    if at < end:
        byte = load8(at)
        if byte < 128:
            return byte, at + 1
    value, after = read_uvarint(at, end)
    if after == 0 or value > U64(0x7FFFFFFF):
        return 0, 0
    return np.int64(value), after
