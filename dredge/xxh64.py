"""XXH64 of many texts by numpy, for a process that has not loaded the compiled kernels: loading them takes more than
half a second and 80 MiB, which is much for a task that hashes some thousands of addresses.

Texts of one length are hashed together, a step of the algorithm at a time: a million addresses take 0.4 s, ten times as
long as the kernel needs.

Source: xxHash, doc/xxhash_spec.md (XXH64)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

type Numbers = npt.NDArray[np.uint64]
type Bytes = npt.NDArray[np.uint8]

_ALL = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_ZERO = np.uint64(0)
_STRIPE = 32


def hash_texts(texts: Bytes, offsets: npt.NDArray[np.int64], seed: int) -> Numbers:
    """Hash texts that lie one behind the other.

    Args:
        texts: their bytes.
        offsets: where each begins, and where the last one ends.
        seed: of the hash.
    """
    hashes = np.empty(len(offsets) - 1, np.uint64)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    bounds = np.flatnonzero(np.diff(lengths[order])) + 1
    for rows in np.split(order, bounds):
        if len(rows):
            length = int(lengths[rows[0]])
            hashes[rows] = _hash(_rows(texts, offsets[rows], length), seed)
    return hashes


def _rows(texts: Bytes, starts: npt.NDArray[np.int64], length: int) -> Bytes:
    """Texts of one length as the rows of a matrix."""
    if not length:
        return np.empty((len(starts), 0), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(texts, length)[starts]


def _hash(rows: Bytes, seed: int) -> Numbers:
    count, length = rows.shape
    at = length - length % _STRIPE
    words = _numbers(rows[:, : length - length % 8], "<u8")
    if at:
        value = _stripes(words[:, : at // 8], seed)
    else:
        value = np.full(count, (seed + _P5) & _ALL, np.uint64)
    value += np.uint64(length)
    for word in words[:, at // 8 :].T:
        value = _times(_turned(value ^ _round(_ZERO, word), 27), _P1) + np.uint64(_P4)
    at = length - length % 8
    if length - at >= 4:
        half = _numbers(rows[:, at : at + 4], "<u4")[:, 0].astype(np.uint64)
        value = _times(_turned(value ^ _times(half, _P1), 23), _P2) + np.uint64(_P3)
        at += 4
    for byte in rows[:, at:].T.astype(np.uint64):
        value = _times(_turned(value ^ _times(byte, _P5), 11), _P1)
    value = _times(value ^ (value >> np.uint64(33)), _P2)
    value = _times(value ^ (value >> np.uint64(29)), _P3)
    return value ^ (value >> np.uint64(32))


def _stripes(words: Numbers, seed: int) -> Numbers:
    """What whole stripes of four words come to."""
    starts = [(start + seed) & _ALL for start in (_P1 + _P2, _P2, 0, -_P1)]
    lanes = [np.full(len(words), start, np.uint64) for start in starts]
    for first in range(0, words.shape[1], 4):
        lanes = [_round(lane, words[:, first + number]) for number, lane in enumerate(lanes)]
    value = np.zeros(len(words), np.uint64)
    for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True):
        value += _turned(lane, bits)
    for lane in lanes:
        value = _times(value ^ _round(_ZERO, lane), _P1) + np.uint64(_P4)
    return value


def _numbers(rows: Bytes, kind: str) -> Numbers:
    """Rows of bytes as rows of numbers."""
    return np.ascontiguousarray(rows).view(kind)


def _round(lane: Numbers | np.uint64, word: Numbers) -> Numbers:
    return _times(_turned(lane + _times(word, _P2), 31), _P1)


def _turned(value: Numbers, bits: int) -> Numbers:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def _times(value: Numbers, factor: int) -> Numbers:
    return value * np.uint64(factor)
