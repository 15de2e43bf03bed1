"""The guards on a run as a whole, a function each. A guard refuses the run or lets it pass, without side effects.

Holds keep single objects (`dredge.gc.subtract.candidates`); limits are upper bounds for a person to raise
(`dredge.runs.limits`).
"""

import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from dredge.errors import LeaseHeldError, NotFoundError, RefusedError
from dredge.gc.check_limits import canaries
from dredge.gc.check_limits.canaries import Canary
from dredge.gc.check_limits.holds import SERVED, UNSETTLED, CheckLimitsOutput, HoldFiles, Tally
from dredge.gc.check_limits.identical import Proof
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import check_namespaces
from dredge.gc.pending.advance import Advanced
from dredge.gc.pending.known import Known
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state import foreign_runs, previous
from dredge.gc.subtract import SubtractOutput
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.runs.limits import Finding
from dredge.runs.payload import PartInfo
from dredge.runs.run import StepRecord, breaks, collect_links, plan_digest
from dredge.storage.parallel import at_once

_SHOWN_MAX = 10
# Limit of paths looked up on a branch.
_PATHS_MAX = 10


class Canaries(Struct, frozen=True):
    """A sample of objects shown by branches."""

    living: list[Canary]  # the sample
    dead: list[Canary]  # those among the candidates to be deleted
    # those among the candidates where the server may mean another key, which stays; they are held
    ambiguous: list[Canary]


@dataclass(frozen=True)
class Check:
    """A run before its deletion, for the guards."""

    run: Run
    record: StepRecord  # of check_limits; guards add counts and warnings
    proof: Proof
    tally: Tally
    doomed: list[PartInfo]  # files with the hashes of all candidates to be deleted, now or after their wait
    holds: HoldFiles
    known: Known  # the pending list before this run
    pending: Advanced  # the list after it
    sample: Future[list[Canary]]

    @cached_property
    def namespaces(self) -> dict[str, str]:
        """Storage namespace of every repository of the server, by name."""
        return {found.name: found.namespace for found in self.run.client.repositories()}

    @cached_property
    def sampled(self) -> Canaries:
        """The canaries, compared with the candidates."""
        living = self.sample.result()
        dead = canaries.among(self.run, living, self.doomed)
        ambiguous = canaries.ambiguous(self.run, dead, self.doomed)
        return Canaries(living, [canary for canary in dead if canary not in ambiguous], ambiguous)

    @property
    def listing(self) -> SliceListingOutput:
        """The listing."""
        return self.record.input(SliceListingOutput)

    @property
    def staged(self) -> MarkUncommittedOutput:
        """The staged addresses."""
        return self.record.input(MarkUncommittedOutput)

    @property
    def committed(self) -> ListCommittedOutput:
        """The committed addresses."""
        return self.record.input(ListCommittedOutput)

    @property
    def candidates(self) -> SubtractOutput:
        """The candidates."""
        return self.record.input(SubtractOutput)


def must(
    rule: str, holds: bool, figure: float | int | str, limit: float | int | str | None, text: str
) -> Finding:
    """A finding: passed if `holds`, else refused; its message is the measured value and the text."""
    return Finding(rule, "passed" if holds else "refused", figure, limit, f"{figure} {text}")


def listing_complete(check: Check) -> Finding:
    """All listed rows were written and compared."""
    rows = sum(part.rows for part in check.listing.listed)
    counted = check.listing.counts["old_objects"]
    compared = check.candidates.counts["listed_objects"]
    whole = rows == counted == compared
    text = f"of {counted:,} listed rows were written, and {compared:,} compared with the live set"
    return must("listing_complete", whole, rows, counted, text)


