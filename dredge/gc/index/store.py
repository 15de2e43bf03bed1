"""The committed index: the address hashes and sizes of every range, kept for the life of the repository.

    <namespace>/_lakefs/retention/gc/dredge/index/
        parts/<run>-<step>-<task>-<n>.addresses.parquet    range_id, count, outside, hashes
        parts/<run>-<step>-<task>-<n>.sizes.parquet        range_id, sizes
        manifests/<run>-<step>-<digest>.parquet            range_id, count, part; in its schema's
                                                           metadata the digests of the parts
        checkpoints/<run>-<digest>.parquet                 the same, for all manifests in its list

A range is immutable, and its name is a digest of its content, so it is decoded once. Parts and manifests are never
changed. A part that does not match its digest is not used: its ranges are decoded again, and a newer manifest has the
new part.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, pairwise, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.index.ranges import Metaranges, RangeHashes, Ranges, decode, decode_keys, get_files, read_files
from dredge.gc.namespaces import METADATA, Keys, canonical_namespace
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.parts import check_digest, parquet_bytes, read_parquet
from dredge.runs.payload import PartInfo, from_json, to_json
from dredge.sets.hashes import NONE, Hashes, contains
from dredge.storage import ObjectReader, ObjectWriter
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

# Changes whenever the same range would give other hashes. No run then builds on older counts.
FORMAT = 4
# Addresses and sizes in a part.
PART_VALUES = 2_000_000
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


class IndexPart(Struct, frozen=True):
    """A file of address hashes and a file of sizes, of the same ranges."""

    name: str  # start of both files' names
    addresses: PartInfo
    sizes: PartInfo

    @property
    def size_bytes(self) -> int:
        """Length of both files."""
        return self.addresses.size_bytes + self.sizes.size_bytes


class NewPart(Struct, frozen=True):
    """A new part without a manifest."""

    part: IndexPart
    ids: list[str]  # of its ranges
    counts: list[int]  # records of each range


def write_part(state: ObjectWriter, name: str, ranges: Sequence[RangeHashes]) -> NewPart:
    """Write decoded ranges as a part of the index; it counts with the manifest of `CommittedIndex.add`. A repeated task
    must give the same name."""
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
    folder = RunFolder(state, "the committed index")
    with at_once() as ask:
        sizes_written = ask(_write, folder, f"{PARTS}/{name}.sizes.parquet", sizes)
        written = _write(folder, f"{PARTS}/{name}.addresses.parquet", addresses)
    part = IndexPart(name, written, sizes_written.result())
    return NewPart(part, [item.range_id for item in ranges], [item.count for item in ranges])


def batches(ranges: Iterable[RangeHashes]) -> Iterator[list[RangeHashes]]:
    """Yield ranges in lists of the size of a part."""
    batch: list[RangeHashes] = []
    values = 0
    for item in ranges:
        batch.append(item)
        values += len(item.addresses) + len(item.sizes)
        if values >= PART_VALUES:
            yield batch
            batch, values = [], 0
    if batch:
        yield batch


def read_part(reader: ObjectReader, part: IndexPart, with_sizes: Callable[[str], bool]) -> list[RangeHashes]:
    """Read a part, with the sizes of the wanted range ids; without any, the file of sizes is not read. Raises
    FormatError: missing or damaged, so its ranges must be decoded again."""
    table = _read(reader, part.addresses)
    ids = table["range_id"].to_pylist()
    sizes = [NONE] * len(ids)
    if any(map(with_sizes, ids)):
        more = _read(reader, part.sizes)
        if more["range_id"].to_pylist() != ids:
            raise FormatError(f"{part.name}: the files of addresses and of sizes have different ranges")
        sizes = _arrays(more["sizes"])
    counts, outside = table["count"].to_pylist(), table["outside"].to_pylist()
    columns = zip(ids, counts, outside, _arrays(table["hashes"]), sizes, strict=True)
    return [RangeHashes(*values) for values in columns]


class CommittedIndex:
    """The ranges of the index, and their parts."""

    def __init__(self, state: ObjectWriter, namespace: str) -> None:
        self._state = state
        # Ranges decoded for another namespace (a copied bucket) are not used.
        self._made_for = {"format": FORMAT, "namespace": canonical_namespace(namespace)}
        self.parts: dict[str, IndexPart] = {}  # by name
        # by range id, its part and number of records. Use `part_of` and `group`.
        self.places: dict[str, tuple[str, int]] = {}
        self.distrusted: list[str] = []  # keys of skipped manifests and checkpoints
        # keys of manifests in the newest checkpoint, and of older checkpoints
        self.superseded: set[str] = set()
        self._manifests: set[str] = set()

    @classmethod
    def load(cls, state: ObjectWriter, namespace: str) -> CommittedIndex:
        """Read all manifests. A damaged one is skipped, and its ranges are decoded again."""
        index = cls(state, namespace)
        with at_once() as ask:
            manifests = ask(state.list_level, f"{MANIFESTS}/")
            index._take_checkpoint()
        names = sorted((info.key for info in manifests.result().objects), reverse=True)
        # Run ids sort newest first: manifests are read from old to new, so the newest part of a range counts.
        for name, data in state.get_many([name for name in names if name not in index._manifests]):
            try:
                index._take(name, data)
            except DredgeError as error:
                log.warning("the index's manifest %s is skipped: %s", name, error)
                index.distrusted.append(name)
        return index

    def part_of(self, range_id: str, count: int | None = None) -> str | None:
        """The part of a range; None if the index lacks it, or has another number of records than `count`."""
        name, recorded = self.places.get(range_id, ("", -1))
        return name if name in self.parts and count in (None, recorded) else None

    def group(self, ranges: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
        """Group range ids by part, in name order; the second result has the ids that the index lacks.

        An index can be lost or damaged at any time, so callers must handle missing ranges.
        """
        groups: dict[str, list[str]] = defaultdict(list)
        lacking: list[str] = []
        for range_id in sorted(ranges):
            name = self.part_of(range_id)
            (lacking if name is None else groups[name]).append(range_id)
        return dict(sorted(groups.items())), lacking

    def read(self, ranges: Iterable[str], lacking: set[str]) -> Iterator[RangeHashes]:
        """Yield the ranges in the index, without sizes; add those missing or in damaged parts to `lacking`."""
        groups, missing = self.group(ranges)
        lacking.update(missing)
        for name, ids in groups.items():
            try:
                found = read_part(self._state, self.parts[name], lambda _: False)
            except FormatError as error:
                log.warning("the index's part %s is left out: %s", name, error)
                lacking.update(ids)
                continue
            wanted = set(ids)
            yield from (item for item in found if item.range_id in wanted)

    def add(
        self, label: str, written: Iterable[NewPart], put: Callable[[str, bytes], object] | None = None
    ) -> None:
        """Record new parts in a manifest; `label` (run id and step) must be new, or have the same content as before.
        `put` writes the manifest, after the parts; None writes it now."""
        new = list(written)
        rows = [
            (range_id, count, item.part.name)
            for item in new
            for range_id, count in zip(item.ids, item.counts, strict=True)
        ]
        if rows:
            name, data = self._manifest(f"{MANIFESTS}/{label}", rows, [item.part for item in new])
            (put or self._state.put)(name, data)
            self._take(name, data)

    def checkpoint(self, label: str) -> None:
        """Unite all manifests in one file; `label` is the run id: newer files sort first."""
        rows = [(range_id, count, part) for range_id, (part, count) in sorted(self.places.items())]
        if rows:
            used = sorted({part for _, _, part in rows})
            manifests = {"manifests": json.dumps(sorted(self._manifests))}
            parts = [self.parts[name] for name in used]
            self._state.put(*self._manifest(f"{CHECKPOINTS}/{label}", rows, parts, manifests))

    def _manifest(
        self,
        stem: str,
        rows: list[tuple[str, int, str]],
        parts: list[IndexPart],
        more: Mapping[str, str] = {},
    ) -> tuple[str, bytes]:
        """Make a manifest or checkpoint; return its name and bytes."""
        table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=_MANIFEST)
        facts = {"parts": json.dumps(list(map(to_json, parts))), "made_for": json.dumps(self._made_for)}
        data = parquet_bytes(table.replace_schema_metadata({**facts, **more}))
        return f"{stem}-{hashlib.sha256(data).hexdigest()}.parquet", data

    def _take_checkpoint(self) -> None:
        """Read the newest undamaged checkpoint."""
        names = sorted(info.key for info in self._state.list_level(f"{CHECKPOINTS}/").objects)
        for place, name in enumerate(names):
            try:
                data = self._state.get(name)
                self._take(name, data)
                united = set(json.loads(read_parquet(data).schema.metadata[b"manifests"]))
                self.superseded |= united
                self._manifests |= united
            except DredgeError as error:
                log.warning("the index's checkpoint %s is skipped: %s", name, error)
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
            known = self.parts.setdefault(part.name, part)
            if known != part:  # it lacks the ranges of one of the manifests
                raise FormatError(f"another manifest has other bytes for {part.name}")
        self._manifests.add(name)
        columns = [table[column].to_pylist() for column in _MANIFEST.names]
        for range_id, count, part_name in zip(*columns, strict=True):
            self.places[range_id] = (part_name, count)


def _write(folder: RunFolder, name: str, table: pa.Table) -> PartInfo:
    return folder.write_bytes(name, parquet_bytes(table), table.num_rows)


def _read(reader: ObjectReader, part: PartInfo) -> pa.Table:
    try:
        data = reader.get(part.name)
    except LookupError:
        raise FormatError(f"{part.name} is missing") from None
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


# Commits of the default branch, the newest first.
_COMMITS_AHEAD = 512


@contextmanager
def growing(run: Run, alone: bool = False) -> Iterator[None]:
    """Add ranges of the default branch to the index of a first run, while the server scans staging within the block;
    for `list_committed`, which finds them by `run.begun`. `alone`: it runs in another process, and finds them in the
    index."""
    ended, grown = threading.Event(), None
    with at_once() as ask:
        if run.plan.state is None and not run.plan.config.read_kv:
            # Named now: in the thread, another step may be running, whose tries have the same numbers.
            work = partial(grow, run, ended, f"{run.folder.label}-ahead")
            if alone:
                grown = ask(work)
            else:
                run.begin("list_committed", work)
        try:
            yield
        finally:
            ended.set()
    if grown is not None:
        grown.result()


def grow(run: Run, ended: threading.Event, label: str) -> Metaranges:
    """Add ranges of the default branch to the index until `ended`. They are immutable; which of them are active is
    read later. `label` must be new. Returns the metaranges that were read."""
    written, found = list[NewPart](), Metaranges()
    try:
        index = CommittedIndex.load(run.state, run.keys.namespace)
        commits = islice(run.client.log(run.plan.repository, run.plan.default_branch), _COMMITS_AHEAD)
        named = {commit.metarange_id for commit in commits} - {""}
        found = read_files(run.reader, [] if ended.is_set() else sorted(named))
        ranges = found.ranges
        new = {item: facts for item, facts in ranges.items() if index.part_of(item, facts.count) is None}
        files = get_files(run.reader, sorted(new, key=lambda item: (new[item].min_key, item)))
        decoded = decode(takewhile(lambda _: not ended.is_set(), files), new, run.keys)
        for number, batch in enumerate(batches(decoded)):
            written.append(write_part(run.state, f"{label}-{number:04d}", batch))
        if written:
            index.add(label, written)
    except DredgeError as error:
        log.info("files are read again after the commits: %s", error)
    return found


def addresses_of(
    reader: ObjectReader, state: ObjectWriter, namespace: str, ranges: Ranges
) -> Iterator[RangeHashes]:
    """Yield the addresses of ranges, each range once, in any order; ranges missing in the index are not added to it."""
    lacking = set[str]()
    yield from CommittedIndex.load(state, namespace).read(ranges, lacking)
    ordered = sorted(lacking, key=lambda item: (ranges[item].min_key, item))  # neighbours share blocks
    try:
        yield from decode(get_files(reader, ordered), ranges, Keys(namespace=namespace))
    except NotFoundError as error:
        raise RefusedError(
            f"a range is missing: {error}. The addresses of its commits are unknown."
        ) from None


class Lookup(Struct):
    """Finds addresses in ranges."""

    reader: ObjectReader
    state: ObjectWriter  # the folder of the index
    keys: Keys
    # by id of unreadable ranges, whose addresses are unknown
    unread: dict[str, DredgeError] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> Lookup:
        """Look up addresses for a run."""
        return cls(run.reader, run.state, run.keys)

    def ranges_with(self, ranges: Ranges, wanted: Hashes) -> dict[str, Hashes]:
        """Find the ranges with wanted hashes (sorted and distinct); return those hashes by range id."""
        lacking = set[str]()
        index = CommittedIndex.load(self.state, self.keys.namespace)
        found: dict[str, Hashes] = {}
        for item in chain(index.read(ranges, lacking), self._decode(ranges, lacking)):
            hits = wanted[contains(item.addresses, wanted)]
            if len(hits):
                found[item.range_id] = hits
        return found

    def addresses_in(self, ranges: Collection[str], wanted: Hashes) -> pa.StringArray:
        """Return the addresses with wanted hashes (sorted and distinct), exactly as ranges name them."""
        found = [pa.nulls(0, pa.string())]
        for range_id in sorted(ranges):
            key = METADATA + range_id
            with self._noting(range_id):
                named = decode_keys(self.reader.get(key), key, self.keys)
                found.append(with_hashes(named, wanted))
        return pc.unique(pa.concat_arrays(found))

    def _decode(self, ranges: Ranges, ids: Collection[str]) -> Iterator[RangeHashes]:
        for range_id in sorted(ids):
            key, found = METADATA + range_id, list[RangeHashes]()
            with self._noting(range_id):
                file = [(key, self.reader.get(key))]
                found += decode(file, {range_id: ranges[range_id]}, self.keys)
            yield from found

    @contextmanager
    def _noting(self, range_id: str) -> Iterator[None]:
        """Note an unreadable range and continue, unless the store does not answer."""
        try:
            yield
        except UnavailableError:
            raise
        except DredgeError as error:
            self.unread[range_id] = error


def with_hashes(addresses: pa.Array | pa.ChunkedArray, wanted: Hashes) -> pa.StringArray:
    """The addresses with a wanted hash."""
    hit = addresses.filter(pa.array(contains(wanted, hash64(addresses)), pa.bool_())).cast(pa.string())
    chunks = hit.chunks if isinstance(hit, pa.ChunkedArray) else [hit]
    return pa.concat_arrays([pa.nulls(0, pa.string()), *chunks])
