"""XXH64, as Spark's `xxhash64` computes it."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import njit, types

from dredge.kernels.compiling import BYTES, I64S, OPTIONS, U64, U64S, jit
from dredge.kernels.interface import SEED
from dredge.kernels.memory import address_of, load8, load32, load64

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
    """The XXH64 hash of some bytes."""
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


@njit(types.void(BYTES, I64S, U64S), **OPTIONS)
def hash_texts(texts, offsets, hashes):
    """Hash texts that lie one behind the other, all with the seed `SEED`."""
    base = address_of(texts)
    for row in range(len(hashes)):
        start = offsets[row]
        hashes[row] = xxh64(base + start, offsets[row + 1] - start, U64(SEED))
