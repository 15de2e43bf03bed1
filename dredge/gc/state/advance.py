"""The last step of a run that deleted: say what the next run may build on.

    gone = candidates that were deleted, or were not there any more

Only a verified, complete run comes this far. The state moves on under the lease, from the version that the
plan was made on, or not at all; a run that could not move it on has deleted rightly all the same, and the next
one builds on the older state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from dredge.approve.output import approval_inputs
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.plan import Plan
from dredge.gc.referring import Referred
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state.base import Base, base_of
from dredge.gc.state.model import RunState
from dredge.gc.state.output import StateOutput
from dredge.gc.state.store import StateStore
from dredge.gc.subtract import SubtractOutput
from dredge.hashing import hash64
from dredge.lakefs.files.gc_files import UNCOMMITTED
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json, to_json
from dredge.runs.steps import StepRecord, check_chain, links_of
from dredge.runs.summary import PartInfo, StepOutput, StepSummary
from dredge.runs.versions import Current
from dredge.sets.hashes import Hashes, unite, write_hashes
from dredge.storage import open_writer

_GONE_ROWS = 1_000_000
"""Hashes in one file."""


def advance_state(run: Run) -> StepSummary:
    """Write what this run leaves for the next one, and let the pointer name it.

    Args:
        run: this run.

    Raises:
        RefusedError: a step is not complete, or the results do not belong together.
        ConflictError: another run has moved the state on.
        LeaseHeldError: another run has taken over.
    """
    # What the sweep read belongs to the chain that the state is made from.
    inputs: list[type[StepOutput]] = [
        *StateOutput.INPUTS,
        *approval_inputs(run.plan, run.folder, ApproveOutput),
    ]
    return run.step(StateOutput, lambda record: _advance(run, record, inputs), inputs)


def _advance(run: Run, record: StepRecord, inputs: Sequence[type[StepOutput]]) -> None:
    check_chain(run.folder, StateOutput.STEP, links_of(inputs), record.inputs)
    plan, base = run.plan, base_of(run)
    gone = list(_gone(run, record))
    record.parts.extend(gone)
    state = _state(plan, base, record, gone)
    run.folder.settle()
    before: Current[RunState] = Current(plan.state_etag, plan.state, None)
    version = StateStore(run.state, run.options).advance(state, before, record.attempt.number)
    _save_for_people(run, record, state)
    record.counts.update(
        gone_objects=sum(part.rows for part in gone),
        optimized_runs=state.optimized_runs,
        covered_intervals=len(state.covered.intervals),
    )
    record.details.update(version=to_json(version), covered=to_json(state.covered))


def _state(plan: Plan, base: Base | None, record: StepRecord, gone: list[PartInfo]) -> RunState:
    listing, staged = record.input(SliceListingOutput), record.input(MarkUncommittedOutput)
    committed = record.input(ListCommittedOutput)
    referred = [from_json(Referred, item) for item in committed.referring]
    since = _since_clean(plan, base)
    begin, end = plan.window
    deleted = record.input(BulkDeleteOutput).counts.get("deleted_objects", 0)
    listed = listing.counts["old_objects"] + listing.counts["young_objects"]
    return RunState(
        repository=plan.repository,
        namespace=plan.namespace,
        run_id=plan.run_id,
        run_uri=plan.run_uri,
        previous="" if base is None else base.state.run_id,
        mode=plan.mode,
        started_at=plan.created_at,
        cutoff=plan.cutoff,
        clean_run_id=since.run_id,
        clean_at=since.at,
        optimized_runs=since.runs,
        all_commits=committed.all_commits,
        first_slice=listing.first_slice,
        objects=listed - deleted if base is None else base.state.objects,
        staged=(*staged.addresses, *(part for item in referred for part in item.addresses)),
        commits=committed.commits,
        ranges=committed.ranges,
        named_ranges=committed.named_ranges,
        named=committed.metaranges,
        path_ranges=committed.path_ranges,
        looked_at=committed.files,
        gone=tuple(gone),
        covered=plan.covered.add(begin, min(end, plan.covers_until)),
        counted=committed.counted,
        index_format=committed.index_format,
        sizes=committed.sizes,
    )


@dataclass(frozen=True, slots=True)
class _SinceClean:
    run_id: str
    at: datetime
    runs: int


def _since_clean(plan: Plan, base: Base | None) -> _SinceClean:
    if base is None:
        return _SinceClean(plan.run_id, plan.created_at, 0)
    return _SinceClean(base.state.clean_run_id, base.state.clean_at, base.state.optimized_runs + 1)


def _gone(run: Run, record: StepRecord) -> Iterator[PartInfo]:
    """Hashes of the candidates that are not there any more, in files of bounded size."""
    folder, swept = run.folder, record.input(BulkDeleteOutput)
    found, rows, index = list[Hashes](), 0, 0

    def write() -> PartInfo:
        return write_hashes(folder, f"{StateOutput.STEP}/gone-{index:05d}.u64", unite(found))

    for part in record.input(SubtractOutput).candidates:
        outcomes = folder.read_part(swept.settled_of(part), ["address", "outcome"])
        is_gone = pc.is_in(outcomes["outcome"], pa.array([ledger.DELETED, ledger.MISSING]))
        addresses = outcomes.filter(is_gone)["address"]
        found.append(hash64(addresses))
        rows += len(addresses)
        if rows >= _GONE_ROWS:
            yield write()
            found, rows, index = [], 0, index + 1
    if rows:
        yield write()


def _save_for_people(run: Run, record: StepRecord, state: RunState) -> None:
    """Put the saved information where the design of uncommitted collection has it."""
    saved = {
        "run_id": state.run_id,
        "run_uri": state.run_uri,
        "mode": state.mode,
        "start_time": state.started_at.isoformat(),
        "cutoff_time": state.cutoff.isoformat(),
        "last_read_slice": state.first_slice,
        "covered_slices": to_json(state.covered),
        "report": f"{state.run_uri}/report.json",
    }
    # The design keeps what a run found beside the server's scan; without a scan there is no id of one.
    server_run = (record.input(MarkUncommittedOutput).server_runs or [run.plan.run_id])[-1]
    uri = f"{run.plan.namespace.rstrip('/')}/{UNCOMMITTED}/{server_run}"
    RunFolder(open_writer(uri, run.options), state.run_id).writer.put(
        "report.json", json.dumps(saved, indent=1, sort_keys=True).encode()
    )
