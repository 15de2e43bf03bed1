"""Check limits: every guard is asked; `guard.json` says what each found."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dredge.errors import LeaseHeldError, RefusedError
from dredge.icechunk.collection import absent, canaries, listing, marking
from dredge.icechunk.collection.overwritten import KIND as OVERWRITTEN
from dredge.icechunk.collection.plan import Context
from dredge.runs.limits import Finding, worst
from dredge.runs.perform import StepRecord
from dredge.runs.summary import StepSummary

STEP = "guard"
GUARD = "guard.json"
CANARIES = "canaries.json"


def check_limits(context: Context) -> StepSummary:
    """Ask every guard whether the candidates may be deleted.

    Raises:
        RefusedError: a guard said no, or a limit is exceeded and the run would delete.
    """
    return context.step_by_name(STEP, [marking.STEP, listing.STEP], lambda record: _check(context, record))


def _check(context: Context, record: StepRecord) -> None:
    candidates = record.inputs[listing.STEP]
    counts = candidates.counts
    kinds = [*listing.KINDS, OVERWRITTEN]
    objects = sum(counts.get(f"{kind}_candidates_objects", 0) for kind in kinds)
    size_bytes = sum(counts.get(f"{kind}_candidates_bytes", 0) for kind in kinds)
    listed = sum(counts.get(f"{kind}_listed_objects", 0) for kind in kinds)
    proofs = list(_proofs(context, record))
    findings = [*proofs, *context.plan.config.limits.check(objects, size_bytes, listed)]
    verdict = worst(findings)
    context.folder.publish_json(
        GUARD,
        {
            "verdict": verdict,
            "candidates_digest": candidates.digest,
            "findings": [finding.to_json() for finding in findings],
        },
    )
    record.counts.update(deletable_objects=objects, deletable_bytes=size_bytes, listed_objects=listed)
    record.details.update(verdict=verdict, findings=[finding.to_json() for finding in findings])
    if verdict == "passed":
        return
    bad = "; ".join(f"{item.rule}: {item.text}" for item in findings if item.verdict == verdict)
    message = f"run {context.plan.run_id}: {bad}. Nothing was deleted."
    if verdict == "awaiting_approval" and context.plan.config.dry_run:
        record.warn(f"a run that deletes would await approval: {message}")
        return
    record.status = verdict
    record.error = RefusedError(
        f"{message} Read {context.folder.uri}/{GUARD}."
        + (" Raise the limit if this is what you want." if worst(proofs) == "passed" else "")
    )


def _proofs(context: Context, record: StepRecord) -> Iterator[Finding]:
    mark, candidates = record.inputs[marking.STEP], record.inputs[listing.STEP]
    for kind in listing.KINDS:
        rows = sum(part.rows for part in listing.candidate_parts(candidates, kind))
        counted = candidates.counts[f"{kind}_candidates_objects"]
        yield _must(f"{kind}_complete", rows == counted, rows, counted, "candidates were written and counted")
    live = mark.counts["live_snapshots"]
    yield _must("live_not_empty", live > 0, live, None, "snapshots are live")
    yield from absent.check_absent(context, mark, candidates)
    birds = canaries.sample(context)
    dead = canaries.among(context, birds, candidates)
    text = f"of {len(birds):,} objects that refs need are candidates" + (
        f", such as {dead[0]}" if dead else ""
    )
    yield _must("canaries", not dead, len(dead), 0, text)
    try:
        context.lease.check(context.plan.lease, context.store_now())
        yield Finding("lease_held", "passed", context.plan.lease.fencing, None, "is this run's lease")
    except LeaseHeldError as error:
        yield Finding("lease_held", "refused", context.plan.lease.fencing, None, str(error))
    record.counts["canaries"] = len(birds)
    present, _ = canaries.split(context, birds)
    data = json.dumps(present).encode()
    record.parts.append(context.folder.write_bytes(f"{STEP}/{CANARIES}", data, len(present)))


def _must(
    rule: str, holds: bool, figure: float | int | str, limit: float | int | str | None, text: str
) -> Finding:
    return Finding(rule, "passed" if holds else "refused", figure, limit, f"{figure} {text}")
