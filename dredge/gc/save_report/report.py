"""The report: what the run did, for people and for programs, whatever became of it.

    report.json     everything as one JSON object
    report.html     the same as a page

and beside them the files of `dredge.gc.save_report.vendor_files`. A run with failures is never a success.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dredge.approve.output import approval_inputs
from dredge.errors import FormatError
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.insight.run_cost import STEPS, work_of
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.plan import Plan
from dredge.gc.run import Run
from dredge.gc.save_report import vendor_files, words
from dredge.gc.save_report.analysis import sections
from dredge.gc.save_report.output import OwnFilesOutput, SaveReportOutput
from dredge.gc.save_report.results import RunResults, StepResult
from dredge.gc.save_report.rows import report_rows
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state.output import StateOutput
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.runs.folder import RunFolder
from dredge.runs.payload import to_json
from dredge.runs.report import render_html
from dredge.runs.summary import StepOutput, StepSummary
from dredge.runs.tries import StepTry
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

REPORT, PAGE = "report.json", "report.html"
_COUNTS: dict[type[StepOutput], tuple[str, ...]] = {
    SliceListingOutput: ("old_objects", "old_bytes", "young_objects", "young_bytes"),
    SubtractOutput: ("live_objects", "candidates_objects", "candidates_bytes"),
    CheckLimitsOutput: (
        "deletable_objects",
        "deletable_bytes",
        "held_objects",
        "held_bytes",
        "found_now_objects",
        "found_now_bytes",
        "pending_objects",
        "pending_bytes",
    ),
    BulkDeleteOutput: (
        "deleted_objects",
        "deleted_bytes",
        "missing_objects",
        "failed_objects",
        "kept_objects",
    ),
}
"""Figures of the steps that are figures of the run."""


def write_report(
    run: Run, known: Mapping[str, StepSummary] | None = None, attempt: StepTry | None = None
) -> StepSummary:
    """Write the report of a run, and the summary of the step. It is written anew whenever asked, also after a failure.

    Args:
        run: this run.
        known: summaries of complete steps that were read since the try was claimed. Whoever did a step again since
            writes a later report.
        attempt: of this step; None claims one.

    Raises:
        OvertakenError: somebody began to write it later, who knows more; theirs stays.
    """
    started = run.clock()
    folder, plan = run.folder, run.plan
    attempt = attempt or StepTry.claim(folder.writer, SaveReportOutput.STEP)
    report = build_report(folder, plan, known)
    parts = vendor_files.write_deleted(folder, attempt)
    folder.settle()
    files = {
        REPORT: json.dumps(report, sort_keys=True).encode(),
        PAGE: render_html(report).encode(),
        vendor_files.SUMMARY: vendor_files.summary_of(folder, plan, report),
    }
    list(ordered_map(lambda name: attempt.replace(name, files[name]), list(files), len(files)))
    summary = StepSummary(
        step=SaveReportOutput.STEP,
        run_id=plan.run_id,
        status="success",
        started_at=started,
        finished_at=run.clock(),
        counts=report["counts"],
        parts=tuple(parts),
        details={
            "outcome": report["outcome"],
            "page": f"{folder.uri}/{PAGE}",
            "requests": report["requests"],
        },
        try_number=attempt.number,
    )
    folder.write_summary(summary)
    log.info("run %s: %s %s", plan.run_id, report["headline"], f"{folder.uri}/{PAGE}")
    return summary


def build_report(
    folder: RunFolder, plan: Plan, known: Mapping[str, StepSummary] | None = None
) -> dict[str, Any]:
    """Put a report together from what the steps left.

    Args:
        folder: the run folder.
        plan: the run's plan.
        known: summaries of complete steps that were just read.

    Returns:
        The JSON object of `report.json`; `dredge.runs.report` says what a page needs of it.
    """
    results = RunResults.read(folder, list(_steps(folder, plan)), plan.dry_run, known)
    cleaned = StepResult.read(folder, OwnFilesOutput.STEP)
    committed, guards = results.of(ListCommittedOutput), results.of(CheckLimitsOutput)
    swept = results.of(BulkDeleteOutput)
    counts = _counts(results)
    warnings = [text for summary in results.summaries for text in summary.warnings]
    return {
        "format": 1,
        "title": f"Garbage collection of {plan.repository}",
        "run_id": plan.run_id,
        "repository": plan.repository,
        "started_at": plan.created_at.isoformat(),
        "mode": plan.mode,
        "dry_run": plan.dry_run,
        "outcome": results.outcome,
        "outcome_text": words.OUTCOMES[results.outcome],
        "headline": words.headline(results, counts),
        "what_to_do": words.what_to_do(results),
        "facts": [*words.facts(folder, plan, results), *words.own_files(plan, cleaned.summary)],
        "counts": counts,
        "rows": [to_json(row) for row in report_rows(results)],
        "problems": [result.problem for result in results.steps.values() if result.problem],
        "failures": swept.failures if swept is not None else [],
        "warnings": [*warnings, *words.own_files_warnings(cleaned)],
        "kept": committed.kept if committed is not None else [],
        "approval": words.approval(results),
        "findings": guards.findings if guards is not None else [],
        "held": guards.held if guards is not None else [],
        "pending": guards.pending if guards is not None else {},
        "over_limit": _over_limit(guards),
        "steps": [_step(result) for result in results.steps.values()],
        "requests": work_of(results.summaries),
        "sections": sections(folder, results),
    }


def _steps(folder: RunFolder, plan: Plan) -> Iterator[type[StepOutput]]:
    """The steps of a run: some have to ask for an approval, and only those that delete move the state on."""
    for step in STEPS:
        yield step
        if step is CheckLimitsOutput:
            yield from _approval(folder, plan)
    if not plan.dry_run:
        yield StateOutput


def _approval(folder: RunFolder, plan: Plan) -> Sequence[type[StepOutput]]:
    try:
        return approval_inputs(plan, folder, ApproveOutput)
    except FormatError:
        return ()  # what check_limits left is damaged, and the report says so there


def _counts(results: RunResults) -> dict[str, int]:
    found: dict[str, int] = {}
    for output, names in _COUNTS.items():
        result = results.of(output)
        if result is not None:
            found |= {name: result.counts[name] for name in names if name in result.counts}
    return found


def _over_limit(guards: CheckLimitsOutput | None) -> list[dict[str, Any]]:
    """What would be deleted, by reason, when that is more than a limit allows."""
    if guards is None or not any(item["verdict"] == "awaiting_approval" for item in guards.findings):
        return []
    return [{**found, "why": REASONS[found["reason"]]} for found in guards.would_delete if found["objects"]]


def _step(result: StepResult) -> dict[str, Any]:
    summary = result.summary
    figures = ", ".join(f"{key} {value:,}" for key, value in summary.counts.items()) if summary else ""
    return {
        "step": result.step,
        "status": result.status,
        "seconds": f"{summary.seconds:.1f}" if summary else "",
        "figures": figures or result.problem,
        "counts": dict(summary.counts) if summary else {},
    }
