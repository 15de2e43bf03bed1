"""The addresses of ranges, from the committed index or from range files; listed objects beside the labels of their
addresses.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.index.files import get_files
from dredge.gc.index.ranges import Metaranges, RangeHashes, Ranges, decode, read_files
from dredge.gc.index.store import CommittedIndex, read_part
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import Hashes, shard_of
from dredge.sets.labels import Labelled, LabelledSets
from dredge.storage import ObjectReader, ObjectWriter


@dataclass(slots=True)
class Amount:
    """A number of objects and bytes."""

    objects: int = 0
    size_bytes: int = 0

    def add(self, objects: int, size_bytes: int) -> None:
        """Add objects and bytes; negative numbers subtract."""
        self.objects += objects
        self.size_bytes += size_bytes


@dataclass(frozen=True, slots=True)
class Listed:
    """A part of the listed objects."""

    hashes: Hashes  # of their addresses, in any order
    sizes: npt.NDArray[np.int64]  # in bytes


def listed_shards(
    folder: RunFolder, parts: Sequence[PartInfo], sets: LabelledSets
) -> Iterator[tuple[Labelled, Listed]]:
    """Yield every listed object once, each with the labels of its shard.

    With one shard, parts of the listing are read one after the other; else they are first sorted into shards in a
    temporary folder, so that every file is read once.
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


log = logging.getLogger("dredge")


def addresses_of(
    reader: ObjectReader, state: ObjectWriter, namespace: str, ranges: Ranges
) -> Iterator[RangeHashes]:
    """Yield the addresses of ranges, each range once, in any order.

    Args:
        state: the folder of the index; it is only read: ranges missing there are decoded and not kept.
    """
    index = CommittedIndex.load(state, namespace)
    groups, lacking = index.group(ranges)
    missing = set(lacking)
    for name, wanted in groups.items():
        ids = set(wanted)
        try:
            found = read_part(state, index.parts[name], lambda _: False)
        except FormatError as error:
            log.warning("the index's part %s is left out: %s", name, error)
            missing |= ids
            continue
        yield from (item for item in found if item.range_id in ids)
    yield from _decode(reader, namespace, {item: ranges[item] for item in ranges if item in missing})


def _decode(reader: ObjectReader, namespace: str, ranges: Ranges) -> Iterator[RangeHashes]:
    ordered = sorted(ranges, key=lambda item: (ranges[item].min_key, item))  # neighbours share blocks
    try:
        yield from decode(get_files(reader, ordered), ranges, namespace)
    except NotFoundError as error:
        raise RefusedError(
            f"a range is missing: {error}. The addresses of its commits are unknown."
        ) from None


def with_metaranges(reader: ObjectReader, known: Metaranges, wanted: Iterable[str]) -> Metaranges:
    """Add metaranges to the known ones, and return all.

    Args:
        wanted: ids; the empty id is skipped.
    """
    unread = sorted({item for item in wanted if item and item not in known.named})
    if unread:
        known.add(read_files(reader, unread))
    return known
