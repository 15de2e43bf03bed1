"""Save report: what became of the run, whatever it is. When all went well the state moves on first.

    report.json     for programs; everything in one JSON object
    report.html     the same as a page

A report is written anew whenever it is asked for, also after a failure. One that was begun later knows more, so an
earlier one gives way to it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from dredge.errors import DredgeError, FormatError
from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.save_report.lifetimes import clean_up
from dredge.icechunk.collection.save_report.output import PAGE, REPORT, SaveReportOutput
from dredge.icechunk.collection.save_report.report import build_report
from dredge.icechunk.collection.state.advance import advance_state, lost_list
from dredge.icechunk.collection.state.output import StateOutput
from dredge.icechunk.collection.state.store import StateStore
from dredge.icechunk.collection.upkeep import keep_small
from dredge.runs.report import render_html
from dredge.runs.summary import StepSummary
from dredge.runs.tries import StepTry
from dredge.runs.versions import OPTIMIZED

log = logging.getLogger("dredge")


def save_report(run: Run) -> StepSummary:
    """Let the state move on when the run is complete, and write the report of the run.

    Raises:
        OvertakenError: somebody began to write it later, who knows more; theirs stays.
        DredgeError: the state could not move on. The report is written, and what was deleted was garbage.
    """
    # Before anything is read: a try that sleeps does not keep the one after it from telling how the run ended.
    attempt = StepTry.claim(run.folder.writer, SaveReportOutput.STEP)
    with run.folder.keeping():
        is_complete = _is_complete(run)
        # Who sleeps until its run has ended would take the right back, and nobody would give it back again.
        attempt.check()
        return _end(run, attempt, is_complete)


def _end(run: Run, attempt: StepTry, is_complete: bool) -> StepSummary:
    error: DredgeError | None = None
    try:
        if is_complete and (moved := advance_state(run)) is not None:
            keep_small(run, StateOutput.of(moved).version)
            if attempt.is_newest():  # uniting takes long, so who does it may be taken for lost
                clean_up(run)
    except DredgeError as found:
        log.exception("the state was not moved on")
        error = found
    _distrust(run)
    summary = write_report(run, attempt)
    if error is not None:
        raise error
    return summary


def _is_complete(run: Run) -> bool:
    try:
        found = run.folder.read_valid_summaries(item.STEP for item in StateOutput.INPUTS)
        return all(summary is not None for summary in found.values())
    except FormatError:
        return False


def _distrust(run: Run) -> None:
    """Let no run build on a state again that this one could not read, or has made untrue."""
    if (built_on := run.plan.state) is None:
        return
    if why := _kept_chunks(run) or _could_not_read(run) or lost_list(run):
        log.error("%s may not be used again, and the next run is a clean one: %s", built_on.name, why)
        StateStore(run.state, run.options).distrust(built_on, why)


def _kept_chunks(run: Run) -> str | None:
    """A run that kept all chunks deleted the manifests that named them: only a listing finds them now."""
    config, step = run.plan.config, BulkDeleteOutput.STEP
    if not config.keep_chunks or config.dry_run:
        return None
    if run.folder.read_summary(step) is None and run.folder.read_incomplete(step) is None:
        return None
    return f"run {run.plan.run_id} kept all chunks, and deleted manifests that named some"


def _could_not_read(run: Run) -> str | None:
    if run.plan.mode != OPTIMIZED:
        return None
    for output in (MarkOutput, ListCandidatesOutput):
        why = run.folder.read_damage(output.STEP)
        if why is not None:
            return why
    return None


def write_report(run: Run, attempt: StepTry | None = None) -> StepSummary:
    """Write the report of a run, also of one that is not at its end.

    Args:
        run: this run.
        attempt: of this step; None claims one.

    Raises:
        OvertakenError: somebody began to write it later, who knows more; theirs stays.
    """
    started = run.clock()
    attempt = attempt or StepTry.claim(run.folder.writer, SaveReportOutput.STEP)
    with run.folder.writing(attempt):
        report = build_report(run)
        page = render_html(report).encode()
        run.folder.publish_json(REPORT, report)
        attempt.replace(PAGE, page)
        summary = StepSummary(
            step=SaveReportOutput.STEP,
            run_id=run.plan.run_id,
            status="success",
            started_at=started,
            finished_at=run.clock(),
            counts=_figures(report),
            details={"outcome": report["outcome"], "page": f"{run.folder.uri}/{PAGE}"},
            try_number=attempt.number,
        )
        run.folder.write_summary(summary)
    return summary


def _figures(report: Mapping[str, Any]) -> dict[str, int]:
    return {
        f"{what}_{unit}": report[what][unit]
        for what in ("candidates", "deleted", "failed")
        for unit in ("objects", "bytes")
    }
