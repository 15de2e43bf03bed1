"""Save report: what the run did, for people and for programs, whatever became of it.

    report.json     everything below as one JSON object
    report.html     the same as a page
    summary.json    the line that lakeFS's own collector writes
    deleted/        parquet with one column `address`; deleted.text/ the same as text. Only what was confirmed
    deleted.

A run with failures is never a success. A dry run reports no deleted objects at all, so that nothing which
trusts these files could delete them later without looking again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError
from dredge.gc.config import CLEAN
from dredge.gc.plan import Plan
from dredge.gc.run import Run
from dredge.gc.save_report import lifetimes
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import reasons
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.report import render_html, size_text
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tries import StepTry

log = logging.getLogger("dredge")

STEP = "save_report"
REPORT, PAGE, SUMMARY = "report.json", "report.html", "summary.json"
STEPS = (
    "slice_listing",
    "mark_uncommitted",
    "list_committed",
    "subtract",
    "check_limits",
    "bulk_delete",
    "verify",
)
STATE = "state"
NAMES = {
    "slice_listing": "slice listing",
    "mark_uncommitted": "mark uncommitted",
    "list_committed": "list committed",
    "subtract": "subtract",
    "check_limits": "check limits",
    "bulk_delete": "bulk delete",
    "verify": "verify",
    "state": "save state",
}


def save_report(run: Run) -> StepSummary:
    """Write the report of the run. Written anew whenever asked, also after a failure.

    Raises:
        OvertakenError: somebody began to write it later, who knows more; theirs stays.
    """
    started = run.clock()
    folder, plan = run.folder, run.plan
    attempt = StepTry.claim(folder.writer, STEP)
    report = build_report(folder, plan)
    attempt.check()
    parts = _write_deleted(folder)
    folder.write_json(REPORT, report)
    folder.writer.put(PAGE, render_html(report).encode())
    line = json.dumps(_vendor_summary(folder, plan, report))
    folder.writer.put(SUMMARY, f"{line}\n".encode())
    summary = StepSummary(
        step=STEP,
        run_id=plan.run_id,
        status="success",
        started_at=started,
        finished_at=run.clock(),
        counts=report["counts"],
        parts=tuple(parts),
        details={"outcome": report["outcome"], "page": f"{folder.uri}/{PAGE}"},
        try_number=attempt.number,
    )
    folder.write_summary(summary)
    log.info("run %s: %s %s", plan.run_id, report["headline"], f"{folder.uri}/{PAGE}")
    return summary


def build_report(folder: RunFolder, plan: Plan) -> dict[str, Any]:
    """Put a report together from what the steps left.

    Args:
        folder: of the run.
        plan: of the run.
    """
    found = {step: _state(folder, step) for step in (STEPS if plan.dry_run else (*STEPS, STATE))}
    summaries = {step: state.summary for step, state in found.items() if state.summary is not None}
    problems = [state.problem for state in found.values() if state.problem]
    outcome = _outcome(plan, found)
    own_files = _state(folder, lifetimes.STEP)
    counts = _counts(summaries)
    return {
        "format": 1,
        "title": f"Garbage collection of {plan.repository}",
        "run_id": plan.run_id,
        "repository": plan.repository,
        "started_at": plan.created_at.isoformat(),
        "dry_run": plan.dry_run,
        "outcome": outcome,
        "outcome_text": _OUTCOMES[outcome],
        "headline": _headline(outcome, counts, summaries),
        "what_to_do": _what_to_do(outcome, found),
        "facts": [*_facts(folder, plan, summaries), *_own_files(plan, own_files.summary)],
        "counts": counts,
        "rows": list(_rows(summaries, plan.dry_run)),
        "problems": problems,
        "failures": summaries["bulk_delete"].details.get("failures", [])
        if "bulk_delete" in summaries
        else [],
        "warnings": [
            *(text for summary in summaries.values() for text in summary.warnings),
            *_own_files_warnings(own_files),
        ],
        "kept": summaries["list_committed"].details.get("kept", []) if "list_committed" in summaries else [],
        "findings": summaries["check_limits"].details["findings"] if "check_limits" in summaries else [],
        "held": summaries["check_limits"].details["held"] if "check_limits" in summaries else [],
        "over_limit": _over_limit(summaries.get("check_limits")),
        "steps": [_step(step, state) for step, state in found.items()],
    }


_ENDED = ("success", "dry_run")
_OUTCOMES = {
    "success": "done",
    "dry_run": "dry run: nothing was deleted",
    "held": "held by a guard: nothing was deleted",
    "partial": "not everything was deleted",
    "failed": "failed",
    "unfinished": "not finished",
}


class _State:
    """What a step left: its summary, complete or not, and why it failed."""

    def __init__(self, summary: StepSummary | None, failure: dict[str, Any] | None) -> None:
        self.summary = summary
        self.failure = failure

    @property
    def status(self) -> str:
        if self.failure is not None:
            return self.summary.status if self.summary is not None else "failed"
        return self.summary.status if self.summary is not None else "not done"

    @property
    def problem(self) -> str:
        return f"{self.failure['step']}: {self.failure['message']}" if self.failure is not None else ""


def _state(folder: RunFolder, step: str) -> _State:
    try:
        done = folder.read_summary(step)
        failure = folder.standing_failure(step, done)
        if done is not None and failure is None:
            return _State(done, None)
        incomplete = folder.read_incomplete(step)
    except FormatError as error:
        return _State(None, {"step": step, "message": str(error)})
    return _State(incomplete, failure)


def _outcome(plan: Plan, found: dict[str, _State]) -> str:
    failed = [state for state in found.values() if state.failure is not None]
    if failed:
        return failed[0].status
    if any(state.summary is None for state in found.values()):
        return "unfinished"
    return "dry_run" if plan.dry_run else "success"


def _counts(summaries: dict[str, StepSummary]) -> dict[str, int]:
    names = {
        "slice_listing": ("old_objects", "old_bytes", "young_objects", "young_bytes"),
        "subtract": ("live_objects", "candidates_objects", "candidates_bytes"),
        "check_limits": ("deletable_objects", "deletable_bytes", "suspects_live", "suspects_held"),
        "bulk_delete": (
            "deleted_objects",
            "deleted_bytes",
            "missing_objects",
            "failed_objects",
            "kept_objects",
        ),
    }
    return {
        name: summaries[step].counts[name]
        for step, wanted in names.items()
        if step in summaries
        for name in wanted
        if name in summaries[step].counts
    }


def _headline(outcome: str, counts: dict[str, int], summaries: dict[str, StepSummary]) -> str:
    what = _what_went(outcome, counts)
    young = (
        SliceListingOutput.of(summaries["slice_listing"]).unlisted_text
        if outcome in _ENDED and "slice_listing" in summaries
        else ""
    )
    return f"{what} {young}".rstrip()


def _what_went(outcome: str, counts: dict[str, int]) -> str:
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
    return "Nothing was deleted."


def _what_to_do(outcome: str, found: dict[str, _State]) -> str:
    failed = next((name for name, state in found.items() if state.failure is not None), None)
    if failed is None:
        return "Run the remaining steps, or start a new run." if outcome == "unfinished" else ""
    if outcome == "held":
        return "Read the guards below. When the figures are what you want, raise the limit and start again."
    return (
        f"Read what went wrong in step {NAMES[failed]}. Running it again goes on from what is complete; a"
        " new run starts anew."
    )


def _facts(folder: RunFolder, plan: Plan, summaries: dict[str, StepSummary]) -> list[list[str]]:
    seconds = sum(summary.seconds for summary in summaries.values())
    committed = summaries.get("list_committed")
    facts = [
        ["Repository", f"{plan.repository} ({plan.namespace})"],
        ["Run", f"{plan.run_id}, {plan.mode} ({plan.why_mode}){', dry run' if plan.dry_run else ''}"],
        ["Started", f"{plan.created_at:%Y-%m-%d %H:%M:%S} UTC (store's clock)"],
        ["Cutoff", f"{plan.cutoff:%Y-%m-%d %H:%M:%S} UTC: younger objects are left alone"],
        ["Time taken", f"{seconds:.1f} s in its steps"],
        ["Folder", folder.uri],
    ]
    listing, candidates = summaries.get("slice_listing"), summaries.get("subtract")
    if listing is not None and (plan.mode != CLEAN or listing.counts["young_slices"]):
        counts = listing.counts
        listed = counts["slices"] - counts["young_slices"] - counts["covered_slices"] - counts["other_slices"]
        young = f"; {counts['young_slices']:,} are too young" if counts["young_slices"] else ""
        facts.append(["Slices listed", f"{listed:,} of {counts['slices']:,}{young}"])
    if candidates is not None and (drift := candidates.details.get("drift")):
        facts.append(["Missed by optimized runs", _drift(drift)])
    if committed is not None:
        facts += _commits(committed)
    return facts


def _commits(committed: StepSummary) -> Iterator[list[str]]:
    """Which commits count, in words: the server may have more, which nothing leads to and nothing keeps."""
    counts = committed.counts
    active = f"{counts['active_commits']:,}"
    if dangling := counts.get("dangling_commits", 0):
        active += f", {dangling:,} of them dangling: no branch and no tag leads to "
        active += "it" if dangling == 1 else "them"
    yield ["Active commits", active]
    if expired := counts.get("expired_commits", 0):
        text = f"{expired:,} of the {counts['reachable_commits']:,} that branches and tags lead to"
        if not committed.details["expired_explained"]:
            text += (
                "; only the newest of them were read, to tell kinds of garbage apart: what older ones named is"
                " told as unreferenced"
            )
        yield ["Expired commits", text]


def _own_files(plan: Plan, summary: StepSummary | None) -> Iterator[list[str]]:
    """What became of files that runs wrote for themselves."""
    if summary is None or not summary.counts["own_files"]:
        return
    counts = summary.counts
    text = f"{counts['own_files']:,} files that no run needs any more ({size_text(counts['own_bytes'])})"
    if counts["own_run_folders"]:
        text += f", {counts['own_run_folders']:,} run folders older than {plan.config.keep_runs_days:g} days"
    if counts["folders_left"]:
        text += f"; {counts['folders_left']:,} older folders are left to the next runs"
    yield ["Own files to be removed" if plan.dry_run else "Own files removed", text]


def _own_files_warnings(state: _State) -> Iterator[str]:
    if state.summary is not None:
        yield from state.summary.warnings
    elif state.failure is not None:
        yield f"Dredge's own files were not cleaned up; a later run does it: {state.failure['message']}"


def _drift(drift: dict[str, Any]) -> str:
    if not drift["objects"]:
        return f"nothing, in {drift['runs']:,} runs since {drift['since']}"
    return (
        f"{drift['objects']:,} objects ({drift['bytes']:,} bytes) in {drift['runs']:,} runs since"
        f" {drift['since']}: {drift['late_objects']:,} came later than the margin of slices,"
        f" {drift['unexplained_objects']:,} for no known reason"
    )


def _row(kind: str, verdict: str, why: str, objects: int, size_bytes: int | None) -> dict[str, Any]:
    return {"kind": kind, "verdict": verdict, "why": why, "objects": objects, "size_bytes": size_bytes}


def _rows(summaries: dict[str, StepSummary], dry_run: bool) -> Iterator[dict[str, Any]]:
    """The table of the report: what was found, what became of it, and why."""
    listing, candidates = summaries.get("slice_listing"), summaries.get("subtract")
    if listing is None:
        return
    counts = listing.counts
    young = counts["young_slices"]
    without = f"; without those in slices too young to be listed ({young:,})" if young else ""
    if candidates is not None:
        why = f"a branch's staging or an active commit names it{without}"
        yield _row("live", "kept", why, candidates.counts["live_objects"], candidates.counts["live_bytes"])
        yield from _kept_rows(summaries)
    why = f"not older than the cutoff{without}"
    yield _row("young", "kept", why, counts["young_objects"], counts["young_bytes"])
    if counts["root_objects"]:
        why = "directly in the namespace root, not below data/"
        yield _row("old layout", "kept", why, counts["root_objects"], counts["root_bytes"])
    if counts["elsewhere_objects"]:
        why = "in folders that lakeFS does not collect"
        yield _row("elsewhere", "kept", why, counts["elsewhere_objects"], None)
    swept = summaries.get("bulk_delete")
    if swept is not None and "groups" in swept.details:
        yield from _swept_rows(swept)
    elif candidates is not None:
        yield from _candidate_rows(candidates, summaries.get("check_limits"), dry_run)


def _kept_rows(summaries: dict[str, StepSummary]) -> Iterator[dict[str, Any]]:
    """What is live only because something keeps more than lakeFS itself does."""
    for found in summaries["list_committed"].details.get("kept", []) if "list_committed" in summaries else []:
        if not found["objects"]:
            continue
        why = f"of these, as {found['why']}; {found['only_objects']:,} of them by nothing else"
        yield _row(found["name"], "kept", why, found["objects"], found["bytes"])


def _swept_rows(swept: StepSummary) -> Iterator[dict[str, Any]]:
    for group in swept.details["groups"]:
        outcome, code = group["outcome"], group["code"]
        why = reasons.REASONS[group["reason"]]
        if outcome == ledger.KEPT:
            why = reasons.KEPT_CODES.get(code, code)
        elif outcome == ledger.MISSING:
            why = "was gone already"
        elif outcome == ledger.NOT_ADDRESSABLE:
            why = "the store has no exact way to name it"
        elif outcome == ledger.FAILED:
            why = f"the store refused: {code}"
        verdict = "kept" if outcome in (ledger.KEPT, ledger.NOT_ADDRESSABLE) else outcome
        yield _row(group["reason"], verdict, why, group["objects"], group["bytes"])
    if swept.counts.get("undone_objects"):
        yield _row("not tried", "kept", "the sweep stopped before", swept.counts["undone_objects"], None)


def _candidate_rows(
    candidates: StepSummary, guard: StepSummary | None, dry_run: bool
) -> Iterator[dict[str, Any]]:
    verdict = (
        "would be deleted" if dry_run and guard is not None else "kept: the run did not come to deleting"
    )
    for reason, figures in candidates.details["reasons"].items():
        yield _row(reason, verdict, reasons.REASONS[reason], figures["objects"], figures["bytes"])
    for found in guard.details["held"] if guard is not None else ():
        yield _row("of these", "kept", found["why"], found["objects"], found["bytes"])


def _over_limit(guard: StepSummary | None) -> list[dict[str, Any]]:
    """What would be deleted, by reason, when that is more than a limit allows."""
    if guard is None or not any(item["verdict"] == "held" for item in guard.details["findings"]):
        return []
    return [
        {**found, "why": reasons.REASONS[found["reason"]]}
        for found in guard.details["would_delete"]
        if found["objects"]
    ]


def _step(name: str, state: _State) -> dict[str, Any]:
    summary = state.summary
    figures = ", ".join(f"{key} {value:,}" for key, value in summary.counts.items()) if summary else ""
    return {
        "step": NAMES[name],
        "status": state.status,
        "seconds": f"{summary.seconds:.1f}" if summary else "",
        "figures": figures or state.problem,
        "counts": dict(summary.counts) if summary else {},
    }


def _write_deleted(folder: RunFolder) -> list[PartInfo]:
    """Write the addresses of confirmed deletions as lakeFS's collector does, one part after the other."""
    try:
        swept = folder.read_summary("bulk_delete") or folder.read_incomplete("bulk_delete")
    except DredgeError:
        return []
    parts: list[PartInfo] = []
    for part in swept.parts if swept is not None else ():
        rows = folder.read_part(part, ["address", "outcome"])
        gone = rows.filter(pc.equal(rows["outcome"], ledger.DELETED)).select(["address"])
        if not gone.num_rows:
            continue
        index = len(parts) // 2
        parts.append(folder.write_table("deleted", index, gone))
        lines = "".join(f"{_text_line(address)}\n" for address in gone["address"].to_pylist())
        parts.append(folder.write_bytes(f"deleted.text/part-{index:05d}.txt", lines.encode(), gone.num_rows))
    return parts


def _text_line(address: str) -> str:
    """An address as a line; only what would break the line is quoted, as JSON."""
    return json.dumps(address) if any(ord(character) < 32 for character in address) else address


def _vendor_summary(folder: RunFolder, plan: Plan, report: dict[str, Any]) -> dict[str, Any]:
    listing = folder.read_summary("slice_listing")
    return {
        "run_id": plan.run_id,
        "success": report["outcome"] in ("success", "dry_run"),
        "first_slice": listing.details["first_slice"] if listing is not None else "",
        "start_time": _instant(plan.created_at),
        "cutoff_time": _instant(plan.cutoff),
        "num_deleted_objects": report["counts"].get("deleted_objects", 0),
    }


def _instant(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
