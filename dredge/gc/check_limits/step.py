"""Check limits: every guard is asked, and `guard.json` says what each of them found.

A refused guard stops the run in any mode. A held one (a limit) stops a run that would delete; a dry run goes
on and says so.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

from dredge.errors import LeaseHeldError, NotFoundError, RefusedError
from dredge.gc.chain import MARK
from dredge.gc.check_limits import canaries
from dredge.gc.check_limits.identical import CLEARED, Resolution, resolve
from dredge.gc.check_limits.places import STEP
from dredge.gc.clocks import server_clock_finding
from dredge.gc.history import foreign_runs, previous
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import METADATA, check_namespaces
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state.base import base_of
from dredge.gc.subtract import reasons
from dredge.graveler.addresses import AddressType, address_readings
from dredge.runs.chain import breaks, plan_digest
from dredge.runs.limits import Finding, Limits, worst
from dredge.runs.perform import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import Json, LocalRunner, TaskRunner

log = logging.getLogger("dredge")

GUARD = "guard.json"
_EXAMPLES = 10


def check_limits(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Ask every guard whether the candidates may be deleted.

    Args:
        run: of the run.
        runner: spreads the search for identical content; None does it in this process.

    Raises:
        RefusedError: a guard said no, or a limit holds a run that is no dry run.
    """
    return run.step_by_name(STEP, list(MARK), lambda record: _check(run, runner or LocalRunner(), record))


