"""Leave what a complete mark knew for the next one, under the lease."""

from __future__ import annotations

from dataclasses import replace

from dredge.errors import ConflictError
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.record import KNOWN, parse_known, read_known, replace_known
from dredge.runs.steps import StepRecord


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
    known = parse_known(run.folder.read_bytes(mark.known))
    record.attempt.check()
    run.lease.check(run.plan.lease)
    if replace_known(run.state, known, mark.known_etag):
        return
    found, _ = read_known(run.state)
    if replace(found, written_at=None) != known:
        raise ConflictError(
            f"{run.state.uri}/{KNOWN} was changed by another run since the mark of run {run.plan.run_id}. Nothing was"
            " deleted. Start a new run."
        )
