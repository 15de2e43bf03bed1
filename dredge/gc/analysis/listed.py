"""Listed objects beside the labels of their addresses, shard by shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import Hashes, shard_of
from dredge.sets.labels import Labelled, LabelledSets


@dataclass(frozen=True, slots=True)
class Listed:
    """Some listed objects.

    Attributes:
        hashes: of their addresses, in any order.
        sizes: in bytes.
    """

    hashes: Hashes
    sizes: npt.NDArray[np.int64]


def listed_shards(
    folder: RunFolder, parts: Sequence[PartInfo], sets: LabelledSets
) -> Iterator[tuple[Labelled, Listed]]:
    """Give every listed object once, each with the labels of its shard.

    Where there is one shard, parts of the listing are read one after the other; else they are sorted into shards in a
    temporary folder first, so that every file is read once.

    Args:
        folder: of the run that listed.
        parts: of the listing.
        sets: the labels.
    """
    if sets.bits == 0:
        ((_, labelled),) = sets.shards()
        yield from ((labelled, _read(folder, part)) for part in parts)
        return
    with TemporaryDirectory(prefix="dredge-listed-") as place:
        for number, part in enumerate(parts):
            _spill(Path(place), number, _read(folder, part), sets.bits)
        for shard, labelled in sets.shards():
            for path in sorted(Path(place).glob(f"{shard:04d}-*.npz")):
                with np.load(path) as arrays:
                    yield labelled, Listed(arrays["hashes"], arrays["sizes"])


def _read(folder: RunFolder, part: PartInfo) -> Listed:
    rows = folder.read_part(part, ["hash", "size"])
    return Listed(rows["hash"].to_numpy(), rows["size"].to_numpy())


def _spill(place: Path, number: int, listed: Listed, bits: int) -> None:
    shards = shard_of(listed.hashes, bits)
    for shard in np.unique(shards).tolist():
        here = shards == shard
        np.savez(
            place / f"{shard:04d}-{number:06d}.npz", hashes=listed.hashes[here], sizes=listed.sizes[here]
        )
