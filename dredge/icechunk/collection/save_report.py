"""Step save_report: advance the state after a complete run, clean up, and write the report.

    report.json     for programs; everything in one JSON object
    report.html     the same as a page

A report is written again at every call, also after a failure. A later try has newer facts, so an earlier try gives way.

Only a verified, complete run advances the state: under the lease, from the version in the plan, or not at all. If that
fails, the deletions are still right, and the next run builds on the older state.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from dredge.approve.records import approval_inputs
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
from dredge.icechunk.collection.own_files import clean_up, find_superseded, keep_small
from dredge.icechunk.collection.report import build_report
from dredge.icechunk.collection.run import Run, RunState, StateStore
from dredge.runs.payload import to_json
from dredge.runs.report import render_html
from dredge.runs.run import StepRecord, check_chain, collect_links
from dredge.runs.summary import StepOutput, StepSummary
from dredge.runs.tries import StepTry
from dredge.runs.versions import CLEAN, OPTIMIZED, Current
from dredge.sets.live import CountedSet
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")


def save_report(run: Run) -> StepSummary:
    """Advance the state if the run is complete, and write the report. Raises OvertakenError: a later try has begun, and
    writes the report; DredgeError: the state could not be advanced; the report is written."""
    # Claimed before the first read: a sleeping try must not keep a later one from its report.
    attempt = StepTry.claim(run.folder.writer, SaveReportOutput.STEP)
    with run.folder.keeping():
        is_complete = _is_complete(run)
        # A try that slept until its run's end would take the lease again, and never release it.
        attempt.check()
        return _end(run, attempt, is_complete)


def _end(run: Run, attempt: StepTry, is_complete: bool) -> StepSummary:
    error: DredgeError | None = None
    with at_once() as ask:
        # What the state named a week ago does not depend on its advance.
        superseded = ask(find_superseded, run) if is_complete and not run.plan.dry_run else None
        try:
            if is_complete and (moved := advance_state(run)) is not None:
                keep_small(run, StateOutput.of(moved).version)
                is_newest = ask(attempt.is_newest)  # compaction takes long: another try may have begun
                run.folder.settle()  # a summary that was not written is an error of the run, not of the cleaning
                if is_newest.result() and superseded is not None:
                    clean_up(run, superseded.result)
        except DredgeError as found:
            log.exception("the state was not advanced")
            error = found
    _distrust(run, is_complete)
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


def _distrust(run: Run, is_complete: bool) -> None:
    # No later run may build on a state that this run could not read.
    if (built_on := run.plan.state) is None:
        return
    if why := (None if is_complete else _could_not_read(run)) or lost_list(run):
        log.error("%s is not used again, and the next run is a clean one: %s", built_on.name, why)
        StateStore(run.state, run.options).distrust(built_on, why)


def _could_not_read(run: Run) -> str | None:
    if run.plan.mode != OPTIMIZED:
        return None
    found = (run.folder.read_damage(output.STEP) for output in (MarkOutput, ListCandidatesOutput))
    return next((why for why in found if why is not None), None)


def write_report(run: Run, attempt: StepTry | None = None) -> StepSummary:
    """Write the report of a run at any stage; OvertakenError if a later try has begun, which writes the report."""
    started = run.clock()
    attempt = attempt or StepTry.claim(run.folder.writer, SaveReportOutput.STEP)
    with run.folder.writing(attempt):
        report = build_report(run)
        page = render_html(report).encode()
        with at_once() as ask:
            written = ask(attempt.replace, PAGE, page)
            run.folder.publish_json(REPORT, report)
        written.result()
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
    """Write the state for the next run; None for a run with kept kinds, a dry run, or an optimized run without a usable
    pending list: the next run builds on the same state as this one.

    Raises:
        RefusedError: a step is incomplete, or the inputs do not belong together.
        ConflictError: another run has advanced the state.
        LeaseHeldError: another run has taken over.
    """
    config, mark = run.plan.config, run.folder.read_output(MarkOutput)
    if config.dry_run or config.kept_kinds or mark is None or mark.counted is None or lost_list(run):
        return None
    counted = mark.counted
    # The sweep's inputs belong to the state's chain.
    approved = approval_inputs(run.plan, run.folder, ApproveOutput)
    inputs: list[type[StepOutput]] = [*StateOutput.INPUTS, *approved]
    return run.step(StateOutput, lambda record: _advance(run, record, counted, inputs), inputs)


def lost_list(run: Run) -> str:
    """Reason why an optimized run could not use the pending list, else "". Its rows are lost until a clean run."""
    listed = run.folder.read_output(ListCandidatesOutput)
    return "" if run.plan.mode == CLEAN or listed is None else listed.waits_anew


def _advance(run: Run, record: StepRecord, counted: CountedSet, inputs: Sequence[type[StepOutput]]) -> None:
    check_chain(run.folder, StateOutput.STEP, collect_links(inputs), record.inputs)
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
        seen=tuple(record.input(MarkOutput).seen),
    )
