"""The plan of a collection (`plan.json`), the state of earlier runs, and an opened run: plan, folder and stores.

An optimized run lists no chunks. It relies on an invariant: after a complete run, each chunk of any manifest is

    counted (a live manifest has it) · in a manifest file that will be listed as garbage · not old enough

`dredge.runs.versions` explains how versions of the state are written and replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
from msgspec import Struct, field

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.index import ManifestIndex, SnapshotRow, cache_uri, columns_of, rows_of
from dredge.icechunk.collection.witness.record import FORGET_LOST
from dredge.icechunk.expiration.plan import plan_for
from dredge.icechunk.format.metadata import SnapshotEntry
from dredge.icechunk.history import History
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import KnownSnapshots, read_history
from dredge.inventory.manifest import Inventory
from dredge.runs.clock import Clock, utc_now
from dredge.runs.consents import read_consents
from dredge.runs.folder import RunFolder
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.parts import cache_parts
from dredge.runs.payload import PartInfo, from_versioned
from dredge.runs.pending import store
from dredge.runs.run import CollectionRun, read_stored_plan
from dredge.runs.versions import CLEAN, Current, Version, VersionStore
from dredge.sets.live import CountedSet, LocatedSet
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_writer
from dredge.storage.parallel import at_once
from dredge.undo.pins import active_pins, sets_of
from dredge.undo.ways import UndoWay

STATE_FORMAT = 3
"""Version of the state. It rises with the index's version if counts must be made again."""

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
"""Rows of live snapshots. `etag` is the ETag of the file with the parent; null if unproved, and on spec 2, with parents
in the repo info."""


class RunState(Struct, frozen=True, kw_only=True):
    """The state after a run: names and digests of files, not their contents."""

    uri: str
    spec_version: int
    run_id: str
    run_uri: str
    fencing: int  # number of its lease; later runs have higher numbers
    previous: str  # run with the state below this one; "" for a clean run
    mode: str
    started_at: datetime
    cutoff: datetime
    clean_run_id: str
    clean_at: datetime
    optimized_runs: int  # runs since the last clean run
    chunk_objects: int  # chunks in the store in the last clean run
    # File of the live snapshots, with their parents and manifests (`SNAPSHOTS`), in the run's folder.
    snapshots: PartInfo
    virtual: PartInfo  # set of the ids in locations of virtual chunks, and perhaps of some earlier ones
    counted: CountedSet  # number of live manifests by chunk, in the folder of lease and index
    seen: tuple[str, ...]  # names of the parts of the index in these snapshots; other parts were not compared
    format: int = STATE_FORMAT


class StateStore(VersionStore[RunState]):
    """Reads and advances the state."""

    def parse(self, value: Mapping[str, Any]) -> RunState:
        """Parse a state; raises FormatError."""
        return from_versioned(RunState, value, STATE_FORMAT)

    def current(self, uri: str, spec_version: int) -> Current[RunState]:
        """Read the newest state, and check whether a run may build on it. A copied, moved or upgraded repository has no
        usable state: an upgrade changes its live objects."""
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
        return {row.snapshot: row for row in rows_of(self._table)}

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
    columns = columns_of(kept) | {
        "parent": [None if found is None else found[1].parent_id for found in entries],
        "flushed_at": [None if found is None else found[1].flushed_at for found in entries],
        "etag": [None if found is None else found[0] for found in entries],
    }
    return pa.table(columns, schema=SNAPSHOTS)


def open_base(version: Version, state: ObjectWriter, options: StorageOptions | None) -> Base:
    """Open a version of the state; raises FormatError for a damaged state."""
    try:
        found = StateStore(state, options).load(version)
    except (NotFoundError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{version.name}, the base of this run, is damaged: {error}. Nothing was deleted. Start a clean run."
        ) from None
    return Base(found, RunFolder(open_writer(found.run_uri, options), found.run_id))


