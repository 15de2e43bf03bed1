"""Files of sorted distinct 64-bit hashes: eight bytes a value, little endian, nothing else.

Equal hashes mean "perhaps the same": a collision keeps an object that could go, never the opposite.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo

type Hashes = npt.NDArray[np.uint64]

NONE: Hashes = np.empty(0, np.uint64)


def write_hashes(folder: RunFolder, name: str, hashes: Hashes) -> PartInfo:
    """Write sorted distinct hashes as a part."""
    return folder.write_bytes(name, hashes.astype("<u8", copy=False).tobytes(), len(hashes))


def read_hashes(folder: RunFolder, part: PartInfo) -> Hashes:
    """Read a file of hashes.

    Raises:
        FormatError: not as it was written.
    """
    return from_bytes(folder.read_bytes(part), part.name)


def from_bytes(data: bytes, name: str) -> Hashes:
    """Interpret bytes as sorted distinct hashes; raises FormatError when they are not."""
    if len(data) % 8:
        raise FormatError(f"{name}: {len(data)} bytes are no whole number of hashes. Start a new run.")
    hashes = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
    if len(hashes) > 1 and not bool(np.all(hashes[1:] > hashes[:-1])):
        raise FormatError(f"{name}: the hashes are not sorted. Start a new run.")
    return hashes


def unite(pieces: list[Hashes]) -> Hashes:
    """Unite hashes, in any order and with repetitions, into sorted distinct ones."""
    if not pieces:
        return NONE
    values = np.concatenate(pieces)
    # Several pieces are sorted runs as a rule, which a stable sort merges; a single one is sorted faster
    # otherwise.
    values.sort(kind="stable" if len(pieces) > 1 else None)
    if len(values) < 2:
        return values
    distinct = np.empty(len(values), bool)
    distinct[0] = True
    np.not_equal(values[1:], values[:-1], out=distinct[1:])
    return values[distinct]


def contains(hashes: Hashes, wanted: Hashes) -> npt.NDArray[np.bool_]:
    """Tell for each wanted hash whether it is among sorted ones."""
    if not len(hashes):
        return np.zeros(len(wanted), bool)
    places = np.searchsorted(hashes, wanted)
    places[places == len(hashes)] = len(hashes) - 1
    found: npt.NDArray[np.bool_] = hashes[places] == wanted
    return found


def shard_of(hashes: Hashes, bits: int) -> npt.NDArray[np.int64]:
    """The shard of each hash: its first bits. Shards are therefore ranges, and a sorted file splits at few
    places."""
    if bits == 0:
        return np.zeros(len(hashes), np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)


def split(hashes: Hashes, bits: int) -> list[Hashes]:
    """Split sorted hashes into 2**bits shards."""
    if bits == 0:
        return [hashes]
    bounds = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return list(np.split(hashes, np.searchsorted(hashes, bounds)))
