"""The manifest index: the manifests of snapshots and the chunks of manifests, read once in the life of a repository.

    index/parts/<run>-snapshots-<n>.parquet     snapshot, its manifests, the references in each
    index/parts/<run>-manifests-<n>.ids         manifests, the first 64 bits of the ids of their chunks
    index/heads/<run>-<step>-<sha256>.json      the parts of one step, with their digests; the head of a compaction also
                                                has the names of the heads that it replaces (`own_files`)

A part of snapshots gets its head after their manifests have been read as well: a damaged read with wrong manifests
leaves no head. Contents of snapshots and manifests never change and ids are never used again (an in-place expiration
changes a snapshot's parent only, and the index has no parents), so the index stays true. A head with a wrong digest in
its name, or of an earlier format, is left out; a part with a wrong digest is read from the repository again.

A part of manifests can go into sets without another step; its digest must be the digest in its head:

    u64 length n of the names, padded to 8 bytes
    n bytes of JSON: [[manifest, number of native ids, of virtual ids], …], padded with spaces
    u64 ids, little endian, of each manifest the native and then the virtual ids, sorted and distinct

The files of the repository are read here, too. A missing or damaged live file is an error and never skipped: its chunks
would look like garbage. `estimate` counts garbage without a run.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.icechunk.expiration.plan import ExpirationPlan, Freed
from dredge.icechunk.format.manifests import NamedChunks, named_chunks
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.history import History
from dredge.icechunk.ids import hash_ids, hashes_of_names
from dredge.icechunk.repository import AT_ONCE, MANIFESTS, OBJECT_FOLDERS, SNAPSHOTS, read_parsed
from dredge.runs.parts import get_part_cache, parquet_bytes, read_cached, read_parquet
from dredge.runs.payload import PartInfo, from_json, to_json
from dredge.sets.hashes import Hashes, contains, unite, unite_all
from dredge.storage import ObjectReader, ObjectWriter
from dredge.storage.parallel import map_ahead, ordered_map

log = logging.getLogger("dredge")

PARTS = "index/parts"
HEADS = "index/heads"
FORMAT = 3
"""Version of the index. It rises when files are read more strictly; parts of an earlier version are read again."""
READ_AGAIN = (
    "remove the folder _dredge/index of the repository while no run is active, and start a clean run (not a dry run),"
    " which reads all files again"
)
_ID_BYTES = 8


def error_of_difference(manifest_uri: str, state_uri: str) -> FormatError:
    """Make the error for a manifest whose chunks differ from the index."""
    return FormatError(
        f"{manifest_uri} has other chunks than {state_uri}/index recorded: it was damaged, in the store or in transit,"
        f" when an earlier run read it. Nothing was deleted. Remove the folder {state_uri}/index; then the next run"
        " reads every manifest again."
    )


class SnapshotRow(Struct, frozen=True):
    """The manifests of a snapshot, and the number of references in each."""

    snapshot: str
    manifests: tuple[str, ...]
    refs: tuple[int, ...]


class ManifestIndex(Struct):
    """The parts of the index, and the part of each manifest."""

    snapshot_parts: list[PartInfo] = field(default_factory=list)
    manifest_parts: dict[str, PartInfo] = field(default_factory=dict)
    manifests_of: dict[str, list[str]] = field(default_factory=dict)  # ids of manifests, by the part's name
    heads: list[str] = field(default_factory=list)
    # Heads that a compaction replaced: of each the newer heads, and the names of its parts (none if it is unreadable).
    superseded: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)
    unread_heads: set[str] = field(default_factory=set)

    @classmethod
    def load(cls, state: ObjectReader) -> ManifestIndex:
        """Read all heads; damaged heads are ignored."""
        index = cls()
        names = sorted((info.key for info in state.list_level(f"{HEADS}/").objects), reverse=True)
        values: dict[str, Mapping[str, Any]] = {}
        for name, data in state.get_many(names):  # run ids sort newest first
            if hashlib.sha256(data).hexdigest() != name.removesuffix(".json").rpartition("-")[2]:
                log.warning("index head %s/%s is ignored: its digest differs from its name", state.uri, name)
                index.unread_heads.add(name)
                continue
            values[name] = json.loads(data)
            for replaced in values[name].get("replaces", ()):
                index.superseded.setdefault(replaced, {})[name] = frozenset()
        for name, value in values.items():
            if name in index.superseded:
                index.superseded[name] = dict.fromkeys(index.superseded[name], _names_in(value))
            elif value.get("format") == FORMAT:
                index._take(value)
                index.heads.append(name)
            else:
                index.unread_heads.add(name)
        return index

    @property
    def seen(self) -> list[str]:
        """Names of the parts of snapshots."""
        return sorted(part.name for part in self.snapshot_parts)

    @property
    def part_names(self) -> set[str]:
        """Names of the files of all parts in use."""
        return {part.name for part in self.snapshot_parts} | self.manifest_parts.keys()

    def add(
        self,
        state: ObjectWriter,
        label: str,
        snapshots: Sequence[PartInfo],
        manifests: Sequence[tuple[PartInfo, Sequence[str]]],
        replaces: Sequence[str] = (),
    ) -> None:
        """Write a head for new parts; parts of manifests come with the manifests' ids. Equal parts get an equal head.
        `label` is the prefix of the head's name, `replaces` are the heads that it replaces."""
        if not snapshots and not manifests and not replaces:
            return
        value: dict[str, Any] = {
            "format": FORMAT,
            "snapshots": [to_json(part) for part in snapshots],
            "manifests": [{"part": to_json(part), "ids": ids} for part, ids in manifests],
            **({"replaces": sorted(replaces)} if replaces else {}),
        }
        data = json.dumps(value, sort_keys=True).encode()
        if (parts := get_part_cache(cache_uri(state))) is not None:
            parts.settle()  # a head names parts that are there
        name = f"{HEADS}/{label}-{hashlib.sha256(data).hexdigest()}.json"
        state.put(name, data)
        self.heads.insert(0, name)
        self._take(value)

    def _take(self, value: Mapping[str, Any]) -> None:
        self.snapshot_parts += [from_json(PartInfo, part) for part in value["snapshots"]]
        for item in value["manifests"]:
            part = from_json(PartInfo, item["part"])
            self.manifest_parts[part.name] = part
            self.manifests_of[part.name] = list(item["ids"])

    def drop(self, name: str) -> None:
        """Forget a damaged part."""
        self.manifest_parts.pop(name, None)
        self.manifests_of.pop(name, None)

    def snapshots(self, state: ObjectReader, seen: Collection[str] = ()) -> dict[str, SnapshotRow]:
        """Read every snapshot of the index, except in the parts `seen` and in damaged parts."""
        found: dict[str, SnapshotRow] = {}
        parts = [part for part in self.snapshot_parts if part.name not in seen]
        for part, rows in zip(parts, ordered_map(partial(_rows_or_error, state), parts, 16), strict=True):
            if isinstance(rows, DredgeError):
                log.warning("index part %s is ignored: %s", part.name, rows)
                continue
            found = unite_rows([*found.values(), *rows])
        return found


