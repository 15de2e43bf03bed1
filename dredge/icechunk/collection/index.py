"""The manifest index: what snapshots and manifests name, read once for the life of a repository.

    index/parts/<run>-snapshots-<n>.parquet     snapshot, its manifests, the references in each
    index/parts/<run>-manifests-<n>.parquet     manifest, the first 64 bits of its native chunks' ids
    index/heads/<run>-<step>-<sha256>.json      the parts of one step, with their digests

Snapshots' contents and manifests never change and ids are never used again (an in-place expiration changes a
snapshot's parent only, which is not kept here), so what is in the index stays true. A head that does not fit
the digest in its name is left out, a part that does not fit its head is read from the repository again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dredge.errors import DredgeError, FormatError
from dredge.icechunk.collection.sets import Ids
from dredge.runs.folder import check_digest, parquet_bytes, read_parquet
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectReader, ObjectWriter

log = logging.getLogger("dredge")

PARTS = "index/parts"
HEADS = "index/heads"


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """The manifests of a snapshot and how many references each has."""

    snapshot: str
    manifests: tuple[str, ...]
    refs: tuple[int, ...]


@dataclass(slots=True)
class ManifestIndex:
    """Which parts exist, and where each manifest is.

    Attributes:
        snapshot_parts: parts with snapshots, oldest first.
        manifest_parts: parts with manifests by name.
        manifests_of: ids of the manifests in each part, by the part's name.
    """

    snapshot_parts: list[PartInfo] = field(default_factory=list)
    manifest_parts: dict[str, PartInfo] = field(default_factory=dict)
    manifests_of: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def load(cls, state: ObjectReader) -> ManifestIndex:
        """Read all heads; one that cannot be trusted is left out."""
        index = cls()
        names = sorted((info.key for info in state.list_level(f"{HEADS}/").objects), reverse=True)
        for name, data in state.get_many(names):  # run ids sort newest first
            if hashlib.sha256(data).hexdigest() != name.removesuffix(".json").rpartition("-")[2]:
                log.warning("%s/%s does not fit its name and is left out", state.uri, name)
                continue
            index._take(json.loads(data))
        return index

    def add(
        self,
        state: ObjectWriter,
        label: str,
        snapshots: Sequence[PartInfo],
        manifests: Sequence[tuple[PartInfo, Sequence[str]]],
    ) -> None:
        """Record new parts in a head of their own; the same parts give the same head."""
        if not snapshots and not manifests:
            return
        value = {
            "snapshots": [part.to_json() for part in snapshots],
            "manifests": [{"part": part.to_json(), "ids": ids} for part, ids in manifests],
        }
        data = json.dumps(value, sort_keys=True).encode()
        state.put(f"{HEADS}/{label}-{hashlib.sha256(data).hexdigest()}.json", data)
        self._take(value)

    def _take(self, value: Mapping[str, list[dict[str, object]]]) -> None:
        self.snapshot_parts += [PartInfo.from_json(part) for part in value["snapshots"]]
        for item in value["manifests"]:
            part = PartInfo.from_json(item["part"])  # type: ignore[arg-type]
            self.manifest_parts[part.name] = part
            self.manifests_of[part.name] = list(item["ids"])  # type: ignore[call-overload]

    def drop(self, name: str) -> None:
        """Forget a part that cannot be trusted."""
        self.manifest_parts.pop(name, None)
        self.manifests_of.pop(name, None)

    def snapshots(self, state: ObjectReader) -> dict[str, SnapshotRow]:
        """Read every snapshot that the index knows; a damaged part is left out."""
        found: dict[str, SnapshotRow] = {}
        for part in self.snapshot_parts:
            try:
                found |= {row.snapshot: row for row in read_snapshot_rows(state, part)}
            except DredgeError as error:
                log.warning("the index's part %s is left out: %s", part.name, error)
        return found


def write_snapshot_rows(state: ObjectWriter, name: str, rows: Sequence[SnapshotRow]) -> PartInfo:
    """Write what snapshots name as a part."""
    table = pa.table(
        {
            "snapshot": pa.array([row.snapshot for row in rows], pa.string()),
            "manifests": pa.array([list(row.manifests) for row in rows], pa.list_(pa.string())),
            "refs": pa.array([list(row.refs) for row in rows], pa.list_(pa.int64())),
        }
    )
    return _write(state, f"{PARTS}/{name}.parquet", table)


def read_snapshot_rows(state: ObjectReader, part: PartInfo) -> list[SnapshotRow]:
    """Read a part of snapshots; raises FormatError when it is not as it was written."""
    columns = _read(state, part).to_pydict()
    return [
        SnapshotRow(snapshot, tuple(manifests), tuple(refs))
        for snapshot, manifests, refs in zip(
            columns["snapshot"], columns["manifests"], columns["refs"], strict=True
        )
    ]


def write_manifest_rows(state: ObjectWriter, name: str, rows: Iterable[tuple[str, Ids]]) -> PartInfo:
    """Write which native chunks manifests name as a part."""
    pairs = list(rows)
    offsets = np.cumsum([0, *(len(chunks) for _, chunks in pairs)], dtype=np.int64)
    values = np.concatenate([chunks for _, chunks in pairs]) if pairs else np.empty(0, np.uint64)
    table = pa.table(
        {
            "manifest": pa.array([manifest for manifest, _ in pairs], pa.string()),
            "chunks": pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values)),
        }
    )
    return _write(state, f"{PARTS}/{name}.parquet", table)


def read_manifest_rows(state: ObjectReader, part: PartInfo) -> list[tuple[str, Ids]]:
    """Read a part of manifests; raises FormatError when it is not as it was written."""
    table = _read(state, part).combine_chunks()
    names = table["manifest"].to_pylist()
    if not names:
        return []
    column = table["chunks"].chunk(0)
    offsets = column.offsets.to_numpy()
    values = column.values.to_numpy()
    return [(name, values[offsets[row] : offsets[row + 1]]) for row, name in enumerate(names)]


def _write(state: ObjectWriter, name: str, table: pa.Table) -> PartInfo:
    data = parquet_bytes(table)
    state.put(name, data)
    return PartInfo(name, table.num_rows, len(data), hashlib.sha256(data).hexdigest())


def _read(state: ObjectReader, part: PartInfo) -> pa.Table:
    try:
        data = state.get(part.name)
    except LookupError:
        raise FormatError(f"{part.name} is gone") from None
    check_digest(part, data, "manifest index")
    table = read_parquet(data)
    if table.num_rows != part.rows:
        raise FormatError(f"{part.name} has {table.num_rows} rows, {part.rows} were written")
    return table
