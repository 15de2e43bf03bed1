"""The pending list of files that no commit names: which of them have waited.

    <runs about metadata>/pending/current.json    the list, as that of objects (`dredge.runs.pending`)

A row is about the current version of a file; all older ones go with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dredge.gc.metadata.config import MetadataConfig
from dredge.gc.metadata.taking import File
from dredge.gc.pending.known import expected_list
from dredge.gc.plan import METADATA_RUNS
from dredge.gc.witness.mark_id import compare_ids
from dredge.gc.witness.owner import keeps_id
from dredge.gc.witness.ownership import Site, read_owner
from dredge.runs.pending.rows import Turn
from dredge.runs.pending.store import SmallList, found_rows
from dredge.runs.steps import StepRecord
from dredge.storage import open_writer
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
        pending = SmallList.read(place, expected_list(run.state, run.plan.namespace, created_at), now)
        if pending.problem:
            self.record.warn(f"everything waits anew: the pending list cannot be used: {pending.problem}")
        turn = Turn(
            run_id=run.plan.run_id,
            marked_at=run.plan.created_at,
            now=now,
            cutoff=run.plan.created_at - self.config.min_age,
            min_age=self.config.min_age,
            grace=self.config.grace(keeps_id(self.site)),
            waits=self.config.waits,
            lists_all=True,
            state_of=None,
        )
        confirmed = pending.advance(_found(garbage, why_not), turn, named)
        self.record.details["pending"] = pending.figures
        if self._is_owner():
            now = run.store_now()
            self.record.attempt.check()
            run.lease.check(run.plan.lease, now)
            pending.leave(place, run.folder.label, run.plan.run_id, run.plan.created_at, now)
        return confirmed

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


def _found(garbage: Sequence[File], why_not: str) -> pa.Table:
    """Rows of files that have versions to go."""
    files = sorted((file for file in garbage if file.versions), key=lambda file: file.name)
    return found_rows(
        [file.name for file in files],
        size=[file.size for file in files],
        version_id=[file.versions[0] for file in files],
        last_modified=[file.last_modified for file in files],
        code=[HELD if why_not else None] * len(files),
        reason=[file.kind for file in files],
    )
