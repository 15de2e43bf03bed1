"""The committed index: what every range names, as hashes and sizes, kept for the life of the repository.

    <namespace>/_lakefs/retention/gc/dredge/index/
        parts/<run>-<step>-<task>-<n>.addresses.parquet    range_id, count, outside, hashes
        parts/<run>-<step>-<task>-<n>.sizes.parquet        range_id, sizes
        manifests/<run>-<step>-<digest>.parquet            range_id, count, part; in its schema's
                                                           metadata the digests of the parts
        checkpoints/<run>-<digest>.parquet                 the same, for all manifests that it names

A range is immutable and named by its content, so what it names is decoded once. Parts and manifests are
never changed. A part that does not match its digest is not used: its ranges are decoded again, and a newer
manifest names the new part.

Which ranges name some addresses, by the committed index: for few addresses and any number of ranges.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError, UnavailableError
from dredge.gc.index.ranges import RangeHashes, Ranges, decode, keys_of
from dredge.gc.namespaces import METADATA, canonical_namespace
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.runs.parts import check_digest, parquet_bytes, read_parquet
from dredge.runs.payload import from_json, to_json
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import NONE, Hashes, contains
from dredge.storage import ObjectReader, ObjectWriter
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

FORMAT = 4
"""Changes whenever the same range would give other hashes. No run then builds on counts made before."""
PARTS = "index/parts"
MANIFESTS = "index/manifests"
CHECKPOINTS = "index/checkpoints"
_MANIFEST = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class IndexPart:
    """Two files about the same ranges.

    Attributes:
        name: what the names of both files begin with.
        addresses: the file of address hashes.
        sizes: the file of entries' sizes.
    """

    name: str
    addresses: PartInfo
    sizes: PartInfo

    @property
    def size_bytes(self) -> int:
        """Length of both files."""
        return self.addresses.size_bytes + self.sizes.size_bytes


@dataclass(frozen=True, slots=True)
class NewPart:
    """A part that was written, and that no manifest names yet.

    Attributes:
        part: its files.
        ids: of the ranges in it.
        counts: the number of records of each of them.
    """

    part: IndexPart
    ids: list[str]
    counts: list[int]


def write_part(state: ObjectWriter, name: str, ranges: Sequence[RangeHashes]) -> NewPart:
    """Write what ranges name as a part of the index; it counts once `CommittedIndex.add` has recorded it.

    Args:
        state: the folder of lease and index.
        name: of the part; the same task must always give the same.
        ranges: decoded.
    """
    ids = pa.array([item.range_id for item in ranges], pa.string())
    addresses = pa.table(
        {
            "range_id": ids,
            "count": pa.array([item.count for item in ranges], pa.int64()),
            "outside": pa.array([item.outside for item in ranges], pa.int64()),
            "hashes": _lists([item.addresses for item in ranges], pa.uint64()),
        }
    )
    sizes = pa.table({"range_id": ids, "sizes": _lists([item.sizes for item in ranges], pa.uint64())})
    with at_once() as ask:
        sizes_written = ask(_write, state, f"{PARTS}/{name}.sizes.parquet", sizes)
        written = _write(state, f"{PARTS}/{name}.addresses.parquet", addresses)
    part = IndexPart(name, written, sizes_written.result())
    return NewPart(part, [item.range_id for item in ranges], [item.count for item in ranges])


def read_part(reader: ObjectReader, part: IndexPart, with_sizes: Callable[[str], bool]) -> list[RangeHashes]:
    """Read a part.

    Args:
        reader: on the folder of lease and index.
        part: of the index.
        with_sizes: tells of which ranges the sizes are wanted; when of none, the file of sizes is not read.

    Raises:
        FormatError: missing or damaged; decode its ranges again.
    """
    table = _read(reader, part.addresses)
    ids = table["range_id"].to_pylist()
    sizes = [NONE] * len(ids)
    if any(map(with_sizes, ids)):
        more = _read(reader, part.sizes)
        if more["range_id"].to_pylist() != ids:
            raise FormatError(f"{part.name}: its two files are about different ranges")
        sizes = _arrays(more["sizes"])
    counts, outside = table["count"].to_pylist(), table["outside"].to_pylist()
    columns = zip(ids, counts, outside, _arrays(table["hashes"]), sizes, strict=True)
    return [RangeHashes(*values) for values in columns]


class CommittedIndex:
    """Which ranges the index has, and in which part.

    Attributes:
        parts: by name.
        places: by range id, the part that counts for it and its number of records. Ask `part_of` and `group`.
        distrusted: keys of manifests and checkpoints that were left out.
        superseded: keys of manifests that the newest checkpoint stands for, and of older checkpoints.

    Args:
        state: the folder of lease and index.
        namespace: URI that addresses were resolved against. What was decoded for another one (a bucket that was
            copied) is not used.
    """

    def __init__(self, state: ObjectWriter, namespace: str) -> None:
        self._state = state
        self._made_for = {"format": FORMAT, "namespace": canonical_namespace(namespace)}
        self.parts: dict[str, IndexPart] = {}
        self.places: dict[str, tuple[str, int]] = {}
        self.distrusted: list[str] = []
        self.superseded: set[str] = set()
        self._manifests: set[str] = set()

    @classmethod
    def load(cls, state: ObjectWriter, namespace: str) -> CommittedIndex:
        """Read all manifests. One that cannot be trusted is left out: its ranges are decoded again."""
        index = cls(state, namespace)
        with at_once() as ask:
            manifests = ask(state.list_level, f"{MANIFESTS}/")
            index._take_checkpoint()
        names = sorted((info.key for info in manifests.result().objects), reverse=True)
        # Run ids sort newest first, so this goes from old to new, and the newest part of a range counts.
        for name, data in state.get_many([name for name in names if name not in index._manifests]):
            try:
                index._take(name, data)
            except DredgeError as error:
                log.warning("the index's manifest %s is left out: %s", name, error)
                index.distrusted.append(name)
        return index

    def part_of(self, range_id: str, count: int | None = None) -> str | None:
        """The part that counts for a range; None when the index lacks it, and it must be decoded.

        Args:
            range_id: of any range.
            count: number of records of the range; a part that has another number is not trusted.
        """
        name, recorded = self.places.get(range_id, ("", -1))
        return name if name in self.parts and count in (None, recorded) else None

    def group(self, ranges: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
        """Group ranges by the part that counts for each.

        An index can be lost or damaged at any time, so callers must decide what becomes of the ranges that it lacks.

        Args:
            ranges: ids.

        Returns:
            Sorted ids by part, parts in name order, and the sorted ids of the ranges that the index lacks.
        """
        groups: dict[str, list[str]] = defaultdict(list)
        lacking: list[str] = []
        for range_id in sorted(ranges):
            name = self.part_of(range_id)
            (lacking if name is None else groups[name]).append(range_id)
        return dict(sorted(groups.items())), lacking

    def add(self, label: str, written: Iterable[NewPart]) -> None:
        """Record new parts in a manifest of their own.

        Args:
            label: run id and step; must be new or have the same content as before.
            written: the parts.
        """
        rows: list[tuple[str, int, str]] = []
        parts = []
        for new in written:
            parts.append(to_json(new.part))
            rows.extend(
                (range_id, count, new.part.name) for range_id, count in zip(new.ids, new.counts, strict=True)
            )
        if not rows:
            return
        columns = list(zip(*rows, strict=True))
        table = pa.table([pa.array(column) for column in columns], schema=_MANIFEST)
        table = table.replace_schema_metadata(
            {"parts": json.dumps(parts), "made_for": json.dumps(self._made_for)}
        )
        data = parquet_bytes(table)
        name = f"{MANIFESTS}/{label}-{hashlib.sha256(data).hexdigest()}.parquet"
        self._state.put(name, data)
        self._take(name, data)

    def checkpoint(self, label: str) -> None:
        """Write everything that manifests say into one file, so that they need not be read again.

        Args:
            label: run id; newer ones sort first.
        """
        rows = [(range_id, count, part) for range_id, (part, count) in sorted(self.places.items())]
        if not rows:
            return
        table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=_MANIFEST)
        used = sorted({part for _, _, part in rows})
        facts = {
            "parts": json.dumps([to_json(self.parts[name]) for name in used]),
            "made_for": json.dumps(self._made_for),
            "manifests": json.dumps(sorted(self._manifests)),
        }
        data = parquet_bytes(table.replace_schema_metadata(facts))
        self._state.put(f"{CHECKPOINTS}/{label}-{hashlib.sha256(data).hexdigest()}.parquet", data)

    def _take_checkpoint(self) -> None:
        """Read the newest checkpoint that can be trusted, if there is one."""
        names = sorted(info.key for info in self._state.list_level(f"{CHECKPOINTS}/").objects)
        for place, name in enumerate(names):
            try:
                data = self._state.get(name)
                self._take(name, data)
                stands_for = set(json.loads(read_parquet(data).schema.metadata[b"manifests"]))
                self.superseded |= stands_for
                self._manifests |= stands_for
            except DredgeError as error:
                log.warning("the index's checkpoint %s is left out: %s", name, error)
                self.distrusted.append(name)
            else:
                self.superseded.update(names[place + 1 :])
                return

    def _take(self, name: str, data: bytes) -> None:
        digest = name.removesuffix(".parquet").rpartition("-")[2]
        if hashlib.sha256(data).hexdigest() != digest:
            raise FormatError("its bytes do not fit the digest in its name")
        table = read_parquet(data)
        facts = table.schema.metadata or {}
        made_for = json.loads(facts.get(b"made_for", b"{}"))
        if made_for != self._made_for:
            raise FormatError("it was made for another namespace, or by another version")
        for value in json.loads(facts[b"parts"]):
            part = from_json(IndexPart, value)
            self.parts[part.name] = part
        self._manifests.add(name)
        columns = [table[column].to_pylist() for column in _MANIFEST.names]
        for range_id, count, part_name in zip(*columns, strict=True):
            self.places[range_id] = (part_name, count)


def _write(state: ObjectWriter, name: str, table: pa.Table) -> PartInfo:
    data = parquet_bytes(table)
    state.put(name, data)
    return PartInfo(name, table.num_rows, len(data), hashlib.sha256(data).hexdigest())


def _read(reader: ObjectReader, part: PartInfo) -> pa.Table:
    try:
        data = reader.get(part.name)
    except LookupError:
        raise FormatError(f"{part.name} is gone") from None
    check_digest(part, data, "committed index")
    return read_parquet(data)


def _lists(arrays: Sequence[Any], kind: pa.DataType) -> pa.Array:
    offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
    values = np.concatenate(arrays) if arrays else np.empty(0, kind.to_pandas_dtype())
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values, kind))


def _arrays(column: pa.ChunkedArray) -> list[Hashes]:
    arrays: list[Hashes] = []
    for chunk in column.chunks:
        values = chunk.values.to_numpy()
        bounds = chunk.offsets.to_numpy()
        arrays.extend(values[low:high] for low, high in pairwise(bounds))
    return arrays


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