def unite_rows(rows: Iterable[SnapshotRow]) -> dict[str, SnapshotRow]:
    """Merge rows by snapshot: a snapshot with several rows gets the manifests of all of them."""
    found: dict[str, SnapshotRow] = {}
    for row in rows:
        known = found.setdefault(row.snapshot, row)
        if known != row:
            refs = dict(zip(row.manifests + known.manifests, row.refs + known.refs, strict=True))
            found[row.snapshot] = SnapshotRow(row.snapshot, tuple(refs), tuple(refs.values()))
    return found


def _names_in(value: Mapping[str, Any]) -> frozenset[str]:
    parts = [*value.get("snapshots", ()), *(item["part"] for item in value.get("manifests", ()))]
    return frozenset(from_json(PartInfo, part).name for part in parts)


def columns_of(rows: Sequence[SnapshotRow]) -> dict[str, Any]:
    """The columns of a table of snapshots."""
    return {
        "snapshot": pa.array([row.snapshot for row in rows], pa.string()),
        "manifests": pa.array([list(row.manifests) for row in rows], pa.list_(pa.string())),
        "refs": pa.array([list(row.refs) for row in rows], pa.list_(pa.int64())),
    }


def rows_of(table: pa.Table) -> list[SnapshotRow]:
    """The rows of a table of snapshots."""
    columns = (table[name].to_pylist() for name in ("snapshot", "manifests", "refs"))
    return [
        SnapshotRow(snapshot, tuple(manifests), tuple(refs))
        for snapshot, manifests, refs in zip(*columns, strict=True)
    ]


