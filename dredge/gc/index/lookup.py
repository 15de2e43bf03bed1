"""Which ranges name some addresses, by the committed index: for few addresses and any number of ranges."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError, UnavailableError
from dredge.gc.index.decoding import decode, keys_of
from dredge.gc.index.ranges import Ranges
from dredge.gc.index.store import CommittedIndex, read_part
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.sets.hashes import Hashes, contains


@dataclass(slots=True)
class Lookup:
    """Looks for addresses in ranges.

    Attributes:
        run: this run.
        unread: ids of ranges that could not be read, so that nobody knows what they name.
    """

    run: Run
    unread: set[str] = field(default_factory=set)

    def ranges_with(self, ranges: Ranges, wanted: Hashes) -> dict[str, Hashes]:
        """Find the ranges that name wanted addresses.

        Args:
            ranges: to look into.
            wanted: hashes of addresses, sorted and distinct.

        Returns:
            By range id, those of the wanted hashes that it names.
        """
        index = CommittedIndex.load(self.run.state, self.run.keys.namespace)
        groups, lacking = index.group(ranges)
        found: dict[str, Hashes] = {}
        for name, ids in groups.items():
            try:
                items = read_part(self.run.state, index.parts[name], lambda _: False)
            except UnavailableError:
                raise
            except FormatError:
                lacking += ids
                continue
            asked = set(ids)
            found |= {item.range_id: item.addresses for item in items if item.range_id in asked}
            found = _naming(found, wanted)
        return found | _naming(self._decoded(ranges, lacking), wanted)

    def addresses_in(self, ranges: Collection[str], wanted: Hashes) -> pa.StringArray:
        """Give the addresses with wanted hashes that some ranges name, exactly as they name them.

        Args:
            ranges: ids.
            wanted: sorted and distinct.
        """
        found, keys = [pa.nulls(0, pa.string())], self.run.keys
        for range_id in sorted(ranges):
            key = METADATA + range_id
            try:
                named = keys_of(self.run.reader.get(key), key, keys.namespace, keys.own)
            except UnavailableError:
                raise
            except DredgeError:
                self.unread.add(range_id)
                continue
            found.append(with_hashes(named, wanted))
        return pc.unique(pa.concat_arrays(found))

    def _decoded(self, ranges: Ranges, ids: Collection[str]) -> dict[str, Hashes]:
        found: dict[str, Hashes] = {}
        keys = self.run.keys
        for range_id in ids:
            key = METADATA + range_id
            try:
                file = [(key, self.run.reader.get(key))]
                items = list(decode(file, {range_id: ranges[range_id]}, keys.namespace, keys.own))
            except UnavailableError:
                raise
            except DredgeError:
                self.unread.add(range_id)
                continue
            found |= {item.range_id: item.addresses for item in items}
        return found


def with_hashes(addresses: pa.Array | pa.ChunkedArray, wanted: Hashes) -> pa.StringArray:
    """The addresses that have a wanted hash."""
    hit = addresses.filter(pa.array(contains(wanted, hash64(addresses)), pa.bool_())).cast(pa.string())
    chunks = hit.chunks if isinstance(hit, pa.ChunkedArray) else [hit]
    return pa.concat_arrays([pa.nulls(0, pa.string()), *chunks])


def _naming(found: dict[str, Hashes], wanted: Hashes) -> dict[str, Hashes]:
    """Of each range only the wanted hashes; ranges without any are left out."""
    hits = {range_id: wanted[np.isin(wanted, hashes)] for range_id, hashes in found.items()}
    return {range_id: hashes for range_id, hashes in hits.items() if len(hashes)}
