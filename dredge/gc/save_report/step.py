"""The end of a run, complete or failed, in four steps of one task:

advance_state     the state for the next run                a complete run with deletions
clean_up          removes old own files                     a complete run
write_analysis    costs of objects, effects of other rules  every run
write_report      the report and lakeFS's own files         every run

    report.json     everything as one JSON object
    report.html     the same as a page
    summary.json    one line, as lakeFS's own collector writes it
    deleted/        parquet with one column `address`, confirmed deletions only; deleted.text/ the same as text

The last two are in the places and formats of lakeFS's own collector. A dry run reports no deleted objects at all, so no
other program deletes them from these files without another check. A run with failures is never a success.

Source: docs/lakefs-behaviour.md, "The design documents"
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from dredge.approve.records import approval_inputs
from dredge.errors import DredgeError, FormatError
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Plan, Run, read_plan
from dredge.gc.save_report.advance_state import StateOutput, advance_state, compact_index, distrust_state
from dredge.gc.save_report.clean_up import clean_up, find_superseded
from dredge.gc.save_report.results import (
    STEPS,
    approval,
    facts,
    headline,
    own_files,
    own_files_warnings,
    report_rows,
    sections,
    what_to_do,
    work_of,
    write_analysis,
)
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.runs import ledger
from dredge.runs.cleanup import OwnFilesOutput
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo, StepOutput, StepSummary, to_json
from dredge.runs.report import ENDED, OUTCOMES, RunResults, StepResult, render_html
from dredge.runs.tries import StepTry
from dredge.storage import StorageOptions, open_writer
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

REPORT, PAGE, SUMMARY = "report.json", "report.html", "summary.json"
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
"""Figures of the run by step."""


class SaveReportOutput(StepOutput):
    """The report. It needs no complete step."""

    STEP = "save_report"


def write_report(
    run: Run,
    known: Mapping[str, StepSummary] | None = None,
    attempt: StepTry | None = None,
    analysis: Mapping[str, Any] | None = None,
) -> StepSummary:
    """Write the report of a run and the summary of the step, from complete summaries read after the claim of the try,
    if any. A repeated step writes a later report."""
    started = run.clock()
    folder, plan = run.folder, run.plan
    attempt = attempt or StepTry.claim(folder.writer, SaveReportOutput.STEP)
    with at_once() as ask:
        deleted = ask(write_deleted, folder, attempt)
        report = build_report(folder, plan, known, analysis)
    parts = deleted.result()
    folder.settle()
    files = {
        REPORT: json.dumps(report, sort_keys=True).encode(),
        PAGE: render_html(report).encode(),
        SUMMARY: _summary(folder, plan, report),
    }
    with at_once() as ask:
        written = [ask(attempt.replace, name, data) for name, data in files.items()]
    for file in written:
        file.result()
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


def read_report(run_uri: str, options: StorageOptions | None = None) -> dict[str, Any]:
    """Build the current report of a running, failed or complete run; see `build_report`."""
    plan = read_plan(run_uri.rstrip("/"), options)
    return build_report(RunFolder(open_writer(run_uri.rstrip("/"), options), plan.run_id), plan)


def build_report(
    folder: RunFolder,
    plan: Plan,
    known: Mapping[str, StepSummary] | None = None,
    analysis: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the JSON object of `report.json`; `dredge.runs.report` lists the fields of the page. Results that are not
    given are read."""
    with at_once() as ask:
        cleaned_read = ask(StepResult.read, folder, OwnFilesOutput.STEP)
        results = RunResults.read(folder, list(_steps(folder, plan)), plan.dry_run, known)
    cleaned = cleaned_read.result()
    committed, guards = results.of(ListCommittedOutput), results.of(CheckLimitsOutput)
    swept = results.of(BulkDeleteOutput)
    counts = _counts(results)
    details = results.to_details()
    return {
        **details,
        "format": 1,
        "title": f"Garbage collection of {plan.repository}",
        "run_id": plan.run_id,
        "repository": plan.repository,
        "started_at": plan.created_at.isoformat(),
        "mode": plan.mode,
        "dry_run": plan.dry_run,
        "outcome": results.outcome,
        "outcome_text": OUTCOMES[results.outcome],
        "headline": headline(results, counts),
        "what_to_do": what_to_do(results),
        "facts": [*facts(folder, plan, results), *own_files(plan, cleaned.summary)],
        "counts": counts,
        "rows": [to_json(row) for row in report_rows(results)],
        "failures": swept.failures if swept is not None else [],
        "warnings": [*details["warnings"], *own_files_warnings(cleaned)],
        "kept": committed.kept if committed is not None else [],
        "approval": approval(results),
        "findings": guards.findings if guards is not None else [],
        "held": guards.held if guards is not None else [],
        "pending": guards.pending if guards is not None else {},
        "over_limit": _over_limit(guards),
        "requests": work_of(results.summaries),
        "sections": sections(folder, analysis),
    }


