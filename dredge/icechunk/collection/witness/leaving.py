"""Leave what a complete mark knew for the next one, under the lease."""

from __future__ import annotations

from dredge.errors import ConflictError
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.record import KNOWN
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.runs.perform import StepRecord


def leave_record(run: Run, record: StepRecord) -> None:
    """Replace what the last mark left, unless another run did so since this one's mark.

    Args:
        run: whose mark and listing are complete; it holds the lease.
        record: of the step at work, which reads the mark.

    Raises:
        ConflictError: another run has left its record since.
        LeaseHeldError: another run has taken over.
        OvertakenError: a later try was begun.
    """
    mark = record.input(MarkOutput)
    if mark.known is None:
        return
    data = run.folder.read_bytes(mark.known)
    record.attempt.check()
    run.lease.check(run.plan.lease)
    if replace_tagged(run.state, KNOWN, data, mark.known_etag):
        return
    found = read_tagged(run.state, KNOWN)
    if found is None or found[1] != data:
        raise ConflictError(
            f"{run.state.uri}/{KNOWN} was changed by another run since the mark of run {run.plan.run_id}. Nothing was"
            " deleted. Start a new run."
        )