def write_snapshot_rows(state: ObjectWriter, name: str, rows: Sequence[SnapshotRow]) -> PartInfo:
    """Write rows of snapshots as a part."""
    return _put(state, f"{PARTS}/{name}.parquet", parquet_bytes(pa.table(columns_of(rows))), len(rows))


def read_snapshot_rows(state: ObjectReader, part: PartInfo) -> list[SnapshotRow]:
    """Read a part of snapshots; raises FormatError for a damaged part."""
    rows = rows_of(read_parquet(_get(state, part)))
    if len(rows) != part.rows:
        raise FormatError(f"index part {part.name} has {len(rows)} rows instead of {part.rows}")
    return rows


def _rows_or_error(state: ObjectReader, part: PartInfo) -> list[SnapshotRow] | DredgeError:
    try:
        return read_snapshot_rows(state, part)
    except DredgeError as error:
        return error


def write_manifest_rows(state: ObjectWriter, name: str, rows: Iterable[tuple[str, NamedChunks]]) -> PartInfo:
    """Write the chunks of manifests as a part."""
    pairs = list(rows)
    names = json.dumps([[manifest, *map(len, chunks)] for manifest, chunks in pairs]).encode()
    names += b" " * (-len(names) % _ID_BYTES)
    pieces = [ids.astype("<u8", copy=False).data for _, chunks in pairs for ids in chunks]
    data = b"".join([len(names).to_bytes(_ID_BYTES, "little"), names, *pieces])
    return _put(state, f"{PARTS}/{name}.ids", data, len(pairs))


def read_manifest_rows(state: ObjectReader, part: PartInfo) -> list[tuple[str, NamedChunks]]:
    """Read a part of manifests; raises FormatError for a damaged part."""
    data = _get(state, part)
    start = _ID_BYTES + int.from_bytes(data[:_ID_BYTES], "little")
    try:
        names = [
            (str(name), int(native), int(more)) for name, native, more in json.loads(data[_ID_BYTES:start])
        ]
        values = np.frombuffer(data, "<u8", offset=start).astype(np.uint64, copy=False)
    except (ValueError, TypeError):
        raise FormatError(f"{part.name} is not a part of the manifest index") from None
    ends = list(itertools.accumulate(native + more for _, native, more in names))
    if len(names) != part.rows or (ends[-1] if ends else 0) != len(values):
        raise FormatError(f"index part {part.name} differs from the written rows")
    return [
        (name, NamedChunks(values[end - native - more : end - more], values[end - more : end]))
        for (name, native, more), end in zip(names, ends, strict=True)
    ]


def _put(state: ObjectWriter, name: str, data: bytes, rows: int) -> PartInfo:
    if (parts := get_part_cache(cache_uri(state))) is None:
        state.put(name, data)
    else:
        parts.write(state, name, data)
    return PartInfo(name, rows, len(data), hashlib.sha256(data).hexdigest())


def _get(state: ObjectReader, part: PartInfo) -> bytes:
    named = replace(part, key=part.name)  # a part may have been written under another name
    return read_cached(state, named, get_part_cache(cache_uri(state)), part.name, "manifest index")


def cache_uri(state: ObjectReader) -> str:
    """Return the URI of the cache for small parts; a part's name is never written twice."""
    return f"{state.uri}/{PARTS}"


def snapshot_rows(
    reader: ObjectReader, snapshots: Sequence[str], at_once: int = AT_ONCE
) -> Iterator[SnapshotRow]:
    """Read the manifests of snapshots."""

    def parse(data: bytes, key: str) -> SnapshotRow:
        manifests = parse_snapshot(data, key).manifests
        return SnapshotRow(
            key.removeprefix(SNAPSHOTS),
            tuple(info.id for info in manifests),
            tuple(info.refs for info in manifests),
        )

    def get(key: str) -> bytes:
        # The history of spec 1 has read it a moment ago: contents of a snapshot never change but for the parent.
        kept = get_part_cache(reader.uri)
        return (None if kept is None else kept.get(key)) or reader.get(key)

    with _missing_is_damage(reader):
        yield from read_parsed(reader, [SNAPSHOTS + node for node in snapshots], parse, at_once, get)


def refs_by_manifest(rows: Iterable[SnapshotRow]) -> dict[str, int]:
    """Collect the number of chunk references in each manifest, as recorded in the snapshots."""
    found: dict[str, int] = {}
    for row in rows:
        for manifest, count in zip(row.manifests, row.refs, strict=True):
            if found.setdefault(manifest, count) != count:
                raise FormatError(
                    f"{SNAPSHOTS}{row.snapshot} states {count} chunk references for manifest {manifest}, another"
                    f" snapshot {found[manifest]}: one of the two is damaged. Nothing was deleted. Check the snapshots"
                    f" with Icechunk; if both are intact, {READ_AGAIN}."
                )
    return found


