"""Advances the state: what the next run builds on.

Only a verified, complete run advances the state, under the lease and only from the version in its plan. If the advance
fails, the deletions of the run were right, and the next run uses the older state.
"""

import json
import logging
import uuid
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dredge.approve.records import approval_inputs
from dredge.errors import DredgeError, FormatError
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.config import OPTIMIZED
from dredge.gc.index.ranges import RangeHashes
from dredge.gc.index.store import PART_VALUES, CommittedIndex, batches, read_part, write_part
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.referring import Referred, open_referring
from dredge.gc.run import Plan, Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state import Base, RunState, StateStore, base_of
from dredge.gc.subtract import SubtractOutput
from dredge.gc.verify import VerifyOutput
from dredge.hashing import hash64
from dredge.lakefs.files.records import UNCOMMITTED
from dredge.runs import ledger
from dredge.runs.payload import PartInfo, StepOutput, StepSummary, from_json, to_json
from dredge.runs.run import Ahead, StepRecord, check_chain, collect_links
from dredge.runs.versions import Current
from dredge.sets.hashes import Hashes, unite, write_hashes
from dredge.storage import ObjectReader, ObjectWriter, open_writer

log = logging.getLogger("dredge")

_GONE_ROWS = 1_000_000  # hashes in one file
_READ_THE_STATE = (ListCommittedOutput, SubtractOutput)


class StateOutput(StepOutput):
    """The state for the next run."""

    STEP = "state"
    INPUTS = (*BulkDeleteOutput.INPUTS, BulkDeleteOutput, VerifyOutput)


def advance_state(run: Run) -> StepSummary:
    """Write the state for the next run and replace the pointer."""
    # The inputs of the sweep belong to the chain of the state.
    inputs: list[type[StepOutput]] = [
        *StateOutput.INPUTS,
        *approval_inputs(run.plan, run.folder, ApproveOutput),
    ]
    links = collect_links(inputs)
    chain = Ahead(lambda found: check_chain(run.folder, StateOutput.STEP, links, found))
    return run.step(StateOutput, lambda record: _advance(run, record, chain), inputs, chain)


def _advance(run: Run, record: StepRecord, chain: Ahead[dict[str, StepSummary]]) -> None:
    chain.result(record.inputs)
    plan, base = run.plan, base_of(run)
    gone = list(_gone(run, record))
    record.parts.extend(gone)
    state = make_state(plan, base, record, gone)
    before: Current[RunState] = Current(plan.state_etag, plan.state, None)
    store = StateStore(run.state, run.options)
    version = store.advance(state, before, record.attempt.number, run.folder.settle)
    _write_server_report(run, record, state)
    record.counts.update(
        gone_objects=sum(part.rows for part in gone),
        optimized_runs=state.optimized_runs,
        covered_intervals=len(state.covered.intervals),
    )
    record.details.update(version=version, covered=state.covered)


def make_state(plan: Plan, base: Base | None, record: StepRecord, gone: list[PartInfo]) -> RunState:
    """Make the state after a run from the state before an optimized run and the hashes of deleted candidates."""
    listing, staged = record.input(SliceListingOutput), record.input(MarkUncommittedOutput)
    committed = record.input(ListCommittedOutput)
    referred = [from_json(Referred, item) for item in committed.referring]
    deleted = record.input(BulkDeleteOutput).counts.get("deleted_objects", 0)
    listed = listing.counts["old_objects"] + listing.counts["young_objects"]
    before = None if base is None else base.state
    return RunState(
        repository=plan.repository,
        namespace=plan.namespace,
        run_id=plan.run_id,
        run_uri=plan.run_uri,
        previous="" if before is None else before.run_id,
        mode=plan.mode,
        started_at=plan.created_at,
        cutoff=plan.cutoff,
        clean_run_id=plan.run_id if before is None else before.clean_run_id,
        clean_at=plan.created_at if before is None else before.clean_at,
        optimized_runs=0 if before is None else before.optimized_runs + 1,
        all_commits=committed.all_commits,
        first_slice=listing.first_slice,
        objects=listed - deleted if before is None else before.objects,
        staged=(*staged.addresses, *(part for item in referred for part in item.addresses)),
        commits=committed.commits,
        ranges=committed.ranges,
        named_ranges=committed.named_ranges,
        named=committed.metaranges,
        path_ranges=committed.path_ranges,
        looked_at=committed.files,
        gone=tuple(gone),
        covered=plan.covered_after,
        counted=committed.counted,
        index_format=committed.index_format,
        sizes=committed.sizes,
    )