def find_list(state: ObjectReader, uri: str, store_now: Clock, life: str = "") -> store.Stored:
    """Read the pending list of a repository, and check whether a run may use it. `life` is id and time of the root
    snapshot; "" skips that check. Raises RefusedError if a newer version of Dredge wrote the list."""
    with at_once() as ask:
        fetched, consents = ask(store.fetch_list, state), ask(read_consents, state, FORGET_LOST)
        now = store_now()
    said = max((consent.at for consent in consents.result()), default=None)
    why = "a person has accepted a refused state since it was written"
    expected = store.Expected(subject=uri.rstrip("/"), life=life, valid_from=said, why=why)
    return store.read_list(state, expected, now, fetched.result())


PLAN = "plan.json"
FORMAT = 2


class CollectionPlan(Struct, frozen=True, kw_only=True):
    """The plan of a run; written once, without secrets."""

    run_id: str  # descending xid of the store's time: newer runs sort first
    uri: str
    spec_version: int
    run_uri: str
    created_at: datetime
    cutoff: datetime  # only objects last modified strictly before this are candidates
    mode: str
    why_mode: str
    state: Version | None  # state of earlier runs; an optimized run builds on it
    state_etag: str | None  # of the pointer to it; None without a pointer
    lease: LeaseGrant
    config: CollectConfig
    inventory: Inventory | None = None  # is read instead of a listing of chunks; None lists them
    undo: UndoWay = field(default_factory=UndoWay)
    kind: Literal["icechunk"] = "icechunk"
    format: int = FORMAT

    @property
    def store_uri(self) -> str:
        """URI of the collected store: the repository."""
        return self.uri

    @property
    def repository(self) -> str:
        """Name of the repository in messages: its URI."""
        return self.uri

    @property
    def grace(self) -> timedelta:
        """Wait between finding garbage and deleting it, by different runs."""
        return self.config.grace(self.undo.way, self.spec_version)

    @property
    def dry_run(self) -> bool:
        """Whether this is a dry run."""
        return self.config.dry_run


def parse_plan(value: object) -> CollectionPlan:
    """Parse the JSON of `plan.json`."""
    return from_versioned(CollectionPlan, value, FORMAT)


def read_plan(run_uri: str, options: StorageOptions | None = None) -> CollectionPlan:
    """Read the plan of a run; ConfigError if there is no run."""
    return read_stored_plan(run_uri, parse_plan, options)


@dataclass
class Run(CollectionRun[CollectionPlan]):
    """A run of a collection; made with `Run.open`. `index`: the manifest index that this process has read."""

    index: ManifestIndex | None = None

    @classmethod
    def open(
        cls,
        run_uri: str,
        options: StorageOptions | None = None,
        clock: Clock = utc_now,
        plan: CollectionPlan | None = None,
    ) -> Run:
        """Open a run by the URI of its folder, with its plan if it was just written; ConfigError if there is none."""
        return cls._open(run_uri, options, clock, plan, read_plan, open_state)

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return make_lease(self.state, self.plan.config.safety.lease_seconds, self.store_now)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Run several steps in this process, with one cache for the parts of the index."""
        with cache_parts(cache_uri(self.state)), super().going_on():
            yield

    @property
    def base(self) -> Base | None:
        """The state on which this run builds; None for a clean run."""
        return None if self.plan.mode == CLEAN else self.previous

    @cached_property
    def previous(self) -> Base | None:
        """The state of the last run; None without one."""
        return None if self.plan.state is None else open_base(self.plan.state, self.state, self.options)

    def read_index(self) -> ManifestIndex:
        """Read the manifest index, once per process: it only grows."""
        self.index = self.index or ManifestIndex.load(self.state)
        return self.index

    def pinned(self) -> tuple[LocatedSet, ...]:
        """Restored objects kept for now."""
        return sets_of(active_pins(self.state, self.store_now()))

    def read_history(self, known: KnownSnapshots | None = None) -> History:
        """Read the history, in a dry run after its planned expiration; raises as `repository.read_history`."""
        if known is None and self.base is not None:
            known = self.base.known
        return self.after_plan(read_history(self.reader, known=known))

    def after_plan(self, history: History) -> History:
        """The history after the planned expiration of a dry run, or unchanged; raises as `plan_for`."""
        after = self.plan.config.after
        if after is None:
            return history
        return plan_for(self.reader, history, after, utc_now()).after
