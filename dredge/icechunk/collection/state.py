"""What a complete collection leaves for the next one.

Of every chunk that some manifest names, at least one of these is true after such a run, so the next one lists none:

    counted (a live manifest names it) · named by a manifest file that will be listed as dead · not old enough

The state of a repository's collections; `dredge.runs.versions` says how it lies and moves on.

The state that an optimized run builds on, with its files at hand.
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
"""Rises with the index's format when counts must be made anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state after a run. Files are named, with their digests, not copied.

    Attributes:
        uri: the repository.
        spec_version: 1 or 2.
        run_id: the run it came from.
        run_uri: that run's folder, where `snapshots` is.
        fencing: number of its lease: runs with higher ones came later.
        previous: run whose state this one built on; "" for a clean run.
        mode: "clean" or "optimized".
        started_at: the store's time when the run was planned.
        cutoff: only objects last modified strictly before it were candidates.
        clean_run_id: the last clean run.
        clean_at: when that one was planned.
        optimized_runs: runs since then.
        chunk_objects: chunks in the store, as the last clean run counted them.
        snapshots: file of the snapshots that were live, with their parents and manifests (`base.SNAPSHOTS`).
        virtual: set of the ids that locations of virtual chunks name, and perhaps of some that did since then.
        counted: how many of the manifests that these name hold each chunk, in the folder of lease and index.
        contradicted: snapshots that named other manifests when they were read again; they have what either read names.
        seen: names of the parts of the index that these were compared with; what others say nobody has looked at.
        format: number of the format of states.
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
        """Give the state that `to_json` made; raises FormatError when it is none."""
        return from_versioned(RunState, value, FORMAT)

    def current(self, uri: str, spec_version: int) -> Current[RunState]:
        """Read the newest state and see whether a run may build on it."""
        place = uri.rstrip("/")
        return self.find({"uri": lambda found: found.rstrip("/") == place, "spec_version": spec_version})

    def files(self, state: RunState) -> Iterator[tuple[RunFolder, PartInfo]]:
        """Give every file that a state names, with the folder that it lies in."""
        folder = RunFolder(open_writer(state.run_uri, self._options), state.run_id)
        yield from ((folder, part) for part in (state.snapshots, state.virtual))
        counted = RunFolder(self.writer, state.run_id)
        yield from ((counted, part) for part in state.counted.parts)


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
"""Rows of live snapshots. `etag` is null where nothing proves that the parent was read from the file with this tag (and
always on spec 2, where parents are in the repo info)."""


@dataclass(frozen=True)
class Base:
    """What an earlier run left.

    Attributes:
        state: the state.
        folder: of the run that left it.
    """

    state: RunState
    folder: RunFolder

    @cached_property
    def _table(self) -> pa.Table:
        return self.folder.read_part(self.state.snapshots).cast(SNAPSHOTS)

    @cached_property
    def rows(self) -> dict[str, SnapshotRow]:
        """What each snapshot named that was live, by its id."""
        columns = [self._table[name].to_pylist() for name in ("snapshot", "manifests", "refs")]
        return {
            snapshot: SnapshotRow(snapshot, tuple(manifests), tuple(refs))
            for snapshot, manifests, refs in zip(*columns, strict=True)
        }

    @property
    def known(self) -> KnownSnapshots:
        """Parents of snapshot files of spec 1, with the tags of the files that they were read from."""
        names = ("snapshot", "parent", "flushed_at", "etag")
        found = KnownSnapshots()
        for snapshot, parent, flushed_at, etag in zip(
            *(self._table[name].to_pylist() for name in names), strict=True
        ):
            if etag is not None:
                found.entries[snapshot] = (etag, SnapshotEntry(snapshot, parent, flushed_at, ""))
        return found


def snapshots_table(rows: Iterable[SnapshotRow], known: KnownSnapshots) -> pa.Table:
    """Make the table of live snapshots."""
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
    """Open a version of the state; raises FormatError when it is not as it was."""
    try:
        found = StateStore(state, options).load(version)
    except (NotFoundError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{version.name}, which the run builds on, is not as it was: {error}. Nothing was deleted. Start"
            " a clean run."
        ) from None
    return Base(found, RunFolder(open_writer(found.run_uri, options), found.run_id))


def counts_folder(state: ObjectWriter, label: str) -> RunFolder:
    """Give the folder in which counts lie: not a run's own, because later runs build on them."""
    return RunFolder(state, label)


def find_list(state: ObjectReader, uri: str, now: datetime, life: str = "") -> store.Stored:
    """Read the list of a repository, and see whether a run may believe it.

    Raises:
        RefusedError: a newer version of Dredge wrote it.
    """
    said = max((consent.at for consent in read_consents(state, FORGET_LOST)), default=None)
    why = "a person accepted what the witnesses refused since"
    return store.read_list(
        state, store.Expected(subject=uri.rstrip("/"), life=life, valid_from=said, why=why), now
    )
