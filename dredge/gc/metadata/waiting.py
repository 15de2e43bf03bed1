"""The pending list of files that no commit names: which of them have waited.

    <runs about metadata>/pending/current.json    the list, as that of objects (`dredge.runs.pending`)

A row is about the current version of a file; all older ones go with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.metadata.config import MetadataConfig
from dredge.gc.metadata.taking import File
from dredge.gc.pending.figures import Waits
from dredge.gc.pending.found import CUT
from dredge.gc.pending.known import expected_list
from dredge.gc.plan import METADATA_RUNS
from dredge.gc.witness.mark_id import compare_ids
from dredge.gc.witness.owner import keeps_id
from dredge.gc.witness.ownership import Site, read_owner
from dredge.hashing import hash64
from dredge.runs.pending.rows import FOUND, PENDING, Turn, advance
from dredge.runs.pending.store import Expected, PendingList, folder_of, leave_list, read_list, write_part
from dredge.runs.perform import StepRecord
from dredge.storage import ObjectWriter, open_writer
from dredge.undo.side_run import SideRun

HELD = "held"
"""Code of files that may not go while something is unknown."""


@dataclass(slots=True)
class WaitingFiles:
    """The list, and the run that advances it.

    Attributes:
        run: whose mark has read its last input.
        site: the namespace and its server.
        config: what is asked for.
        record: of the step; takes warnings and figures.
    """

    run: SideRun
    site: Site
    config: MetadataConfig
    record: StepRecord

    def advance(self, garbage: Sequence[File], named: Collection[str], why_not: str) -> set[str]:
        """Advance the list, and leave it for the next run.

        Args:
            garbage: files that no commit names.
            named: names of files that commits name, or may be about to.
            why_not: why nothing may go; "" when it may.

        Returns:
            Names of the files that have waited.

        Raises:
            RefusedError: a newer version of Dredge wrote the list.
            ConflictError: another run has left its list since.
        """
        run, now = self.run, self.run.store_now()
        place = open_writer(f"{run.plan.namespace.rstrip('/')}/{METADATA_RUNS}", run.options)
        created_at = self.site.client.repository(run.plan.repository).created_at
        expected = expected_list(run.state, run.plan.namespace, created_at)
        stored = read_list(place, expected, now)
        previous, problem = _rows_of(place, stored.pending), stored.problem
        if previous is None:
            previous, problem = PENDING.empty_table(), "a part of it cannot be read"
        if problem:
            self.record.warn(f"everything waits anew: the pending list cannot be used: {problem}")
        grace = self.config.grace(keeps_id(self.site))
        turn = Turn(
            run_id=run.plan.run_id,
            marked_at=run.plan.created_at,
            now=now,
            cutoff=run.plan.created_at - self.config.min_age,
            min_age=self.config.min_age,
            grace=grace,
            waits=self.config.waits,
            lists_all=True,
            state_of=None,
        )
        found = _found(garbage, why_not)
        live = np.asarray(pc.is_in(previous["address"], pa.array(sorted(named), pa.string())), bool)
        nothing = np.zeros(previous.num_rows, bool)
        after = advance(previous, found.select(FOUND.names), live, nothing, turn)
        waits = Waits.of(after.rows, found, after.confirmed, turn)
        self.record.details["pending"] = waits.to_details(grace)
        if self._is_owner():
            self._leave(place, stored.etag, expected, after.rows)
        names = found.filter(pa.array(after.confirmed))["address"].to_pylist()
        return set(names)

    def _is_owner(self) -> bool:
        """Whether the mark counts for later ones; that of another server, or of an older database, leaves nothing."""
        owner = read_owner(self.site.state)
        if (owner is None or owner.includes(self.site.client.environment())) and compare_ids(
            self.site
        ).passes:
            return True
        self.record.warn(
            "no pending list is left for later runs: another server owns the namespace, or lakeFS lacks the id of the"
            " last mark"
        )
        return False

    def _leave(self, place: ObjectWriter, etag: str | None, expected: Expected, rows: pa.Table) -> None:
        run = self.run
        now = run.store_now()
        self.record.attempt.check()
        run.lease.check(run.plan.lease, now)
        pending = PendingList(
            subject=expected.subject,
            life=expected.life,
            run_id=run.plan.run_id,
            marked_at=run.plan.created_at,
            left_at=now,
            parts={0: write_part(place, run.folder.label, 0, rows)} if rows.num_rows else {},
        )
        leave_list(place, pending, etag)


def _rows_of(place: ObjectWriter, pending: PendingList | None) -> pa.Table | None:
    """Rows of a list; None where a file of them is damaged."""
    if pending is None:
        return PENDING.empty_table()
    folder = folder_of(place, pending.run_id)
    try:
        parts = [folder.read_part(part) for part in pending.parts.values()]
    except FormatError:
        return None
    return pa.concat_tables([PENDING.empty_table(), *(rows.cast(PENDING) for rows in parts)])


def _found(garbage: Sequence[File], why_not: str) -> pa.Table:
    """Rows of files that have versions to go."""
    files = sorted((file for file in garbage if file.versions), key=lambda file: file.name)
    names = pa.array([file.name for file in files], pa.string())
    columns = {
        "address": names,
        "hash": pa.array(hash64(names)),
        "size": [file.size for file in files],
        "etag": pa.nulls(len(files), pa.string()),
        "version_id": [file.versions[0] for file in files],
        "last_modified": [file.last_modified for file in files],
        "code": pa.array([HELD if why_not else None] * len(files), pa.string()),
        "reason": [file.kind for file in files],
    }
    return pa.table(columns, schema=CUT)
