"""From a range file to what a collection compares: hashes of the addresses it names, sizes, and paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.index.ranges import Ranges
from dredge.gc.namespaces import METADATA
from dredge.hashing import hash64
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.sstable.columns import Expected, decode_ranges, read_addresses
from dredge.sets.hashes import Hashes, unite

_COLUMNS = ("address_type", "address_hash", "size")


@dataclass(frozen=True, slots=True)
class RangeHashes:
    """What the committed index keeps of a range.

    Attributes:
        range_id: its name.
        count: number of records, verified.
        outside: number of records whose address lies outside the namespace, and so has no hash.
        addresses: hashes of all keys of the namespace that its entries may mean, sorted and distinct.
        sizes: in bytes, as the entries state them, sorted and distinct.
    """

    range_id: str
    count: int
    outside: int
    addresses: Hashes
    sizes: Hashes


def decode(
    files: Iterable[tuple[str, bytes]], ranges: Ranges, namespace: str, own: bool = True
) -> Iterator[RangeHashes]:
    """Decode range files.

    Args:
        files: key relative to the namespace, and content; fastest in the order of their first keys.
        ranges: what the metaranges say of each.
        namespace: URI of the namespace whose keys are looked for.
        own: whether the ranges are those of its repository (`Keys`).

    Raises:
        FormatError: damaged, or not the range that its name and metarange promise.
    """
    expected = {
        METADATA + range_id: Expected(facts.count, facts.max_key) for range_id, facts in ranges.items()
    }
    # A file is needed twice when some of its addresses are not relative, so it is kept while it is decoded.
    latest: dict[str, bytes] = {}

    def remembering() -> Iterator[tuple[str, bytes]]:
        for key, data in files:
            latest.clear()
            latest[key] = data
            yield key, data

    for key, rows in decode_ranges(remembering(), _COLUMNS, expected):
        addresses, outside = rows["address_hash"].to_numpy(), 0
        if np.any(rows["address_type"].to_numpy() != AddressType.RELATIVE):
            addresses, outside = _resolved(latest[key], key, namespace, addresses, own)
        elif not own:
            addresses, outside = addresses[:0], rows.num_rows
        yield RangeHashes(
            key.removeprefix(METADATA),
            rows.num_rows,
            outside,
            unite([addresses]),
            unite([rows["size"].to_numpy().astype(np.uint64)]),
        )


def _resolved(data: bytes, key: str, namespace: str, hashes: Hashes, own: bool) -> tuple[Hashes, int]:
    """Replace hashes of addresses that are not relative by those of the keys they may mean."""
    rows = read_addresses(data, key)
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    keys, outside = _other_keys(rows.filter(pc.invert(relative)), namespace)
    if not own:
        return hash64(keys), outside + pc.sum(relative).as_py()
    return np.concatenate([hashes[relative.to_numpy(False)], hash64(keys)]), outside


def keys_of(data: bytes, key: str, namespace: str, own: bool = True) -> pa.Array:
    """Every key of the namespace that the entries of a range may mean.

    Args:
        data: the file.
        key: what to call it in errors.
        namespace: URI.
        own: whether the range is one of its repository (`Keys`).

    Raises:
        FormatError: damaged.
    """
    rows = read_addresses(data, key)
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    found, _ = _other_keys(rows.filter(pc.invert(relative)), namespace)
    return pa.concat_arrays([rows["address"].filter(relative), found]) if own else found


def _other_keys(rows: pa.RecordBatch, namespace: str) -> tuple[pa.Array, int]:
    """The keys that addresses which are not relative may mean, and how many of the addresses lie outside the
    namespace."""
    pairs = zip(rows["address"].to_pylist(), rows["address_type"].to_pylist(), strict=True)
    readings = [address_readings(address, kind, namespace) for address, kind in pairs]
    return pa.array([key for found in readings for key in found], pa.string()), readings.count(())


@dataclass(frozen=True, slots=True)
class HeadEntries:
    """Entries of a range as columns, in key order.

    Attributes:
        paths: raw bytes; a path need not be UTF-8.
        sizes: in bytes, as the entries state them.
    """

    paths: pa.BinaryArray
    sizes: Hashes


def entries_of(data: bytes, key: str, expected_count: int) -> HeadEntries:
    """Decode a range with its paths.

    Args:
        data: the file.
        key: what to call it in errors.
        expected_count: number of records that the metarange states.

    Raises:
        FormatError: damaged.
    """
    rows = read_addresses(data, key, ("key", "size"))
    if rows.num_rows != expected_count:
        raise FormatError(f"{key} has {rows.num_rows} records, its metarange says {expected_count}")
    return HeadEntries(rows["key"], rows["size"].to_numpy().astype(np.uint64))
