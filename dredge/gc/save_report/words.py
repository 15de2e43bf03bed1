"""The sentences and facts of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dredge.approve.question import approval_text
from dredge.approve.question import what_to_do as about_approval
from dredge.errors import AlarmError
from dredge.gc.approve import ApproveOutput
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.config import CLEAN
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.plan import Plan
from dredge.gc.save_report.results import ENDED, RunResults, StepResult
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import SubtractOutput
from dredge.runs.folder import RunFolder
from dredge.runs.pending.figures import facts_of_waiting, what_waits
from dredge.runs.rendering import number_of, size_text
from dredge.runs.summary import StepSummary
from dredge.undo.ways import OFF
from dredge.undo.ways import WORDS as UNDO_WORDS

OUTCOMES = {
    "success": "done",
    "dry_run": "dry run: nothing was deleted",
    "awaiting_approval": "awaiting approval: nothing was deleted",
    "rejected": "rejected: nothing was deleted",
    "refused": "refused by a guard: nothing was deleted",
    "alarm": "alarm: live objects had been deleted by an earlier run; this run deleted nothing",
    "partial": "not everything was deleted",
    "failed": "failed",
    "unfinished": "not finished",
}
"""What people read for each outcome."""


def headline(results: RunResults, counts: Mapping[str, int]) -> str:
    """Say in a sentence or two what the run did."""
    listing = results.of(SliceListingOutput)
    young = listing.unlisted_text if results.outcome in ENDED and listing is not None else ""
    guards = results.of(CheckLimitsOutput)
    waiting = "" if guards is None else what_waits(guards.pending)
    texts = (_what_went(results.outcome, counts), waiting, young)
    return " ".join(filter(None, texts))


def _what_went(outcome: str, counts: Mapping[str, int]) -> str:
    objects, size_bytes = counts.get("deleted_objects", 0), counts.get("deleted_bytes", 0)
    deleted = f"{objects:,} objects ({size_bytes:,} bytes) were deleted."
    if outcome == "dry_run":
        would = f"{counts['deletable_objects']:,} objects ({counts['deletable_bytes']:,} bytes)"
        return f"A run that deletes would delete {would}. Nothing was deleted."
    if outcome == "success":
        return deleted
    if outcome == "partial":
        return f"{deleted} {counts.get('failed_objects', 0):,} could not be."
    if "deleted_objects" in counts:
        return deleted
    if outcome == "awaiting_approval":
        would = f"{counts['deletable_objects']:,} objects ({counts['deletable_bytes']:,} bytes)"
        return f"If somebody approves, {would} are deleted. Nothing was deleted so far."
    return "Nothing was deleted."


def what_to_do(results: RunResults) -> str:
    """Say what the reader should do next; "" when there is nothing to do."""
    failed, outcome = results.failed, results.outcome
    if failed is None:
        return "Run the remaining steps, or start a new run." if outcome == "unfinished" else ""
    if text := about_approval(outcome, ApproveOutput.COMMAND):
        return text
    if outcome == "refused":
        return (
            "Read the guards below: they say what could not be proved, or which limit is exceeded. Put that right and"
            " start a new run."
        )
    if outcome == AlarmError.kind:
        return AlarmError.what_to_do
    return (
        f"Read what went wrong in step {failed.step}. Running it again goes on from what is complete; a"
        " new run starts anew."
    )


def approval(results: RunResults) -> dict[str, Any] | None:
    """Give what a person was asked and said, as `ApproveOutput.approval` does; None where nobody had to be."""
    found = results.of(ApproveOutput)
    return None if found is None else found.approval


def facts(folder: RunFolder, plan: Plan, results: RunResults) -> Iterator[list[str]]:
    """Say what a run worked on, in pairs of a title and a text."""
    seconds = sum(summary.seconds for summary in results.summaries)
    yield ["Repository", f"{plan.repository} ({plan.namespace})"]
    yield ["Run", f"{plan.run_id}, {plan.mode} ({plan.why_mode}){', dry run' if plan.dry_run else ''}"]
    yield ["Started", f"{plan.created_at:%Y-%m-%d %H:%M:%S} UTC (store's clock)"]
    yield ["Cutoff", f"{plan.cutoff:%Y-%m-%d %H:%M:%S} UTC: younger objects are left alone"]
    if plan.inventory is not None:
        begun = plan.inventory.created_at
        when = "" if begun is None else f", begun {begun:%Y-%m-%d %H:%M} UTC"
        yield ["Instead of a listing", f"inventory {plan.inventory.uri}{when}"]
    yield ["Time taken", f"{seconds:.1f} s in its steps"]
    yield ["Folder", folder.uri]
    if (said := approval(results)) is not None:
        yield ["Approval", approval_text(said)]
    yield ["Undo", _undo(plan, results.of(CheckLimitsOutput))]
    yield from _slices(plan, results.of(SliceListingOutput))
    if (guards := results.of(CheckLimitsOutput)) is not None:
        yield from map(list, facts_of_waiting(guards.pending))
    candidates, committed = results.of(SubtractOutput), results.of(ListCommittedOutput)
    for text in [] if candidates is None else candidates.summary.details.get("pins", []):
        yield ["Pinned", text]
    if candidates is not None and (drift := candidates.summary.details.get("drift")):
        yield ["Missed by optimized runs", _drift(drift)]
    if candidates is not None and (text := candidates.early_deletion):
        yield ["Charged for early deletion", text]
    if committed is not None:
        yield from _commits(committed)


def _undo(plan: Plan, guards: CheckLimitsOutput | None) -> str:
    """Say how what is deleted can be taken back, and what that costs."""
    text = f"{plan.undo.way} ({plan.undo.why}): {UNDO_WORDS[plan.undo.way]}"
    if guards is None or plan.undo.way == OFF:
        return text
    until = plan.undo.until(plan.created_at, plan.config.purge_days)
    when = "" if until is None else f" until {until:%Y-%m-%d}"
    return f"{text}; {guards.undo.text}. `dredge gc restore {plan.run_uri} --all` takes it back{when}"


def _slices(plan: Plan, listing: SliceListingOutput | None) -> Iterator[list[str]]:
    if listing is None or (plan.mode == CLEAN and not listing.counts["young_slices"]):
        return
    counts = listing.counts
    listed = counts["slices"] - counts["young_slices"] - counts["covered_slices"] - counts["other_slices"]
    too_young = counts["young_slices"]
    young = f"; {too_young:,} {'is' if too_young == 1 else 'are'} too young" if too_young else ""
    again = counts.get("again_slices", 0)
    back = f", {again:,} of them again, because objects were brought back into them" if again else ""
    yield ["Slices listed", f"{listed:,} of {counts['slices']:,}{back}{young}"]


def _commits(committed: ListCommittedOutput) -> Iterator[list[str]]:
    """Say which commits count; the server may have more, which no ref leads to and nothing keeps."""
    counts = committed.counts
    active = f"{counts['active_commits']:,}"
    if dangling := counts.get("dangling_commits", 0):
        active += f", {dangling:,} of them dangling: no branch and no tag leads to "
        active += "it" if dangling == 1 else "them"
    yield ["Active commits", active]
    if expired := counts.get("expired_commits", 0):
        text = f"{expired:,} of the {counts['reachable_commits']:,} that branches and tags lead to"
        if not committed.detail("expired_explained"):
            text += (
                "; only the newest of them were read, to tell kinds of garbage apart: what older ones named is"
                " reported as unreferenced"
            )
        yield ["Expired commits", text]


def own_files(plan: Plan, summary: StepSummary | None) -> Iterator[list[str]]:
    """Say how many files of Dredge's own were removed, as a fact; nothing when none were."""
    if summary is None or not summary.counts["own_files"]:
        return
    counts = summary.counts
    text = f"{counts['own_files']:,} files that no run needs any more ({size_text(counts['own_bytes'])})"
    if counts["own_run_folders"]:
        age = number_of(plan.config.keep_runs_days or 0, "day")
        text += f", {number_of(counts['own_run_folders'], 'run folder')} older than {age}"
    if counts["folders_left"]:
        text += f"; {counts['folders_left']:,} older folders are left to the next runs"
    yield ["Own files to be removed" if plan.dry_run else "Own files removed", text]


def own_files_warnings(result: StepResult) -> Iterator[str]:
    """Give the warnings about Dredge's own files; a failure to clean them up is no more than a warning."""
    if result.summary is not None:
        yield from result.summary.warnings
    elif result.failure is not None:
        yield f"Dredge's own files were not cleaned up; a later run does it: {result.failure['message']}"


def _drift(drift: dict[str, Any]) -> str:
    if not drift["objects"]:
        return f"nothing, in {drift['runs']:,} runs since {drift['since']}"
    return (
        f"{drift['objects']:,} objects ({drift['bytes']:,} bytes) in {drift['runs']:,} runs since"
        f" {drift['since']}: {drift['late_objects']:,} came later than the margin of slices,"
        f" {drift['unexplained_objects']:,} for no known reason"
    )