def _steps(folder: RunFolder, plan: Plan) -> Iterator[type[StepOutput]]:
    """Return the steps of a run: with an approval if one is needed, and the state if it deletes."""
    for step in STEPS:
        yield step
        if step is CheckLimitsOutput:
            with suppress(FormatError):  # check_limits is damaged, and has the problem in the report
                yield from approval_inputs(plan, folder, ApproveOutput)
    if not plan.dry_run:
        yield StateOutput


def _counts(results: RunResults) -> dict[str, int]:
    found: dict[str, int] = {}
    for output, names in _COUNTS.items():
        result = results.of(output)
        if result is not None:
            found |= {name: result.counts[name] for name in names if name in result.counts}
    return found


def _over_limit(guards: CheckLimitsOutput | None) -> list[dict[str, Any]]:
    if guards is None or not any(item["verdict"] == "awaiting_approval" for item in guards.findings):
        return []
    return [{**found, "why": REASONS[found["reason"]]} for found in guards.would_delete if found["objects"]]


def write_deleted(folder: RunFolder, attempt: StepTry) -> list[PartInfo]:
    """Write the addresses of confirmed deletions, a file for each part of the ledger; return the files, none if it
    cannot be read."""
    step = BulkDeleteOutput.STEP
    try:
        swept = folder.read_summary(step) or folder.read_incomplete(step)
    except DredgeError:
        return []
    parts: list[PartInfo] = []
    for part in BulkDeleteOutput.of(swept).settled if swept is not None else ():
        rows = folder.read_part(part, ["address", "outcome"])
        gone = rows.filter(pc.equal(rows["outcome"], ledger.DELETED)).select(["address"])
        if not gone.num_rows:
            continue
        index = len(parts) // 2
        attempt.check()
        parts.append(folder.write_table("deleted", index, gone))
        lines = "".join(f"{_text_line(address)}\n" for address in gone["address"].to_pylist())
        parts.append(folder.write_bytes(f"deleted.text/part-{index:05d}.txt", lines.encode(), gone.num_rows))
    return parts


def _text_line(address: str) -> str:
    # As JSON only if it has control characters: each address is one line.
    return json.dumps(address) if any(ord(character) < 32 for character in address) else address


def _summary(folder: RunFolder, plan: Plan, report: Mapping[str, Any]) -> bytes:
    def instant(time: datetime) -> str:
        return time.astimezone(UTC).isoformat().replace("+00:00", "Z")

    listing = folder.read_output(SliceListingOutput)
    value: dict[str, Any] = {
        "run_id": plan.run_id,
        "success": report["outcome"] in ENDED,
        "first_slice": listing.first_slice if listing is not None else "",
        "start_time": instant(plan.created_at),
        "cutoff_time": instant(plan.cutoff),
        "num_deleted_objects": report["counts"].get("deleted_objects", 0),
    }
    if report["approval"] is not None:
        value["approval"] = report["approval"]
    return f"{json.dumps(value)}\n".encode()


def save_report(run: Run) -> StepSummary:
    """Advance the state of a complete run, and write the report of any run. Raises DredgeError: the state was not
    advanced. The report is written, and all deletions were right."""
    # Claimed before the first read: steps may be repeated while this try sleeps.
    attempt = StepTry.claim(run.folder.writer, SaveReportOutput.STEP)
    with run.folder.keeping():
        with at_once() as ask:
            # A try that sleeps until its run has ended would renew the lease, and no task would release it.
            newest = ask(attempt.check)
            complete = _complete(run.folder)
        newest.result()
        return _end(run, attempt, complete)


def _end(run: Run, attempt: StepTry, complete: dict[str, StepSummary]) -> StepSummary:
    error: DredgeError | None = None
    with at_once() as ask:
        analysis = ask(write_analysis, run)
        # Versions and run folders that the state named a week ago do not depend on its advance.
        removes = complete and run.plan.config.keep_runs_days is not None
        superseded = ask(find_superseded, run) if removes else None
        try:
            if complete and not run.plan.dry_run:
                compacted = ask(compact_index, run, complete[ListCommittedOutput.STEP])
                advance_state(run)
                compacted.result()
            is_newest = ask(attempt.is_newest)  # compaction takes long, so another try may have begun
            run.folder.settle()  # a summary that was not written is an error of the run, not of the cleaning
            if is_newest.result() and superseded is not None:
                clean_up(run, superseded.result)
        except DredgeError as found:
            log.exception("the state was not advanced")
            error = found
        if not complete:
            distrust_state(run)
    summary = write_report(run, {} if error else complete, attempt, analysis.result())
    if error is not None:
        raise error
    return summary


def _complete(folder: RunFolder) -> dict[str, StepSummary]:
    """Read the summaries of all steps; {} if a step is not complete."""
    try:
        folder.settle()
    except DredgeError:
        log.exception("the result of a step was not written")
    try:
        found = folder.read_valid_summaries(item.STEP for item in StateOutput.INPUTS)
    except FormatError:
        return {}
    complete = {step: summary for step, summary in found.items() if summary is not None}
    return complete if len(complete) == len(found) else {}