def manifest_rows(
    reader: ObjectReader, refs: Mapping[str, int], digests: dict[str, str] | None = None
) -> Iterator[tuple[str, NamedChunks]]:
    """Read the chunks of manifests in the order of the manifests' ids; `digests` gets the MD5 of each file's bytes."""
    # Fetching and decoding release the interpreter's lock. A decoded manifest can be large, so no more are decoded at
    # once than there are processors.
    decoding = threading.BoundedSemaphore(os.cpu_count() or 1)

    def read(manifest: str) -> tuple[str, NamedChunks]:
        key = MANIFESTS + manifest
        data = reader.get(key)
        if digests is not None:
            digests[manifest] = hashlib.md5(data, usedforsecurity=False).hexdigest()
        with decoding:
            return manifest, named_chunks(data, key, refs=refs[manifest])

    with _missing_is_damage(reader):
        yield from map_ahead(read, sorted(refs), lambda row: sum(ids.nbytes for ids in row[1]))


@contextmanager
def _missing_is_damage(reader: ObjectReader) -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise FormatError(
            f"{reader.uri}: a live file is missing: {error}. Nothing was deleted. Restore the file, or delete the refs"
            f" that need it. If Icechunk finds no snapshot that needs it, the index is damaged: {READ_AGAIN}."
        ) from None


def estimate(reader: ObjectReader, plan: ExpirationPlan, min_age: timedelta, now: datetime) -> Freed:
    """Count the objects that a plan, once applied, makes unreachable; objects younger than `min_age` count separately.
    Costs as much as a dry run."""
    live, cutoff = live_ids(reader, plan.after), now - min_age
    counts, youngest = Counter[str](), cutoff
    for kind, prefix in OBJECT_FOLDERS.items():
        for batch in reader.list(prefix):
            hashes, is_id = hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(prefix)))
            found = batch.filter(pa.array(is_id & ~contains(live[kind], hashes)))
            young = found.filter(pc.greater_equal(found["last_modified"], pa.scalar(cutoff)))
            counts[kind] += found.num_rows
            counts["bytes"] += pc.sum(found["size"]).as_py() or 0
            counts["young"] += young.num_rows
            counts["young_bytes"] += pc.sum(young["size"]).as_py() or 0
            if young.num_rows:
                youngest = max(youngest, pc.max(young["last_modified"]).as_py())
    return Freed(
        snapshots=counts["snapshots"],
        manifests=counts["manifests"],
        chunks=counts["chunks"],
        transaction_logs=counts["transactions"],
        size_bytes=counts["bytes"],
        young_objects=counts["young"],
        young_bytes=counts["young_bytes"],
        all_old_at=youngest + min_age if counts["young"] else None,
    )


def read_listed(reader: ObjectReader, kind: str) -> Hashes:
    """List the ids of a kind of objects."""
    prefix = OBJECT_FOLDERS[kind]
    names = (pc.utf8_slice_codeunits(batch["key"], len(prefix)) for batch in reader.list(prefix))
    return unite([hashes_of_names(found)[0] for found in names])


def live_ids(reader: ObjectReader, history: History) -> Mapping[str, Hashes]:
    """Read the live ids of a history by kind; on spec 2 every listed snapshot is live."""
    named, virtual = named_ids(reader, history)
    return {kind: unite([ids, virtual]) for kind, ids in named.items()}


def named_ids(reader: ObjectReader, history: History) -> tuple[Mapping[str, Hashes], Hashes]:
    """Read the ids in the files of a history by kind, including ids in locations of virtual chunks."""
    live = history.live()
    refs = refs_by_manifest(snapshot_rows(reader, sorted(live)))
    of_virtual: list[Hashes] = []

    def named_chunks() -> Iterator[Hashes]:
        for _, found in manifest_rows(reader, refs):
            of_virtual.append(found.virtual)
            yield found.native

    chunks = unite_all(named_chunks())
    pruned = {log for entry in history.snapshots.values() for log in entry.pruned}
    named = {
        "snapshots": hash_ids(live),
        "transactions": hash_ids(live | pruned),
        "manifests": hash_ids(refs),
        "chunks": chunks,
    }
    return named, unite(of_virtual)
