"""Check limits: every guard is asked, and `guard.json` says what each of them found.

A refused guard stops the run in any mode. A held one (a limit) stops a run that would delete; a dry run goes
on and says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from dredge.errors import LeaseHeldError, RefusedError
from dredge.gc import canaries
from dredge.gc.chain import MARK
from dredge.gc.context import Context
from dredge.gc.history import foreign_runs, previous
from dredge.gc.identical import CLEARED, STEP, Resolution, resolve
from dredge.gc.namespaces import check_namespaces
from dredge.gc.staged import STEP as STAGED
from dredge.gc.state.base import base_of
from dredge.runs.chain import breaks, plan_digest
from dredge.runs.limits import Finding, Limits, worst
from dredge.runs.perform import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner

log = logging.getLogger("dredge")

GUARD = "guard.json"


def check_limits(context: Context, runner: TaskRunner | None = None) -> StepSummary:
    """Ask every guard whether the candidates may be deleted.

    Args:
        context: of the run.
        runner: spreads the search for identical content; None does it in this process.

    Raises:
        RefusedError: a guard said no, or a limit holds a run that is no dry run.
    """
    return context.step(STEP, list(MARK), lambda record: _check(context, runner or LocalRunner(), record))


def _check(context: Context, runner: TaskRunner, record: StepRecord) -> None:
    resolution = resolve(context, runner, record)
    findings = [*_proofs(context, record), *_outside(context, record), _identical(resolution)]
    objects, size_bytes = _deletable(record, resolution)
    config = context.plan.config
    limits = Limits(config.max_delete_objects, config.max_delete_bytes, config.max_delete_percent)
    listing = record.inputs["listing"].counts
    base = base_of(context)
    # An optimized run lists a part of the namespace, but its share of the whole is what counts.
    listed = listing["old_objects"] + listing["young_objects"]
    everything = listed if base is None else max(listed, base.state.objects)
    findings.extend(limits.check(objects, size_bytes, everything))
    verdict = worst(findings)
    context.folder.publish_json(
        GUARD,
        {
            "verdict": verdict,
            "candidates_digest": record.inputs["candidates"].digest,
            "findings": [finding.to_json() for finding in findings],
            "identical_live": [
                {"address": address, "branch": branch, "path": path}
                for address, branch, path in resolution.live
            ],
        },
    )
    record.counts.update(
        deletable_objects=objects,
        deletable_bytes=size_bytes,
        suspects=resolution.suspects,
        suspects_live=len({address for address, _, _ in resolution.live}),
        suspects_held=resolution.held,
        suspects_cleared=len(resolution.cleared),
        questions=resolution.asked,
    )
    record.details.update(verdict=verdict, findings=[finding.to_json() for finding in findings])
    if resolution.why_held:
        record.warn(f"{resolution.held:,} objects are held back: {resolution.why_held}")
    if verdict == "passed":
        return
    bad = "; ".join(f"{item.rule}: {item.text}" for item in findings if item.verdict == verdict)
    message = f"run {context.plan.run_id}: {bad}. Nothing was deleted."
    if verdict == "held" and context.plan.dry_run:
        record.warn(f"a run that deletes would be held: {message}")
        return
    record.status = "held"
    record.error = RefusedError(
        f"{message} Read {context.folder.uri}/{GUARD}."
        + (" Raise the limit if this is what you want." if verdict == "held" else "")
    )


def _deletable(record: StepRecord, resolution: Resolution) -> tuple[int, int]:
    """How many objects may go, and how many bytes: suspects only when they were cleared."""
    candidates = record.inputs["candidates"].counts
    objects = candidates["candidates_objects"] - resolution.suspects + len(resolution.cleared)
    size_bytes = candidates["candidates_bytes"] - candidates["suspects_bytes"] + resolution.cleared_bytes
    return objects, size_bytes


def _proofs(context: Context, record: StepRecord) -> Iterator[Finding]:
    listing, staged = record.inputs["listing"], record.inputs["staged"]
    committed, candidates = record.inputs["committed"], record.inputs["candidates"]
    rows = sum(part.rows for part in listing.parts_below("listing/part-"))
    yield _must(
        "listing_complete",
        rows == listing.counts["old_objects"] == candidates.counts["listed_objects"],
        rows,
        listing.counts["old_objects"],
        "listed rows were written and compared",
    )
    copied = sum(part.rows for part in staged.parts_below("staged/addresses-"))
    yield _must(
        "staging_complete",
        copied >= staged.counts["rows"] and staged.counts["branches"] > 0,
        copied,
        staged.counts["rows"],
        f"staged addresses were read from {staged.counts['pages']} pages in {staged.counts['scans']} scans",
    )
    yield _ordered(context, record)
    live = committed.counts["live_addresses"]
    inside = committed.counts["range_rows"] - committed.counts["outside_rows"]
    yield _must(
        "live_not_empty",
        live > 0 or (inside == 0 and staged.counts["rows"] == 0),
        live,
        None,
        f"live addresses come from {inside:,} committed and {staged.counts['rows']:,} staged rows",
    )
    yield _committed_not_empty(committed)
    yield _staging_not_gone(context, staged)
    metadata = listing.counts["foreign_metadata"]
    yield _must(
        "nothing_nested",
        metadata == 0,
        metadata,
        0,
        "files of another repository's metadata lie below data/"
        + (f", such as {listing.details['foreign_metadata']!r}" if metadata else ""),
    )


def _ordered(context: Context, record: StepRecord) -> Finding:
    """Whether listing, staging and commits were read one after the other, and compared as they stand now.

    A step reads its inputs before it begins, so a result that names the digest of another one was made after it.
    Clocks prove nothing here: each step may have run on another machine.
    """
    wrong = list(breaks(MARK, record.inputs, plan_digest(context.folder)))
    text = "results were made from each other in the order of the safety argument: listing, staging, commits"
    if wrong:
        text = f"results do not belong together: {'; '.join(wrong)}"
    return _must("order", not wrong, len(MARK) if not wrong else "not all", None, text)


def _committed_not_empty(committed: StepSummary) -> Finding:
    ranges, metaranges = committed.counts["ranges"], committed.counts["metaranges"]
    # The metarange without any range is a real one: a commit that deleted the last object has it.
    suspicious = metaranges > 1 and ranges == 0
    return _must(
        "committed_not_empty",
        not suspicious,
        ranges,
        None,
        f"ranges are named by {metaranges:,} metaranges of {committed.counts['active_commits']:,} active"
        " commits",
    )


def _staging_not_gone(context: Context, staged: StepSummary) -> Finding:
    before = previous(context, STAGED)
    plenty = context.plan.config.safety.staged_rows_plenty
    had = before.counts["rows"] if before is not None else 0
    now = staged.counts["rows"]
    text = f"addresses are staged; the run before found {had:,}"
    if now or had < plenty:
        return Finding("staging_not_gone", "passed", now, plenty, text)
    shown = _shown_staged(context)
    if shown:
        return Finding(
            "staging_not_gone",
            "refused",
            now,
            plenty,
            f"{text}, and branch {shown} shows uncommitted objects",
        )
    return Finding(
        "staging_not_gone", "passed", now, plenty, f"{text}; no branch asked shows any uncommitted object"
    )


def _shown_staged(context: Context) -> str | None:
    """A branch that shows uncommitted objects although the scan found none."""
    for branch in context.client.branches(context.plan.repository)[
        : context.plan.config.safety.canary_branches
    ]:
        changes = context.client.changes(context.plan.repository, branch.id)
        if any(change.type != "removed" for change in changes):
            return branch.id
    return None


def _outside(context: Context, record: StepRecord) -> Iterator[Finding]:
    plan = context.plan
    namespaces = {found.name: found.namespace for found in context.client.repositories()}
    try:
        for warning in check_namespaces(plan.repository, namespaces, plan.config.warn_on_foreign_overlaps):
            record.warn(warning)
        yield Finding(
            "namespaces_apart", "passed", len(namespaces), None, "repositories' namespaces were compared"
        )
    except RefusedError as error:
        yield Finding("namespaces_apart", "refused", len(namespaces), None, str(error))
    same = namespaces.get(plan.repository) == plan.namespace
    yield _must("same_namespace", same, plan.namespace, None, "is still the repository's namespace")
    try:
        context.lease.check(plan.lease, context.store_now())
        yield Finding("lease_held", "passed", plan.lease.fencing, None, "is the number of this run's lease")
    except LeaseHeldError as error:
        yield Finding("lease_held", "refused", plan.lease.fencing, None, str(error))
    foreign = foreign_runs(context)
    yield _must(
        "no_other_collector",
        not foreign,
        len(foreign),
        0,
        "runs of another collector ended since this one began"
        + (f": {', '.join(foreign)}" if foreign else ""),
    )
    birds = canaries.sample(context, "guard")
    cleared = [part for part in record.parts if part.name == CLEARED]
    doomed = record.inputs["candidates"].parts_below("candidates/hashes-") + cleared
    dead = canaries.among(context, birds, doomed)
    text = f"of {len(birds):,} objects that branches show would be deleted"
    if dead:
        text += f", such as {dead[0].address!r} ({dead[0].path!r} on {dead[0].branch})"
    yield _must("canaries", not dead, len(dead), 0, text)
    record.counts["canaries"] = len(birds)


def _identical(resolution: Resolution) -> Finding:
    live = len({address for address, _, _ in resolution.live})
    text = (
        f"of {resolution.suspects:,} candidates with the content of some branch head were cleared; {live:,}"
        f" are served by a branch and stay, {resolution.held:,} are held back"
    )
    return Finding("identical_content", "passed", len(resolution.cleared), None, text)


def _must(
    rule: str, holds: bool, figure: float | int | str, limit: float | int | str | None, text: str
) -> Finding:
    return Finding(rule, "passed" if holds else "refused", figure, limit, f"{figure} {text}")
