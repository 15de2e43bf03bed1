"""Which ranges name an address, by the committed index, and which commits name these ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError
from dredge.gc.explain.target import Target
from dredge.gc.index.decoding import decode
from dredge.gc.index.metaranges import Metaranges, read_files
from dredge.gc.index.ranges import RangeFacts, Ranges
from dredge.gc.index.store import CommittedIndex, read_part
from dredge.gc.namespaces import METADATA
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.sstable.columns import read_addresses
from dredge.storage import ObjectReader, ObjectWriter

_DECODED_MAX = 32


@dataclass(slots=True)
class Naming:
    """Looks for an address in what commits name.

    Attributes:
        target: the object.
        hashed: hash of its address.
        reader: on the storage namespace.
        state: the folder of the index.
        known: metaranges that a run read; grows.
        unread: what was not looked at, as sentences.
        unread_ids: of the metaranges and ranges of which nobody knows whether they name the object.
    """

    target: Target
    hashed: np.uint64
    reader: ObjectReader
    state: ObjectWriter
    known: Metaranges
    unread: list[str] = field(default_factory=list)
    unread_ids: set[str] = field(default_factory=set)

    def may_name(self, metaranges: Collection[str]) -> bool:
        """Whether one of some metaranges may name the address for all that could be read."""
        known = [item for item in metaranges if item in self.known.named]
        return not self.unread_ids.isdisjoint([*metaranges, *self.known.select(known)])

    def ranges_of(self, metaranges: Collection[str]) -> dict[str, set[str]]:
        """Find which of some metaranges name the address: ranges that do, by metarange id."""
        self._read_metaranges(metaranges)
        there = [item for item in metaranges if item in self.known.named]
        rows_of = {item: row for row, item in enumerate(self.known.ranges)}
        wanted = self.known.select(there)
        found = self._in_index(wanted)
        rows = np.array(sorted(rows_of[item] for item in found), np.int64)
        ids = list(self.known.ranges)
        naming = {item: np.intersect1d(self.known.named[item], rows) for item in there}
        return {item: {ids[row] for row in hit.tolist()} for item, hit in naming.items() if len(hit)}

    def paths_of(self, ranges: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Find the paths under which ranges name the address; ranges beyond a number are left out, and so are those
        that do not name it after all: another address has the same hash."""
        found: dict[str, tuple[str, ...]] = {}
        for item in list(ranges)[:_DECODED_MAX]:
            try:
                data = self.reader.get(METADATA + item)
                found[item] = tuple(dict.fromkeys(self._paths(data, METADATA + item)))
            except DredgeError as error:
                self.unread.append(f"range {item}: {error}")
        return found

    def _paths(self, data: bytes, name: str) -> Iterator[str]:
        rows = read_addresses(data, name, ("key", "address", "address_type"))
        relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
        same = rows.filter(pc.and_(relative, pc.equal(rows["address"], self.target.address)))
        others = rows.filter(pc.invert(relative))
        columns = (others[column].to_pylist() for column in ("key", "address", "address_type"))
        keys = same["key"].to_pylist()
        for key, address, kind in zip(*columns, strict=True):
            if self.target.address in address_readings(address, kind, self.target.namespace):
                keys.append(key)
        yield from (key.decode("utf-8", "backslashreplace") for key in keys)

    def _read_metaranges(self, metaranges: Collection[str]) -> None:
        unknown = sorted({item for item in metaranges if item and item not in self.known.named})
        try:
            self.known.add(read_files(self.reader, unknown))
        except DredgeError:
            for item in unknown:
                self._read_metarange(item)

    def _read_metarange(self, item: str) -> None:
        try:
            self.known.add(read_files(self.reader, [item]))
        except DredgeError as error:
            self.unread.append(f"metarange {item}: {error}")
            self.unread_ids.add(item)

    def _in_index(self, ranges: Ranges) -> set[str]:
        """The ranges that name the address; those that the index lacks are decoded."""
        index = CommittedIndex.load(self.state, self.target.namespace)
        groups, lacking = index.group(ranges)
        found: set[str] = set()
        for name, ids in groups.items():
            try:
                items = read_part(self.state, index.parts[name], lambda _: False)
            except FormatError:
                lacking += ids
                continue
            wanted = set(ids)
            found |= {
                item.range_id for item in items if item.range_id in wanted and self.hashed in item.addresses
            }
        return found | self._decoded({item: ranges[item] for item in lacking})

    def _decoded(self, ranges: Mapping[str, RangeFacts]) -> set[str]:
        found: set[str] = set()
        for item, facts in ranges.items():
            key = METADATA + item
            try:
                hits = decode([(key, self.reader.get(key))], {item: facts}, self.target.namespace)
                found |= {hit.range_id for hit in hits if self.hashed in hit.addresses}
            except DredgeError as error:
                self.unread.append(f"range {item}: {error}")
                self.unread_ids.add(item)
        return found