def staging_complete(check: Check) -> Finding:
    """All staged rows counted by the server were read."""
    counts = check.staged.counts
    copied = sum(part.rows for part in check.staged.addresses)
    where = f"{counts['pages']} pages in {counts['scans']} scans"
    if not counts["scans"]:
        where = f"{counts['kv_tokens']:,} staging tokens of the key-value store"
    return must(
        "staging_complete",
        copied >= counts["rows"] and counts["branches"] > 0,
        copied,
        counts["rows"],
        f"staged addresses of {counts['branches']:,} branches were written; {where} have {counts['rows']:,}",
    )


def order(check: Check) -> Finding:
    """Listing, staging and commits were read in this order, and the results are unchanged.

    A step reads its inputs before it begins, so a result with the digest of another result was made after it. Clocks
    are no proof: each step may have run on another machine.
    """
    links = collect_links(CheckLimitsOutput.INPUTS)
    wrong = list(breaks(links, check.record.inputs, plan_digest(check.run.folder)))
    text = f"results do not match: {'; '.join(wrong)}" if wrong else "results were made in order"
    return must("order", not wrong, len(wrong or links), None, text)


def live_not_empty(check: Check) -> Finding:
    """The live set is empty only without committed and staged rows."""
    committed, staged_rows = check.committed.counts, check.staged.counts["rows"]
    live = committed["live_addresses"]
    inside = committed["range_rows"] - committed["outside_rows"]
    return must(
        "live_not_empty",
        live > 0 or (inside == 0 and staged_rows == 0),
        live,
        None,
        f"live addresses come from {inside:,} committed and {staged_rows:,} staged rows",
    )


def committed_not_empty(check: Check) -> Finding:
    """Commits with content have ranges."""
    counts = check.committed.counts
    # One metarange without ranges is possible: that of a commit without objects.
    suspicious = counts["metaranges"] > 1 and counts["ranges"] == 0
    return must(
        "committed_not_empty",
        not suspicious,
        counts["ranges"],
        None,
        f"ranges are in {counts['metaranges']:,} metaranges of {counts['active_commits']:,} active commits",
    )


def staging_not_gone(check: Check) -> Finding:
    """Staging did not become empty while branches show uncommitted objects."""
    rule = "staging_not_gone"
    run, now = check.run, check.staged.counts["rows"]
    plenty = run.plan.config.safety.staged_rows_plenty
    if now:
        return Finding(rule, "passed", now, plenty, f"{now:,} addresses are staged")
    before = previous(run, MarkUncommittedOutput)
    had = before.counts["rows"] if before is not None else 0
    text = f"{now:,} addresses are staged; the run before found {had:,}"
    if had < plenty:
        return Finding(rule, "passed", now, plenty, text)
    branch = _branch_with_changes(run)
    if branch is not None:
        return Finding(rule, "refused", now, plenty, f"{text}, and branch {branch} shows uncommitted objects")
    return Finding(rule, "passed", now, plenty, f"{text}; no sampled branch shows uncommitted objects")


def _branch_with_changes(run: Run) -> str | None:
    plan = run.plan
    chance = random.Random(f"{plan.run_id}-staged")
    branches = run.client.branches(plan.repository)
    chance.shuffle(branches)
    for branch in branches[: plan.config.safety.canary_branches]:
        try:
            changes = run.client.changes(plan.repository, branch.id)
        except NotFoundError:
            continue  # the branch was deleted meanwhile
        paths = [change.path for change in changes if change.type != "removed"]
        chosen = chance.sample(paths, min(len(paths), _PATHS_MAX))
        if any(_is_ours(run, branch.id, path) for path in chosen):
            return branch.id
    return None


def _is_ours(run: Run, branch: str, path: str) -> bool:
    try:
        address = run.client.stat(run.plan.repository, branch, path).address
    except NotFoundError:
        return True
    return bool(address_readings(address, AddressType.FULL, run.plan.namespace))


