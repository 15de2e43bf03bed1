"""Whether text is well-formed."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from dredge.kernels.compiling import jit
from dredge.kernels.memory import load8


@jit
def is_utf8(at, end):
    """Whether bytes are well-formed UTF-8, as Unicode's table 3-7 has it."""
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
