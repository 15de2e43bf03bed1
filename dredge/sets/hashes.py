"""Sets of 64-bit hashes, as sorted arrays of distinct values.

    file: n values of eight bytes, little endian, sorted and distinct, nothing else

Equal hashes mean "perhaps the same": a collision keeps an object that could go, never the opposite.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError

type Hashes = npt.NDArray[np.uint64]
"""Sorted and distinct, unless it is said otherwise."""

NONE: Hashes = np.empty(0, np.uint64)


def to_bytes(hashes: Hashes) -> bytes:
    """The bytes of a file of sorted distinct hashes."""
    return hashes.astype("<u8", copy=False).tobytes()


def from_bytes(data: bytes, name: str) -> Hashes:
    """Interpret the bytes of a file as hashes.

    Args:
        data: content of the file.
        name: what to call it in errors.

    Raises:
        FormatError: the values are not whole, not sorted, or not distinct.
    """
    if len(data) % 8:
        raise FormatError(
            f"{name}: the file is damaged, its {len(data)} bytes are not a multiple of 8. Start a new run."
        )
    hashes = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
    if len(hashes) > 1 and not bool(np.all(hashes[1:] > hashes[:-1])):
        raise FormatError(f"{name}: the hashes are not sorted. Start a new run.")
    return hashes


def unite(pieces: list[Hashes]) -> Hashes:
    """Unite arrays of hashes, each in any order and with repetitions, into one of sorted distinct hashes."""
    if not pieces:
        return NONE
    values = np.concatenate(pieces)
    # Several pieces are as a rule sorted each, and a stable sort merges sorted runs. For a single one the
    # default sort is faster.
    values.sort(kind="stable" if len(pieces) > 1 else None)
    if len(values) < 2:
        return values
    distinct = np.empty(len(values), bool)
    distinct[0] = True
    np.not_equal(values[1:], values[:-1], out=distinct[1:])
    return values[distinct]


def contains(hashes: Hashes, wanted: Hashes) -> npt.NDArray[np.bool_]:
    """Tell for each wanted hash whether a set has it.

    Args:
        hashes: the set, sorted and distinct.
        wanted: in any order.
    """
    if not len(hashes):
        return np.zeros(len(wanted), bool)
    places = np.searchsorted(hashes, wanted)
    places[places == len(hashes)] = len(hashes) - 1
    found: npt.NDArray[np.bool_] = hashes[places] == wanted
    return found


def shard_of(hashes: Hashes, bits: int) -> npt.NDArray[np.int64]:
    """The shard of each hash, which is its first bits: a shard is a range of values, a slice of a sorted set.

    Args:
        hashes: in any order.
        bits: there are 2**bits shards.
    """
    if bits == 0:
        return np.zeros(len(hashes), np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)


def split(hashes: Hashes, bits: int) -> list[Hashes]:
    """Split sorted hashes into 2**bits shards, some of which may be empty."""
    if bits == 0:
        return [hashes]
    bounds = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return list(np.split(hashes, np.searchsorted(hashes, bounds)))
