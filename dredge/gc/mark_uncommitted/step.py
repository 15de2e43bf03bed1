"""Mark uncommitted: everything that branches have staged, read to the end."""

from __future__ import annotations

from dredge.gc.mark_uncommitted.kv_records import Records
from dredge.gc.mark_uncommitted.output import MarkUncommittedOutput, write_heads
from dredge.gc.mark_uncommitted.proof import Proof
from dredge.gc.mark_uncommitted.staging import scan_staging
from dredge.gc.run import Run
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner


def mark_uncommitted(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Read every page of the repository's uncommitted addresses.

    Args:
        run: the run.
        runner: not needed; every step takes one.

    Raises:
        RefusedError: the scan cannot be proved complete.
    """
    return run.step(MarkUncommittedOutput, lambda record: _mark(run, record))


def _mark(run: Run, record: StepRecord) -> None:
    staging = scan_staging(run, MarkUncommittedOutput.STEP)
    record.parts.extend(staging.files.parts)
    record.parts.append(write_heads(run.folder, staging.heads))
    scans = len(staging.server_runs)
    record.counts.update(
        rows=staging.rows,
        pages=staging.pages,
        empty_pages=staging.empty_pages,
        files=len(staging.server_files),
        scans=scans,
        branches=len(staging.branches),
    )
    record.details.update(
        server_runs=staging.server_runs,
        server_files=staging.server_files,
    )
    if staging.records is not None:
        _note_records(record, staging.records)
    if staging.proof is not None:
        _note_proof(record, staging.proof)
    if scans > 1:
        record.warn(
            f"branches came or went while staging was scanned, or a scan could not be proved complete; {scans}"
            " scans were united"
        )


def _note_proof(record: StepRecord, proof: Proof) -> None:
    record.counts.update(
        changed_branches=proof.changed_branches,
        changes=proof.changes,
        branches_asked_for_all=proof.asked_for_all,
        questions=proof.questions,
        unscanned_addresses=len(proof.addresses),
    )
    if proof.lost is not None:
        branch, path, address = proof.lost
        record.warn(
            f"the server's scan of staging had lost rows, such as {address!r} ({path!r} on {branch}); every branch was"
            " asked for what it has uncommitted"
        )


def _note_records(record: StepRecord, records: Records) -> None:
    record.counts.update(
        kv_tokens=records.tokens,
        kv_rows=records.rows,
        kv_unseen_addresses=records.unseen,
        kv_missing_addresses=records.missing,
    )
    record.details["kv"] = records.figures()
    if records.standing.doubt:
        record.warn(
            f"staging was not read from the key-value store alone, but lakeFS was asked, too: {records.standing.doubt}"
        )
    if records.missing:
        record.warn(
            f"{records.missing:,} addresses that the server showed as uncommitted were not in its key-value store"
            " afterwards. They were committed or dropped meanwhile, or the store is not the right one; branches are"
            " therefore asked which of the candidates with the content of a branch head they serve"
        )