def nothing_nested(check: Check) -> Finding:
    """Report the folders below `data/` of other repositories, also of deleted repositories; they are kept."""
    kept = check.candidates.nested
    if not kept:
        return Finding("nothing_nested", "passed", 0, None, "no other repository is below data/")
    text = (
        f"all objects below {', '.join(kept[:_SHOWN_MAX])}{' and others' if len(kept) > _SHOWN_MAX else ''} are kept:"
        " the folders belong to another repository, or a deleted one left its files (lakeFS does not delete the objects"
        " of deleted repositories). Move the data of a repository in use to a separate namespace; remove the files of"
        " a deleted one from the object store"
    )
    check.record.warn(text)
    return Finding("nothing_nested", "passed", len(kept), None, text)


def namespaces_apart(check: Check) -> Finding:
    """No two repositories share a namespace."""
    namespaces = check.namespaces
    try:
        for warning in check_namespaces(check.run.plan.repository, namespaces):
            check.record.warn(warning)
    except RefusedError as error:
        return Finding("namespaces_apart", "refused", len(namespaces), None, str(error))
    text = f"the namespaces of {len(namespaces):,} repositories were compared"
    return Finding("namespaces_apart", "passed", len(namespaces), None, text)


def same_namespace(check: Check) -> Finding:
    """The repository's namespace is unchanged since planning."""
    plan = check.run.plan
    now = check.namespaces.get(plan.repository, "missing")
    same = now == plan.namespace
    text = f"is {'still' if same else 'no longer'} the repository's namespace (now: {now})"
    return must("same_namespace", same, plan.namespace, None, text)


def lease_held(check: Check) -> Finding:
    """The run still has its lease."""
    run, fencing = check.run, check.run.plan.lease.fencing
    try:
        run.lease.check(run.plan.lease, run.store_now())
    except LeaseHeldError as error:
        return Finding("lease_held", "refused", fencing, None, str(error))
    return Finding("lease_held", "passed", fencing, None, f"the run still has its lease, number {fencing}")


def no_other_collector(check: Check) -> Finding:
    """No run of another collector ended meanwhile."""
    foreign = foreign_runs(check.run)
    text = "runs of another collector ended since this one began"
    text += f": {', '.join(foreign)}" if foreign else ""
    return must("no_other_collector", not foreign, len(foreign), 0, text)


def canaries_stay(check: Check) -> Finding:
    """No canary is among the candidates to be deleted."""
    living, dead = check.sampled.living, check.sampled.dead
    text = f"of {len(living):,} objects that branches show would be deleted"
    if dead:
        named = [f"{canary.address!r} ({canary.path!r} on {canary.branch})" for canary in dead[:_SHOWN_MAX]]
        text += f", such as {', '.join(named)}"
    check.record.counts["canaries"] = len(living)
    return must("canaries", not dead, len(dead), 0, text)


def identical_content(check: Check) -> Finding:
    """Report the proofs about objects of equal size; they hold objects, never the run."""
    cleared = len(check.tally.cleared)
    text = (
        f"{cleared:,} of {check.proof.objects:,} candidates with the size of an object in a branch head are read by no"
        f" branch; {check.tally.objects_of(SERVED):,} are read and stay,"
        f" {check.tally.objects_of(*UNSETTLED):,} are held"
    )
    return Finding("identical_content", "passed", cleared, None, text)


type Guard = Callable[[Check], Finding]

# The cheap ones first.
GUARDS: list[Guard] = [
    listing_complete,
    staging_complete,
    order,
    live_not_empty,
    committed_not_empty,
    staging_not_gone,
    nothing_nested,
    namespaces_apart,
    same_namespace,
    lease_held,
    no_other_collector,
    canaries_stay,
    identical_content,
]


def ask_guards(check: Check) -> list[Finding]:
    """The findings of all guards; requests run side by side."""
    with at_once() as ask:
        namespaces, sampled = ask(lambda: check.namespaces), ask(lambda: check.sampled)
        asked = {guard: ask(guard, check) for guard in (lease_held, no_other_collector, staging_not_gone)}
    namespaces.result(), sampled.result()
    return [asked[guard].result() if guard in asked else guard(check) for guard in GUARDS]
