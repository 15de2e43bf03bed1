"""Save report: what became of the run, whatever it is. When all went well the state moves on first.

    report.json     for programs; everything in one JSON object
    report.html     the same as a page

A report is written anew whenever it is asked for, also after a failure. One that was begun later knows more, so an
earlier one gives way to it.

The last step of a run that deleted: say what the next run may build on.

Only a verified, complete run comes this far. The state moves on under the lease, from the version that the plan was
made on, or not at all; a run that could not move it on has deleted rightly all the same, and the next one builds on the
older state.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from dredge.approve.output import approval_inputs
from dredge.errors import DredgeError, FormatError
from dredge.icechunk.collection.outputs import (
    PAGE,
    REPORT,
    ApproveOutput,
    BulkDeleteOutput,
    ListCandidatesOutput,
    MarkOutput,
    SaveReportOutput,
    StateOutput,
)
from dredge.icechunk.collection.own_files import clean_up, keep_small
from dredge.icechunk.collection.report import build_report
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state import RunState, StateStore
from dredge.runs.chain import check_chain, links_of
from dredge.runs.output import StepOutput
from dredge.runs.payload import to_json
from dredge.runs.perform import StepRecord
from dredge.runs.report import render_html
from dredge.runs.summary import StepSummary
from dredge.runs.tries import StepTry
from dredge.runs.versions import CLEAN, OPTIMIZED, Current
from dredge.sets.live import CountedSet

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
        found = run.folder.standing_summaries(item.STEP for item in StateOutput.INPUTS)
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
        why = run.folder.damage_met(output.STEP)
        if why is not None:
            return why
    return None


def write_report(run: Run, attempt: StepTry | None = None) -> StepSummary:
    """Write the report of a run, also of one that is not at its end.

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


def advance_state(run: Run) -> StepSummary | None:
    """Write what this run leaves for the next one, and let the pointer name it.

    Returns:
        The step's summary; None for a run that was not to delete all that it found, and for an optimized one that knew
        not what waits: the next one builds on what this one built on.

    Raises:
        RefusedError: a step is not complete, or the results do not belong together.
        ConflictError: another run has moved the state on.
        LeaseHeldError: another run has taken over.
    """
    config, mark = run.plan.config, run.folder.read_summary(MarkOutput.STEP)
    if config.dry_run or config.kept_kinds or mark is None or lost_list(run):
        return None
    if (counted := MarkOutput.of(mark).counted) is None:
        return None
    # What the sweep read belongs to the chain that the state is made from.
    approved = approval_inputs(run.plan, run.folder, ApproveOutput)
    inputs: list[type[StepOutput]] = [*StateOutput.INPUTS, *approved]
    return run.step(StateOutput, lambda record: _advance(run, record, counted, inputs), inputs)


def lost_list(run: Run) -> str:
    """Say why an optimized run knew not what waits: rows that only the list had are forgotten, and a clean run finds
    them; "" otherwise."""
    listed = run.folder.read_summary(ListCandidatesOutput.STEP)
    return "" if run.plan.mode == CLEAN or listed is None else ListCandidatesOutput.of(listed).waits_anew


def _advance(run: Run, record: StepRecord, counted: CountedSet, inputs: Sequence[type[StepOutput]]) -> None:
    check_chain(run.folder, StateOutput.STEP, links_of(inputs), record.inputs)
    state = _state(run, record, counted)
    before: Current[RunState] = Current(run.plan.state_etag, run.plan.state, None)
    version = StateStore(run.state, run.options).advance(state, before, record.attempt.number)
    record.counts.update(optimized_runs=state.optimized_runs, layers=len(counted.layers))
    record.details["version"] = to_json(version)


def _state(run: Run, record: StepRecord, counted: CountedSet) -> RunState:
    plan, base = run.plan, run.base
    listed = record.input(ListCandidatesOutput).count("chunks", "listed_objects")
    deleted = record.input(BulkDeleteOutput).counts.get("chunks_deleted_objects", 0)
    return RunState(
        uri=plan.uri,
        spec_version=plan.spec_version,
        run_id=plan.run_id,
        run_uri=plan.run_uri,
        fencing=plan.lease.fencing,
        previous="" if base is None else base.state.run_id,
        mode=plan.mode,
        started_at=plan.created_at,
        cutoff=plan.cutoff,
        clean_run_id=plan.run_id if base is None else base.state.clean_run_id,
        clean_at=plan.created_at if base is None else base.state.clean_at,
        optimized_runs=0 if base is None else base.state.optimized_runs + 1,
        chunk_objects=listed - deleted if base is None else base.state.chunk_objects,
        snapshots=record.input(MarkOutput).snapshot_rows,
        virtual=record.input(MarkOutput).virtual,
        counted=counted,
        contradicted=tuple(record.input(MarkOutput).contradicted),
        seen=tuple(record.input(MarkOutput).seen),
    )
