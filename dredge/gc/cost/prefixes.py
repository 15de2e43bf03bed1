"""Prefixes of paths: which one each range lies below, or, where it lies below several, each of its addresses.

Keys between the first and the last key of a range share what these two share, so most ranges need no look inside.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.index.ranges import RangeFacts, Ranges
from dredge.gc.namespaces import METADATA
from dredge.hashing import hash64
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.sstable.columns import Expected, decode_ranges, read_addresses
from dredge.sets.hashes import Hashes
from dredge.storage import ObjectReader

ROWS_MAX = 20_000_000
"""Records that are decoded to tell prefixes apart; what lies in further ranges counts as below several."""


@dataclass(slots=True)
class Prefixes:
    """What lies below which prefix.

    Attributes:
        names: prefixes, each ending with "/"; "" is the root.
        ranges: index of the prefix by range, in the order they were given; -1 for those below several.
        addresses: hashes of addresses in ranges below several, with the index of their prefix.
        skipped: number of ranges that were not looked into.
    """

    names: list[str] = field(default_factory=list)
    ranges: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    addresses: list[tuple[int, Hashes]] = field(default_factory=list)
    skipped: int = 0

    def index(self, name: str) -> int:
        """The index of a prefix, which is added when it is new."""
        if name not in self._places:
            self._places[name] = len(self.names)
            self.names.append(name)
        return self._places[name]

    _places: dict[str, int] = field(default_factory=dict, repr=False)


def find_prefixes(reader: ObjectReader, ranges: Ranges, depth: int, namespace: str) -> Prefixes:
    """Find the prefixes of ranges.

    Args:
        reader: on the storage namespace.
        ranges: what metaranges say of them.
        depth: folders that make a prefix; at least 1.
        namespace: URI.

    Raises:
        FormatError: a range is damaged.
    """
    found = Prefixes()
    inside: Ranges = {}
    rows = 0
    places = np.full(len(ranges), -1, np.int32)
    for row, (item, facts) in enumerate(ranges.items()):
        prefix = _common(facts, depth)
        if prefix is not None:
            places[row] = found.index(prefix)
        elif rows + facts.count <= ROWS_MAX:
            rows += facts.count
            inside[item] = facts
        else:
            found.skipped += 1
    found.ranges = places
    _look_inside(reader, inside, depth, namespace, found)
    return found


def _common(facts: RangeFacts, depth: int) -> str | None:
    """The prefix of everything in a range; None where there may be several."""
    first, last = (key.split(b"/")[:-1][:depth] for key in (facts.min_key, facts.max_key))
    if first != last or len(first) < depth:
        return None
    return _text(b"/".join(first) + b"/")


def _look_inside(reader: ObjectReader, ranges: Ranges, depth: int, namespace: str, found: Prefixes) -> None:
    ordered = sorted(ranges, key=lambda item: (ranges[item].min_key, item))  # neighbours share blocks
    expected = {METADATA + item: Expected(facts.count, facts.max_key) for item, facts in ranges.items()}
    latest: dict[str, bytes] = {}

    def remembering() -> Iterator[tuple[str, bytes]]:
        for key, data in reader.get_many([METADATA + item for item in ordered]):
            latest.clear()
            latest[key] = data
            yield key, data

    for key, rows in decode_ranges(remembering(), ("address_type", "address_hash", "key"), expected):
        hashes = rows["address_hash"].to_numpy()
        others: list[tuple[int, Hashes]] = []
        relative = pc.equal(rows["address_type"], AddressType.RELATIVE).to_numpy(zero_copy_only=False)
        if not relative.all():
            others = list(_others(latest[key], key, namespace))
        for prefix, first, stop in _runs(rows["key"], depth):
            place = found.index(prefix)
            found.addresses.append((place, hashes[first:stop][relative[first:stop]].copy()))
            found.addresses.extend((place, found_there) for row, found_there in others if first <= row < stop)


def _others(data: bytes, key: str, namespace: str) -> Iterator[tuple[int, Hashes]]:
    """Rows whose address is not relative, each with the hashes of the keys that it may mean."""
    rows = read_addresses(data, key)
    pairs = zip(rows["address"].to_pylist(), rows["address_type"].to_pylist(), strict=True)
    for row, (address, kind) in enumerate(pairs):
        if kind != AddressType.RELATIVE:
            yield row, hash64(pa.array(address_readings(address, kind, namespace), pa.string()))


def _runs(keys: pa.BinaryArray, depth: int) -> Iterator[tuple[str, int, int]]:
    """Prefixes of sorted keys, each with the first row and the one after the last of a run of it.

    Keys below one folder lie together, so the end of a run is found by halving; those that lie less deep are mixed with
    others and go one by one.
    """
    first = 0
    while first < len(keys):
        folders = keys[first].as_py().split(b"/")[:-1][:depth]
        prefix = b"".join(folder + b"/" for folder in folders)
        stop = first + 1
        if len(folders) == depth:
            stop = bisect_left(
                range(len(keys)), prefix[:-1] + b"0", lo=stop, key=lambda row: keys[row].as_py()
            )
        yield _text(prefix), first, stop
        first = stop


def _text(prefix: bytes) -> str:
    return prefix.decode("utf-8", "backslashreplace")
