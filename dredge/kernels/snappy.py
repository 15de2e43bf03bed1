"""Raw Snappy: a stream of literals and of copies from what was already written."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from dredge.kernels.compiling import U64, jit
from dredge.kernels.memory import load8, load16, load32, load64, store64


@jit
def uncompress(at, end, target, size):
    """Write exactly `size` bytes from raw Snappy, its length read already. May overrun the target by 15."""
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
