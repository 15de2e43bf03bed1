"""The state that an optimized run builds on, with its files at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection.index import SnapshotRow
from dredge.icechunk.collection.plan import CollectionPlan
from dredge.icechunk.collection.state.model import RunState
from dredge.icechunk.collection.state.store import StateStore
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.repository import KnownSnapshots
from dredge.runs.folder import RunFolder
from dredge.runs.versions import CLEAN, Version
from dredge.storage import ObjectWriter, StorageOptions, open_writer

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
    """Make the table of live snapshots.

    Args:
        rows: what each names.
        known: their parents, where a tag proves them.
    """
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


def base_of(plan: CollectionPlan, state: ObjectWriter, options: StorageOptions | None) -> Base | None:
    """Open the state that a run builds on; None for a clean run.

    Raises:
        FormatError: the state that the plan names is not as it was.
    """
    if plan.mode == CLEAN or plan.state is None:
        return None
    return open_base(plan.state, state, options)


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
    """Give the folder in which counts lie: not a run's own, because later runs build on them.

    Args:
        state: on the folder of lease and index.
        label: for messages.
    """
    return RunFolder(state, label)
