"""The end of a run, complete or failed, in four steps of one task:

advance_state     the state for the next run                a complete run with deletions
clean_up          removes old own files                     a complete run
write_analysis    costs of objects, effects of other rules  every run
write_report      the report and lakeFS's own files         every run
"""

from __future__ import annotations

import logging

from dredge.errors import DredgeError, FormatError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.save_report.advance_state import StateOutput, advance_state, compact_index, distrust_state
from dredge.gc.save_report.analysis import write_analysis
from dredge.gc.save_report.clean_up import clean_up, list_superseded
from dredge.gc.save_report.report import SaveReportOutput, write_report
from dredge.runs.summary import StepSummary
from dredge.runs.tries import StepTry
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")


def save_report(run: Run) -> StepSummary:
    """Advance the state of a complete run, and write the report of any run.

    Raises:
        DredgeError: the state was not advanced. The report is written, and all deletions were right.
    """
    # Claimed before the first read: steps may be repeated while this try sleeps.
    attempt = StepTry.claim(run.folder.writer, SaveReportOutput.STEP)
    with run.folder.keeping():
        with at_once() as ask:
            # A try asleep until the end of its run would renew the lease, with no task left to release it.
            newest = ask(attempt.check)
            complete = _complete(run)
        newest.result()
        return _end(run, attempt, complete)


def _end(run: Run, attempt: StepTry, complete: dict[str, StepSummary]) -> StepSummary:
    error: DredgeError | None = None
    with at_once() as ask:
        analysis = ask(write_analysis, run)
        # Versions and run folders that the state named a week ago do not depend on its advance.
        superseded = ask(list_superseded, run) if complete else None
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


def _complete(run: Run) -> dict[str, StepSummary]:
    """Read the summaries of all steps; {} if a step is not complete."""
    try:
        run.folder.settle()
    except DredgeError:
        log.exception("the result of a step was not written")
    try:
        found = run.folder.read_valid_summaries(item.STEP for item in StateOutput.INPUTS)
    except FormatError:
        return {}
    complete = {step: summary for step, summary in found.items() if summary is not None}
    return complete if len(complete) == len(found) else {}
