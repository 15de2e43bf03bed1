"""The end of a run, good or bad: when all went well the state moves on and old files of our own are removed; the
report is written in any case."""

from __future__ import annotations

import logging
import uuid

from dredge.errors import DredgeError, FormatError
from dredge.gc.config import OPTIMIZED
from dredge.gc.index.upkeep import compact
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.referring import Referred, open_referring
from dredge.gc.run import Run
from dredge.gc.save_report.analysis import write_analysis
from dredge.gc.save_report.lifetimes import clean_up
from dredge.gc.save_report.output import SaveReportOutput
from dredge.gc.save_report.report import write_report
from dredge.gc.state.advance import advance_state
from dredge.gc.state.output import StateOutput
from dredge.gc.state.store import StateStore
from dredge.gc.subtract import SubtractOutput
from dredge.runs.payload import from_json
from dredge.runs.summary import StepSummary
from dredge.runs.tries import StepTry
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

_READ_THE_STATE = (ListCommittedOutput, SubtractOutput)


def save_report(run: Run) -> StepSummary:
    """Let the state move on when the run is complete, and write the report.

    Returns:
        The summary of the report.

    Raises:
        OvertakenError: somebody began later, who knows more; their report stays.
        DredgeError: the state could not move on. The report is written, and what was deleted was garbage.
    """
    # Before anything is read: what a try that sleeps has read may have been done again when it wakes.
    attempt = StepTry.claim(run.folder.writer, SaveReportOutput.STEP)
    with run.folder.keeping():
        known = _complete(run)
        # Who sleeps until its run has ended would take the right back, and nobody would give it back again.
        attempt.check()
        return _end(run, attempt, known)


def _end(run: Run, attempt: StepTry, known: dict[str, StepSummary]) -> StepSummary:
    error: DredgeError | None = None
    with at_once() as ask:
        analysis = ask(write_analysis, run)
        try:
            if known and not run.plan.dry_run:
                advance_state(run)
                _compact_index(run, known[ListCommittedOutput.STEP])
            if known and attempt.is_newest():  # uniting takes long, so who does it may be taken for lost
                clean_up(run)
        except DredgeError as found:
            log.exception("the state was not moved on")
            error = found
        if not known:
            _distrust(run)
    analysis.result()
    summary = write_report(run, {} if error else known, attempt)
    if error is not None:
        raise error
    return summary


def _complete(run: Run) -> dict[str, StepSummary]:
    """The summaries of all steps; none when one of them is not complete."""
    try:
        found = run.folder.read_valid_summaries(item.STEP for item in StateOutput.INPUTS)
    except FormatError:
        return {}
    complete = {step: summary for step, summary in found.items() if summary is not None}
    return complete if len(complete) == len(found) else {}


def _compact_index(run: Run, committed: StepSummary) -> None:
    """Unite small parts of the committed index now and then; a run that cannot is none the worse."""
    try:
        found = ListCommittedOutput.of(committed)
        indexes = [(run, found.ranges)]
        for item in (from_json(Referred, value) for value in found.referring):
            indexes.append((open_referring(run, item.repository, item.namespace), item.ranges))
        label = f"{run.plan.run_id}-{uuid.uuid4().hex[:8]}"  # whoever else ends this run writes other files
        for of, ranges in indexes:
            ids = run.folder.read_part(ranges, ["range_id"])["range_id"].to_pylist()
            compact(of.state, of.keys.namespace, label, ids, run.plan.config.tuning.index_parts_max)
    except DredgeError:
        log.exception("the committed index was not compacted")


def _distrust(run: Run) -> None:
    """Let no run build on a state again that one could not read."""
    plan = run.plan
    if plan.mode != OPTIMIZED or plan.state is None:
        return
    for output in _READ_THE_STATE:
        why = run.folder.read_damage(output.STEP)
        if why is not None:
            log.error(
                "run %s could not build on %s; the next run is a clean one", plan.run_id, plan.state.name
            )
            StateStore(run.state, run.options).distrust(plan.state, why)
