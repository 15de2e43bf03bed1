"""The state that a complete collection leaves for the next one, and the pending list.

An optimized run lists no chunks. It relies on this: for every chunk of any manifest, at least one of these is true
after a complete run:

    counted (a live manifest has it) · in a manifest file that will be listed as garbage · not old enough

`dredge.runs.versions` explains how versions of the state are written and replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection.index import SnapshotRow
from dredge.icechunk.collection.witness.record import FORGET_LOST
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.repository import KnownSnapshots
from dredge.runs.consents import read_consents
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_versioned
from dredge.runs.pending import store
from dredge.runs.summary import PartInfo
from dredge.runs.versions import Current, Version, VersionStore
from dredge.sets.live import CountedSet
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_writer

FORMAT = 3
"""Rises with the index's format when counts must be made again."""

SNAPSHOTS = pa.schema(
    [
        pa.field("snapshot", pa.string(), nullable=False),
        pa.field("parent", pa.string()),
        pa.field("flushed_at", pa.int64()),
        pa.field("etag", pa.string()),
        pa.field("manifests", pa.list_(pa.string()), nullable=False),
        pa.field("refs", pa.list_(pa.int64()), nullable=False),
    ]
)
"""Rows of live snapshots. `etag` is null if no proof exists that the parent came from the file with this tag (always on
spec 2, with parents in the repo info).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state after a run. It has names and digests of files, not their contents.

    Attributes:
        run_uri: the run's folder, with `snapshots`.
        fencing: number of its lease; later runs have higher numbers.
        previous: run with the state below this one; "" for a clean run.
        mode: "clean" or "optimized".
        started_at: the store's time when the run was planned.
        cutoff: only objects last modified strictly before it were candidates.
        clean_run_id: the last clean run.
        clean_at: when that run was planned.
        optimized_runs: runs since then.
        chunk_objects: chunks in the store in the last clean run.
        snapshots: file of the live snapshots, with their parents and manifests (`SNAPSHOTS`).
        virtual: set of the ids in locations of virtual chunks, and perhaps of some earlier ones.
        counted: number of live manifests by chunk, in the folder of lease and index.
        contradicted: snapshots with two different reads; they have the manifests of both.
        seen: names of the parts of the index in these snapshots; other parts were not compared.
    """

    uri: str
    spec_version: int
    run_id: str
    run_uri: str
    fencing: int
    previous: str
    mode: str
    started_at: datetime
    cutoff: datetime
    clean_run_id: str
    clean_at: datetime
    optimized_runs: int
    chunk_objects: int
    snapshots: PartInfo
    virtual: PartInfo
    counted: CountedSet
    contradicted: tuple[str, ...]
    seen: tuple[str, ...]
    format: int = FORMAT


class StateStore(VersionStore[RunState]):
    """Reads the state and moves it on."""

    def parse(self, value: Mapping[str, Any]) -> RunState:
        """Parse a state; raises FormatError."""
        return from_versioned(RunState, value, FORMAT)

    def current(self, uri: str, spec_version: int) -> Current[RunState]:
        """Read the newest state, and check whether a run may build on it.

        A copied, moved or upgraded repository has no usable state: an upgrade changes its live objects.
        """
        place = uri.rstrip("/")
        return self.find({"uri": lambda found: found.rstrip("/") == place, "spec_version": spec_version})

    def files(self, state: RunState) -> Iterator[tuple[RunFolder, PartInfo]]:
        """All files of a state, with their folders."""
        folder = RunFolder(open_writer(state.run_uri, self._options), state.run_id)
        yield from ((folder, part) for part in (state.snapshots, state.virtual))
        counted = RunFolder(self.writer, state.run_id)
        yield from ((counted, part) for part in state.counted.parts)


@dataclass(frozen=True)
class Base:
    """The state of an earlier run, and that run's folder."""

    state: RunState
    folder: RunFolder

    @cached_property
    def _table(self) -> pa.Table:
        return self.folder.read_part(self.state.snapshots).cast(SNAPSHOTS)

    @cached_property
    def rows(self) -> dict[str, SnapshotRow]:
        """Live snapshots of that run by id."""
        columns = [self._table[name].to_pylist() for name in ("snapshot", "manifests", "refs")]
        return {
            snapshot: SnapshotRow(snapshot, tuple(manifests), tuple(refs))
            for snapshot, manifests, refs in zip(*columns, strict=True)
        }

    @property
    def known(self) -> KnownSnapshots:
        """Parents of snapshot files of spec 1, with the tags of those files."""
        names = ("snapshot", "parent", "flushed_at", "etag")
        found = KnownSnapshots()
        for snapshot, parent, flushed_at, etag in zip(
            *(self._table[name].to_pylist() for name in names), strict=True
        ):
            if etag is not None:
                found.entries[snapshot] = (etag, SnapshotEntry(snapshot, parent, flushed_at, ""))
        return found


def snapshots_table(rows: Iterable[SnapshotRow], known: KnownSnapshots) -> pa.Table:
    """Make the table of live snapshots; `known` has the parents with a proving tag."""
    kept = list(rows)
    proved: Mapping[str, tuple[str, SnapshotEntry]] = known.entries
    entries = [proved.get(row.snapshot) for row in kept]
    columns = {
        "snapshot": [row.snapshot for row in kept],
        "parent": [None if found is None else found[1].parent_id for found in entries],
        "flushed_at": [None if found is None else found[1].flushed_at for found in entries],
        "etag": [None if found is None else found[0] for found in entries],
        "manifests": [list(row.manifests) for row in kept],
        "refs": [list(row.refs) for row in kept],
    }
    return pa.table(columns, schema=SNAPSHOTS)


def open_base(version: Version, state: ObjectWriter, options: StorageOptions | None) -> Base:
    """Open a version of the state; raises FormatError for a damaged state."""
    try:
        found = StateStore(state, options).load(version)
    except (NotFoundError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{version.name}, the state below this run, is damaged: {error}. Nothing was deleted. Start a clean run."
        ) from None
    return Base(found, RunFolder(open_writer(found.run_uri, options), found.run_id))


def counts_folder(state: ObjectWriter, label: str) -> RunFolder:
    """The folder of counts: outside run folders, because later runs build on it."""
    return RunFolder(state, label)


def find_list(state: ObjectReader, uri: str, now: datetime, life: str = "") -> store.Stored:
    """Read the pending list of a repository, and check whether a run may use it.

    Args:
        life: id and time of the root snapshot; "" for not checked.

    Raises:
        RefusedError: a newer version of Dredge wrote it.
    """
    said = max((consent.at for consent in read_consents(state, FORGET_LOST)), default=None)
    why = "a person has accepted a refused state since"
    return store.read_list(
        state, store.Expected(subject=uri.rstrip("/"), life=life, valid_from=said, why=why), now
    )
