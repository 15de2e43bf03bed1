"""64-bit hashes of addresses and contents: XXH64, so equal to what Spark's `xxhash64` computes.

Dredge compares sets of addresses by these hashes. Equal texts always have equal hashes; two different texts
may share one, and then an object that could go is kept, never the opposite.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.compiled import kernels

type Hashes = npt.NDArray[np.uint64]

SEED = 42
"""Spark's seed, and its hash of a missing text."""

_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)


def hash64(addresses: pa.Array | pa.ChunkedArray) -> Hashes:
    """Hash texts, as `xxhash64(column)` does in Spark.

    Args:
        addresses: strings or binaries, large or not; a missing one hashes to the seed.

    Returns:
        XXH64 with seed 42 of the bytes of each.
    """
    return _hash(addresses, np.full(1, SEED, np.uint64))


def content_hash(
    sizes: pa.Array | pa.ChunkedArray | npt.NDArray[np.int64], etags: pa.Array | pa.ChunkedArray
) -> Hashes:
    """Hash size and ETag of objects together: equal for equal contents of equal upload.

    Args:
        sizes: bytes, none missing.
        etags: without quotes; a missing one counts as empty.

    Returns:
        XXH64 of each ETag's bytes, with the size as the seed.
    """
    if isinstance(sizes, pa.Array | pa.ChunkedArray):
        sizes = (
            sizes.to_numpy() if isinstance(sizes, pa.ChunkedArray) else sizes.to_numpy(zero_copy_only=False)
        )
    if len(sizes) != len(etags):
        raise ValueError(f"{len(sizes)} sizes for {len(etags)} etags")
    return _hash(etags.fill_null("") if etags.null_count else etags, np.asarray(sizes).astype(np.uint64))


def _hash(texts: pa.Array | pa.ChunkedArray, seeds: Hashes) -> Hashes:
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks() if texts.num_chunks != 1 else texts.chunk(0)
        if isinstance(texts, pa.ChunkedArray):  # combining no chunks gives none
            return np.empty(0, np.uint64)
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    if not large and not (pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)):
        texts = texts.cast(pa.string())
    count = len(texts)
    hashes = np.empty(count, np.uint64)
    if not count:
        return hashes
    _, offsets_buffer, data_buffer = texts.buffers()
    width = np.int64 if large else np.int32
    offsets = np.frombuffer(offsets_buffer, width)[texts.offset : texts.offset + count + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
    compiled = kernels()
    if compiled is None:
        _hash_with_numpy(data, offsets, np.broadcast_to(seeds, count), hashes)
    else:
        compiled.hash_texts(data, offsets, seeds, hashes)
    if texts.null_count:
        hashes[np.asarray(texts.is_null())] = SEED
    return hashes


def _hash_with_numpy(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], seeds: Hashes, out: Hashes
) -> None:
    """Hash texts of equal length together."""
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    bounds = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    for rows in np.split(order, bounds[1:]):
        length = int(lengths[rows[0]])
        for start in range(0, len(rows), 1 << 16):
            some = rows[start : start + (1 << 16)]
            out[some] = xxh64_equal_lengths(data[offsets[some][:, None] + np.arange(length)], seeds[some])


def xxh64_equal_lengths(texts: npt.NDArray[np.uint8], seeds: Hashes) -> Hashes:
    """Hash texts of one length.

    Args:
        texts: a row for each.
        seeds: one for each.
    """
    length = texts.shape[1]
    at = length & ~31
    with np.errstate(over="ignore"):
        if length >= 32:
            stripes = np.ascontiguousarray(texts[:, :at]).view("<u8").astype(np.uint64, copy=False)
            lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
            for number in range(stripes.shape[1]):
                lanes[number & 3] = _round(lanes[number & 3], stripes[:, number])
            value = (
                _rotate(lanes[0], 1) + _rotate(lanes[1], 7) + _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
            )
            for lane in lanes:
                value = (value ^ _round(np.uint64(0), lane)) * _P1 + _P4
        else:
            value = seeds + _P5
        value = value + np.uint64(length)
        while at + 8 <= length:
            word = np.ascontiguousarray(texts[:, at : at + 8]).view("<u8")[:, 0]
            value = _rotate(value ^ _round(np.uint64(0), word), 27) * _P1 + _P4
            at += 8
        if at + 4 <= length:
            word = np.ascontiguousarray(texts[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)
            value = _rotate(value ^ (word * _P1), 23) * _P2 + _P3
            at += 4
        for place in range(at, length):
            value = _rotate(value ^ (texts[:, place].astype(np.uint64) * _P5), 11) * _P1
        value = (value ^ (value >> np.uint64(33))) * _P2
        value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


def _rotate(value: Hashes, bits: int) -> Hashes:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def _round(lane: Hashes | np.uint64, word: Hashes) -> Hashes:
    return _rotate(lane + word * _P2, 31) * _P1