def _gone(run: Run, record: StepRecord) -> Iterator[PartInfo]:
    """Write the hashes of deleted and missing candidates, in files of bounded size."""
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


def _write_server_report(run: Run, record: StepRecord, state: RunState) -> None:
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
    # lakeFS's design has this report beside the server's scan; without a scan, the run's id replaces that of the scan.
    server_run = (record.input(MarkUncommittedOutput).server_runs or [run.plan.run_id])[-1]
    uri = f"{run.plan.namespace.rstrip('/')}/{UNCOMMITTED}/{server_run}"
    data = json.dumps(saved, indent=1, sort_keys=True).encode()
    run.folder.start(uri, lambda: open_writer(uri, run.options).put("report.json", data))


def compact_index(run: Run, committed: StepSummary) -> None:
    """Unite small parts of the committed index. A failure is logged: the run is complete without it."""
    try:
        found = ListCommittedOutput.of(committed)
        indexes = [(run, found.ranges)]
        for item in (from_json(Referred, value) for value in found.referring):
            indexes.append((open_referring(run, item.repository, item.namespace), item.ranges))
        label = f"{run.plan.run_id}-{uuid.uuid4().hex[:8]}"  # another try writes other files
        for of, ranges in indexes:
            ids = run.folder.read_part(ranges, ["range_id"])["range_id"].to_pylist()
            compact(of.state, of.keys.namespace, label, ids, run.plan.config.tuning.index_parts_max)
    except DredgeError:
        log.exception("the committed index was not compacted")


_SMALL_BYTES = PART_VALUES * 8 // 4


def compact(state: ObjectWriter, namespace: str, label: str, ranges: Collection[str], parts_max: int) -> int:
    """Unite small parts with ranges still in use if there are more than `parts_max`, and write a checkpoint; return
    the number of united parts. `label` is the run id."""
    index = CommittedIndex.load(state, namespace)
    groups, _ = index.group(ranges)
    small = [name for name in groups if index.parts[name].size_bytes < _SMALL_BYTES]
    if len(small) <= parts_max:
        return 0
    united = list[str]()
    written = [
        write_part(state, f"{label}-compacted-{number:04d}", batch)
        for number, batch in enumerate(batches(_read_parts(state, index, groups, small, united)))
    ]
    index.add(f"{label}-", written)
    index.checkpoint(label)
    log.info("committed index: %d parts united into %d", len(united), len(written))
    return len(united)


def _read_parts(
    state: ObjectReader,
    index: CommittedIndex,
    groups: dict[str, list[str]],
    names: Sequence[str],
    united: list[str],
) -> Iterator[RangeHashes]:
    """Yield the wanted ranges of parts, and add the names of the undamaged parts to `united`."""
    for name in names:
        wanted = set(groups[name])
        try:
            ranges = read_part(state, index.parts[name], wanted.__contains__)
        except FormatError as error:
            log.warning("%s is not compacted: %s", name, error)
            continue
        united.append(name)
        yield from (item for item in ranges if item.range_id in wanted)


def distrust_state(run: Run) -> None:
    """Mark the state as unusable if a step of this optimized run could not read it."""
    plan = run.plan
    if plan.mode != OPTIMIZED or plan.state is None:
        return
    for output in _READ_THE_STATE:
        why = run.folder.read_damage(output.STEP)
        if why is not None:
            log.error("run %s could not read %s; the next run is a clean one", plan.run_id, plan.state.name)
            StateStore(run.state, run.options).distrust(plan.state, why)