def _check(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    resolution = resolve(run, runner, record)
    findings = [*_proofs(run, record), *_outside(run, record), _identical(resolution)]
    objects, size_bytes = _deletable(record, resolution)
    held, would_delete = resolution.to_json(), _by_reason(record, resolution)
    config = run.plan.config
    limits = Limits(config.max_delete_objects, config.max_delete_bytes, config.max_delete_percent)
    listing = record.inputs["slice_listing"].counts
    base = base_of(run)
    # An optimized run lists a part of the namespace, but its share of the whole is what counts.
    listed = listing["old_objects"] + listing["young_objects"]
    everything = listed if base is None else max(listed, base.state.objects)
    findings.extend(limits.check(objects, size_bytes, everything))
    verdict = worst(findings)
    run.folder.publish_json(
        GUARD,
        {
            "verdict": verdict,
            "candidates_digest": record.inputs["subtract"].digest,
            "findings": [finding.to_json() for finding in findings],
            "held": held,
            "would_delete": would_delete,
            "identical_live": [
                {"address": address, "branch": branch, "path": path}
                for address, (branch, path) in sorted(resolution.answers.shown.items())
            ],
        },
    )
    record.counts.update(
        deletable_objects=objects,
        deletable_bytes=size_bytes,
        suspects=resolution.suspects,
        suspects_live=resolution.live,
        suspects_held=resolution.undecided,
        suspects_cleared=len(resolution.cleared),
        questions=resolution.answers.requests,
    )
    record.details.update(
        verdict=verdict,
        findings=[finding.to_json() for finding in findings],
        held=held,
        would_delete=would_delete,
    )
    if resolution.undecided:
        record.warn(_how_to_free(run, resolution))
    if verdict == "passed":
        return
    bad = "; ".join(f"{item.rule}: {item.text}" for item in findings if item.verdict == verdict)
    message = f"run {run.plan.run_id}: {bad}. Nothing was deleted."
    if verdict == "held" and run.plan.dry_run:
        record.warn(f"a run that deletes would be held: {message}")
        return
    record.status = "held"
    record.error = RefusedError(
        f"{message} Read {run.folder.uri}/{GUARD}."
        + (" Raise the limit if this is what you want." if verdict == "held" else "")
    )


def _deletable(record: StepRecord, resolution: Resolution) -> tuple[int, int]:
    """How many objects may go, and how many bytes: suspects only when they were cleared."""
    candidates = record.inputs["subtract"].counts
    doubted = resolution.suspects + candidates["unreadable"]
    objects = candidates["candidates_objects"] - doubted + len(resolution.cleared)
    size_bytes = candidates["candidates_bytes"] - candidates["suspects_bytes"] + resolution.cleared_bytes
    return objects, size_bytes


def _by_reason(record: StepRecord, resolution: Resolution) -> list[Json]:
    """What may go, by the reason why it is garbage, with examples."""
    found = []
    for reason, figures in record.inputs["subtract"].details["reasons"].items():
        held = resolution.held_reasons[reason]
        examples = [*figures["examples"], *resolution.examples[reason]][: reasons.EXAMPLES]
        found.append(
            {
                "reason": reason,
                "objects": figures["objects"] - held.objects,
                "bytes": figures["bytes"] - held.size_bytes,
                "examples": [{"address": address} for address in examples],
            }
        )
    return found


def _how_to_free(run: Run, resolution: Resolution) -> str:
    parts = [
        f"{found.objects:,} such as {found.examples[0]['address']!r} ({reasons.KEPT_CODES[code]})"
        for code in reasons.HELD_BY_SIZE
        if (found := resolution.held.get(code)) is not None
    ]
    problem = resolution.answers.problem
    text = f"{resolution.undecided:,} objects are held back and stay in the store: {', '.join(parts)}."
    text += f" What went wrong first: {problem}." if problem else ""
    if run.plan.config.read_kv:
        return f"{text} The staging records did not settle it this time; the next run looks again"
    return (
        f"{text} Name the connection of lakeFS's key-value store (kv_conn_id) to have its records settle it"
    )


def _proofs(run: Run, record: StepRecord) -> Iterator[Finding]:
    listing, staged = record.inputs["slice_listing"], record.inputs["mark_uncommitted"]
    committed, candidates = record.inputs["list_committed"], record.inputs["subtract"]
    rows = sum(part.rows for part in listing.parts_below("slice_listing/part-"))
    yield _must(
        "listing_complete",
        rows == listing.counts["old_objects"] == candidates.counts["listed_objects"],
        rows,
        listing.counts["old_objects"],
        "listed rows were written and compared",
    )
    copied = sum(part.rows for part in staged.parts_below("mark_uncommitted/addresses-"))
    yield _must(
        "staging_complete",
        copied >= staged.counts["rows"] and staged.counts["branches"] > 0,
        copied,
        staged.counts["rows"],
        f"staged addresses were read from {staged.counts['pages']} pages in {staged.counts['scans']} scans",
    )
    yield _ordered(run, record)
    yield _server_clock(run, record)
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
    yield _staging_not_gone(run, staged)
    yield _nothing_nested(listing)


def _server_clock(run: Run, record: StepRecord) -> Finding:
    if run.plan.server_ahead_seconds is None:
        record.warn(
            "lakeFS's answers had no Date header when the run was planned (a proxy takes it away), so the"
            " servers' clocks could not be compared with the store's. The minimum age has an hour to spare"
            " for them; let the header through to have them compared"
        )
    return server_clock_finding(run, record.input(SliceListingOutput), record.input(MarkUncommittedOutput))


def _nothing_nested(listing: StepSummary) -> Finding:
    metadata = listing.counts["foreign_metadata"]
    text = "files of another repository's metadata lie below data/"
    if metadata:
        sample = listing.details["foreign_metadata"]
        folder = sample.partition(METADATA)[0]
        text += (
            f", such as {sample!r}: another repository lives in {folder} or has left its files there, and"
            " its objects cannot be told from garbage. If a repository still uses that place, move its data"
            " to a namespace of its own. If it was deleted (lakeFS leaves the objects of deleted repositories"
            f" where they are) and no server has a repository there, remove {folder} from the object store"
            " by hand. Then start a new run"
        )
    return _must("nothing_nested", metadata == 0, metadata, 0, text)


def _ordered(run: Run, record: StepRecord) -> Finding:
    """Whether listing, staging and commits were read one after the other, and compared as they stand now.

    A step reads its inputs before it begins, so a result that names the digest of another one was made after it.
    Clocks prove nothing here: each step may have run on another machine.
    """
    wrong = list(breaks(MARK, record.inputs, plan_digest(run.folder)))
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


def _staging_not_gone(run: Run, staged: StepSummary) -> Finding:
    before = previous(run, MarkUncommittedOutput)
    plenty = run.plan.config.safety.staged_rows_plenty
    had = before.counts["rows"] if before is not None else 0
    now = staged.counts["rows"]
    text = f"addresses are staged; the run before found {had:,}"
    if now or had < plenty:
        return Finding("staging_not_gone", "passed", now, plenty, text)
    shown = _shown_staged(run)
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


def _shown_staged(run: Run) -> str | None:
    """A branch that shows uncommitted objects of this namespace although the scan found none."""
    plan = run.plan
    chance = random.Random(f"{plan.run_id}-staged")
    branches = run.client.branches(plan.repository)
    chance.shuffle(branches)
    for branch in branches[: plan.config.safety.canary_branches]:
        try:
            changes = run.client.changes(plan.repository, branch.id)
        except NotFoundError:
            continue  # the branch went away meanwhile
        paths = [change.path for change in changes if change.type != "removed"]
        if any(_is_ours(run, branch.id, path) for path in chance.sample(paths, min(len(paths), _EXAMPLES))):
            return branch.id
    return None


def _is_ours(run: Run, branch: str, path: str) -> bool:
    """Whether what a branch shows lies in this namespace, as far as anybody can tell."""
    try:
        address = run.client.stat(run.plan.repository, branch, path).address
    except NotFoundError:
        return True
    return bool(address_readings(address, AddressType.FULL, run.plan.namespace))


def _outside(run: Run, record: StepRecord) -> Iterator[Finding]:
    plan = run.plan
    namespaces = {found.name: found.namespace for found in run.client.repositories()}
    try:
        for warning in check_namespaces(plan.repository, namespaces):
            record.warn(warning)
        yield Finding(
            "namespaces_apart", "passed", len(namespaces), None, "repositories' namespaces were compared"
        )
    except RefusedError as error:
        yield Finding("namespaces_apart", "refused", len(namespaces), None, str(error))
    same = namespaces.get(plan.repository) == plan.namespace
    yield _must("same_namespace", same, plan.namespace, None, "is still the repository's namespace")
    try:
        run.lease.check(plan.lease, run.store_now())
        yield Finding("lease_held", "passed", plan.lease.fencing, None, "is the number of this run's lease")
    except LeaseHeldError as error:
        yield Finding("lease_held", "refused", plan.lease.fencing, None, str(error))
    foreign = foreign_runs(run)
    yield _must(
        "no_other_collector",
        not foreign,
        len(foreign),
        0,
        "runs of another collector ended since this one began"
        + (f": {', '.join(foreign)}" if foreign else ""),
    )
    birds = canaries.sample(run, "check_limits")
    cleared = [part for part in record.parts if part.name == CLEARED]
    doomed = record.inputs["subtract"].parts_below("subtract/hashes-") + cleared
    dead = canaries.among(run, birds, doomed)
    text = f"of {len(birds):,} objects that branches show would be deleted"
    if dead:
        named = [f"{bird.address!r} ({bird.path!r} on {bird.branch})" for bird in dead[:_EXAMPLES]]
        text += f", such as {', '.join(named)}"
    yield _must("canaries", not dead, len(dead), 0, text)
    record.counts["canaries"] = len(birds)


def _identical(resolution: Resolution) -> Finding:
    text = (
        f"{len(resolution.cleared):,} of {resolution.suspects:,} candidates as long as an object in a branch head were"
        f" proved to be read by no branch; {resolution.live:,} are read and stay, {resolution.undecided:,} are held"
        " back"
    )
    return Finding("identical_content", "passed", len(resolution.cleared), None, text)


def _must(
    rule: str, holds: bool, figure: float | int | str, limit: float | int | str | None, text: str
) -> Finding:
    return Finding(rule, "passed" if holds else "refused", figure, limit, f"{figure} {text}")
