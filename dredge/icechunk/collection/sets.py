"""Sets of ids as sorted distinct 64-bit numbers, written as eight bytes an id, little endian.

The numbers are the first bits of the ids (`ids.hash_of`), so ranges of numbers are ranges of names. Two ids with equal
numbers may differ: such a collision keeps garbage, and never deletes a live object.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError
from dredge.icechunk.ids import distinct, hash_of
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.storage.parallel import ordered_map

type Ids = npt.NDArray[np.uint64]

NONE: Ids = np.empty(0, np.uint64)
GATHERED_MAX = 4 << 20


def of_names(names: Iterable[str]) -> Ids:
    """Make the set of some spelled ids."""
    return distinct(np.fromiter((hash_of(name) for name in names), dtype=np.uint64))


def unite(pieces: Sequence[Ids]) -> Ids:
    """Unite sets."""
    if len(pieces) == 1:
        return distinct(pieces[0])
    return distinct(np.concatenate(pieces), in_runs=True) if pieces else NONE


def unite_by_shard(pieces: Sequence[Sequence[Ids]]) -> Iterator[Ids]:
    """Unite the sets of each shard, several shards at once."""
    return ordered_map(unite, pieces, os.cpu_count() or 1)


def unite_all(pieces: Iterable[Ids]) -> Ids:
    """Unite many overlapping sets in memory for about twice the result."""
    waiting: list[Ids] = []
    united = size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size > 2 * united + GATHERED_MAX:
            waiting = [unite(waiting)]
            united = size = len(waiting[0])
    return unite(waiting)


def contains(ids: Ids, wanted: Ids) -> npt.NDArray[np.bool_]:
    """For each wanted number, whether the set has it."""
    if not len(ids):
        return np.zeros(len(wanted), dtype=np.bool_)
    places = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    found: npt.NDArray[np.bool_] = ids[places] == wanted
    return found


def shards(ids: Ids, bits: int) -> list[Ids]:
    """Split a set by its first bits into 2**bits sets, in order."""
    if bits == 0:
        return [ids]
    bounds = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return list(np.split(ids, np.searchsorted(ids, bounds)))


def write_ids(folder: RunFolder, name: str, ids: Ids) -> PartInfo:
    """Write a set as a part."""
    return folder.write_bytes(name, ids.astype("<u8", copy=False).tobytes(), len(ids))


def read_ids(folder: RunFolder, part: PartInfo) -> Ids:
    """Read a set; raises FormatError for a damaged file."""
    data = folder.read_bytes(part)
    ids = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
    if len(ids) != part.rows or (len(ids) > 1 and not bool(np.all(ids[1:] > ids[:-1]))):
        raise FormatError(f"{part.name}: not a sorted set of {part.rows} ids. Start a new run.")
    return ids
