"""Check limits: every guard is asked; `guard.json` says what each found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dredge.approve.output import LET_IT
from dredge.approve.settings import NEVER
from dredge.errors import LeaseHeldError, RefusedError
from dredge.icechunk.collection.check_limits import canaries
from dredge.icechunk.collection.check_limits.absent import PRESENT, check_absent
from dredge.icechunk.collection.check_limits.output import CANARIES, CheckLimitsOutput
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.pending import leave_list
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.leaving import leave_record
from dredge.runs.limits import Finding, worst
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.undo.deletions import first_objects_max, read_deletions
from dredge.undo.ways import cost_of_undo

GUARD = "guard.json"


def check_limits(run: Run) -> StepSummary:
    """Ask every guard whether the candidates may be deleted.

    Raises:
        RefusedError: a guard said no, or a limit is exceeded, the run would delete, and nobody is to be asked.
    """
    return run.step(CheckLimitsOutput, lambda record: _check_limits(run, record))


def _check_limits(run: Run, record: StepRecord) -> None:
    leave_record(run, record)
    leave_list(run, record)
    if unread := read_deletions(run.state).unread:
        record.warn(
            f"{len(unread):,} records of what runs deleted cannot be compared with what is live:"
            f" {unread[max(unread)]}"
        )
    candidates = record.input(ListCandidatesOutput)
    objects, size_bytes = candidates.total("candidates_objects"), candidates.total("candidates_bytes")
    listed = candidates.total("listed_objects")
    if run.base is not None:  # it looked at few of the chunks; a share is one of all
        listed += run.base.state.chunk_objects - candidates.count("chunks", "listed_objects")
    limits = run.plan.config.limits
    if limits.objects is None:
        limits = replace(limits, objects=first_objects_max(run.state, run.plan.undo.way, run.plan.run_id))
    findings = [*_proofs(run, record), *limits.check(objects, size_bytes, listed)]
    found = {
        "verdict": worst(findings),
        "findings": [to_json(finding) for finding in findings],
        "undo": to_json(cost_of_undo(run.plan.undo.way, objects, size_bytes)),
    }
    run.folder.publish_json(GUARD, {**found, "candidates_digest": candidates.digest})
    record.counts.update(deletable_objects=objects, deletable_bytes=size_bytes, listed_objects=listed)
    record.details.update(found)
    _conclude(run, record, findings)


def _conclude(run: Run, record: StepRecord, findings: Sequence[Finding]) -> None:
    """Let the run go on, or not. One beyond its limits goes on to ask a person, where that is wanted; a dry run goes on
    where only a limit, or something that is missing, is in the way."""
    verdict, config = worst(findings), run.plan.config
    if verdict == "passed":
        return
    bad = [item for item in findings if item.verdict == verdict]
    message = f"run {run.plan.run_id}: {'; '.join(f'{item.rule}: {item.text}' for item in bad)}. Nothing was deleted."
    is_limit = verdict == "awaiting_approval"
    if is_limit and config.approval != NEVER and not config.dry_run:
        return
    if config.dry_run and (is_limit or all(item.rule in PRESENT for item in bad)):
        would = "await approval" if is_limit and config.approval != NEVER else "be refused"
        record.warn(f"a run that deletes would {would}: {message}")
        return
    record.status = "refused"
    record.error = RefusedError(
        f"{message} Read {run.folder.uri}/{GUARD}."
        + (f" {LET_IT} if this is what you want." if is_limit else "")
    )


def _proofs(run: Run, record: StepRecord) -> Iterator[Finding]:
    mark, candidates = record.input(MarkOutput), record.input(ListCandidatesOutput)
    for kind, (rows, counted) in candidates.written_and_counted.items():
        yield _must(f"{kind}_complete", rows == counted, rows, counted, "candidates were written and counted")
    live = mark.counts["live_snapshots"]
    yield _must("live_not_empty", live > 0, live, None, "snapshots are live")
    yield from check_absent(run, mark, candidates)
    yield _canaries(run, record, candidates)
    yield _lease(run)


def _canaries(run: Run, record: StepRecord, candidates: ListCandidatesOutput) -> Finding:
    """Look for canaries among the candidates, and keep those that are in the store for the end of the run."""
    sample = canaries.sample(run)
    present, _ = canaries.split(run, sample)
    data = json.dumps(present).encode()
    record.parts.append(run.folder.write_bytes(f"{CheckLimitsOutput.STEP}/{CANARIES}", data, len(present)))
    record.counts["canaries"] = len(sample)
    found = canaries.among(run, sample, candidates)
    example = f", such as {found[0]}" if found else ""
    text = f"of {len(sample):,} objects that refs need are candidates{example}"
    return _must("canaries", not found, len(found), 0, text)


def _lease(run: Run) -> Finding:
    number = run.plan.lease.fencing
    try:
        run.lease.check(run.plan.lease, run.store_now())
    except LeaseHeldError as error:
        return Finding("lease_held", "refused", number, None, str(error))
    return Finding("lease_held", "passed", number, None, "is this run's lease")


def _must(
    rule: str, holds: bool, figure: float | int | str, limit: float | int | str | None, text: str
) -> Finding:
    return Finding(rule, "passed" if holds else "refused", figure, limit, f"{figure} {text}")
