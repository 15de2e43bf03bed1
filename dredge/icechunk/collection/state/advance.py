"""The last step of a run that deleted: say what the next run may build on.

Only a verified, complete run comes this far. The state moves on under the lease, from the version that the plan was
made on, or not at all; a run that could not move it on has deleted rightly all the same, and the next one builds on the
older state.
"""

from __future__ import annotations

from collections.abc import Sequence

from dredge.approve.output import approval_inputs
from dredge.icechunk.collection.approve import ApproveOutput
from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state.model import RunState
from dredge.icechunk.collection.state.output import StateOutput
from dredge.icechunk.collection.state.store import StateStore
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord, check_chain, links_of
from dredge.runs.summary import StepOutput, StepSummary
from dredge.runs.versions import CLEAN, Current
from dredge.sets.live import CountedSet


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
