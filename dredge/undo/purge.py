"""Purge: select the leftovers of each run's deletions, and delete the old ones; a dry run only selects.

deleting runs, older than the cutoff → rows of their ledgers → selected, page by page → gate → deleted → ledger
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import ConfigError, FormatError
from dredge.runs import ledger
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder, run_ids
from dredge.runs.gate import Gate, GateConfig
from dredge.runs.payload import PartInfo, StepSummary, to_json
from dredge.runs.run import PlannedRun, StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function
from dredge.sets.live import LiveSet, LocatedSet, in_any
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map
from dredge.undo.deleted import Collected, SweptRun, swept_rows
from dredge.undo.deletions import note_purged, read_deletions
from dredge.undo.leftovers import (
    CURRENT,
    FAILED,
    LIVE,
    OUTCOMES,
    PINNED,
    PURGED,
    UNSENT,
    WOULD_GO,
    Choosing,
    Leftover,
    PurgeOutput,
    delete_leftovers,
)
from dredge.undo.pins import active_pins, sets_of
from dredge.undo.side_run import Tally, note_outcomes, shares_of, side_run, work_through
from dredge.undo.ways import PURGES_FOLDER, QUARANTINE, VERSIONS, PurgeConfig
from dredge.xid import descending_time

log = logging.getLogger("dredge")

_PAGE_ROWS = 1000
_AT_ONCE = 16
_WENT = (ledger.DELETED, ledger.MISSING)
# Rows of the ledger of a purge.
SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("way", pa.string(), nullable=False),
        pa.field("version_id", pa.string()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)


def purge(
    collected: Collected,
    config: PurgeConfig,
    runner: TaskRunner,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
    find_live: Callable[[PlannedRun[Any], Sequence[SweptRun]], LiveSet] | None = None,
) -> StepSummary:
    """Purge the leftovers of runs. `holder`: of the lease; None is this purge alone. `find_live`: returns hashes of
    live objects to keep; None without any. Raises UnavailableError: some leftovers could not be deleted; the others
    were."""
    with side_run(
        collected.repository,
        collected.uri,
        collected.state,
        f"{collected.state.uri}/{PURGES_FOLDER}",
        "purge",
        to_json(config),
        holder,
        options,
        clock,
    ) as run:

        def work(record: StepRecord) -> None:
            runs = list(swept_before(collected, run, config))
            live = LiveSet(()) if find_live is None else find_live(run, runs)
            purge_runs(collected, run, runner, record, config, runs, live)

        return run.step(PurgeOutput, work)


def purge_runs(
    collected: Collected,
    run: PlannedRun[Any],
    runner: TaskRunner,
    record: StepRecord,
    config: PurgeConfig,
    runs: Sequence[SweptRun],
    live: LiveSet,
) -> None:
    """Purge the leftovers of the given runs; the body of a step. `live`: hashes of objects to keep, live or possibly
    live."""
    cutoff = _cutoff(run, config)
    parts = [
        SweptPart(run_uri=swept.folder.uri, way=swept.way, below=list(swept.below), part=part)
        for swept in runs
        for part in swept.candidates
    ]
    tasks = [PurgeTask(name=name, parts=share) for name, share in shares_of(run, runner, parts)]
    pinned = sets_of(active_pins(run.state, run.store_now()))
    if not config.dry_run:
        collected.check(run.plan.run_id)

    def purging(gate: GateConfig) -> PurgingConfig:
        return PurgingConfig(cutoff=cutoff, dry_run=config.dry_run, pinned=pinned, live=live, gate=gate)

    tally = work_through(run, runner, record, PurgeOutput, purge_parts, purging, tasks, "parts", len(parts))
    record.counts["runs"] = len(runs)
    _report_young(run, record, config)
    if not config.dry_run:
        _note_purged(run, runs, tally)
    _sum_up(run, record, tally, config.dry_run)


def _cutoff(run: PlannedRun[Any], config: PurgeConfig) -> datetime:
    began: datetime = run.plan.created_at
    return began - timedelta(days=config.older_than_days)


def swept_before(collected: Collected, run: PlannedRun[Any], config: PurgeConfig) -> Iterator[SweptRun]:
    """Deleting runs of this repository with possible leftovers, begun before the cutoff."""
    if config.run is not None:
        yield collected.open_run(collected.run_uri_of(config.run))
        return
    root = (config.run_root or collected.runs_uri).rstrip("/")
    places = {run_id: f"{root}/{run_id}" for run_id in run_ids(open_reader(root, run.options))}
    now, cutoff = run.store_now(), _cutoff(run, config)
    for deletion in read_deletions(run.state).found:
        places[deletion.run_id] = deletion.run_uri
        if not deletion.can_come_back(now):
            del places[deletion.run_id]
    for run_id, uri in sorted(places.items()):
        if descending_time(run_id) >= cutoff:
            continue
        try:
            yield collected.open_run(uri)
        except (ConfigError, FormatError) as error:
            log.info("purge %s: skipped %s: %s", run.plan.run_id, uri, error)


def _report_young(run: PlannedRun[Any], record: StepRecord, config: PurgeConfig) -> None:
    """Report the first time for purging the younger deletions."""
    now, cutoff = run.store_now(), _cutoff(run, config)
    young = [
        item.at for item in read_deletions(run.state).found if item.can_come_back(now) and item.at >= cutoff
    ]
    if young:
        first = min(young) + timedelta(days=config.older_than_days)
        record.warn(
            f"the deletions of {len(young):,} runs are too young: the oldest of them can be purged from"
            f" {first:%Y-%m-%d %H:%M} UTC on"
        )


def _note_purged(run: PlannedRun[Any], runs: Sequence[SweptRun], tally: Tally) -> None:
    """Note the runs without leftovers: their ledgers are no longer needed."""
    for swept in runs:
        if not tally.left[swept.folder.run_id]:
            note_purged(run.state, swept.folder.run_id, run.store_now())


def _sum_up(run: PlannedRun[Any], record: StepRecord, tally: Tally, dry_run: bool) -> None:
    went = WOULD_GO if dry_run else PURGED
    record.counts[f"{went}_bytes"] = tally.size_bytes[went]
    if dry_run:
        record.status = "dry_run"
    text = (
        f"purge {run.plan.run_id}: {{left}} copies or versions could not be deleted{{example}};"
        f" {tally.objects[PURGED]:,} were. Purge again to retry the rest."
    )
    note_outcomes(record, tally, OUTCOMES, (FAILED, UNSENT), text)


class SweptPart(Struct, frozen=True, kw_only=True):
    """A part of the candidates of a deleting run; a payload."""

    run_uri: str
    way: str
    below: list[str]
    part: PartInfo


class PurgingConfig(Struct, frozen=True, kw_only=True):
    """The configuration of all tasks; a payload."""

    cutoff: datetime
    dry_run: bool
    pinned: tuple[LocatedSet, ...]
    live: LiveSet
    gate: GateConfig


class PurgeTask(Struct, frozen=True, kw_only=True):
    """The parts of a task; a payload."""

    name: str
    parts: list[SweptPart]


@partition_function
def purge_parts(run: WorkerRun, config: PurgingConfig, task: PurgeTask) -> Tally:
    """Delete the leftovers of some parts; a dry run counts them."""
    gate, tally = Gate.of_task(run, config.gate), Tally()
    for swept in task.parts:
        run_id = swept.run_uri.rpartition("/")[2]
        for page in _pages(swept):
            found = _look(run.stores.store_uri, swept, page, config)
            if not config.dry_run:
                gate.is_open()  # raises the reason for a closed gate
                found = delete_leftovers(run.stores.store_uri, swept.run_uri, found, gate.lets_through)
            if found:
                rows, name = _ledger(swept, found), f"part-{task.name}"
                tally.parts.append(run.folder.write_table(PurgeOutput.STEP, len(tally.parts), rows, name))
            for item in found:
                tally.count(item.outcome, item.size_bytes, item.row["address"], item.message)
                tally.left[run_id] += item.outcome not in (PURGED, CURRENT)
        if not config.dry_run and not tally.left[run_id]:
            tally.left[run_id] += _may_have_unrecorded(run.stores.store_uri, swept, config)
        run.progress.add(1)
    return tally


def _may_have_unrecorded(namespace: str, swept: SweptPart, config: PurgingConfig) -> bool:
    """Whether deletions without a ledger row (of a killed sweep) may have leftovers. No purge deletes these; while they
    exist, the check of later runs needs the record."""
    choosing = Choosing(namespace, swept.run_uri, swept.way, config.cutoff)
    rows = _rows(swept)
    rows = rows.filter(pc.invert(pc.is_in(rows["outcome"], pa.array(_WENT))))
    return any(item.outcome != CURRENT for row in rows.to_pylist() for item in choosing.look(row))


def _rows(swept: SweptPart) -> pa.Table:
    folder = RunFolder(open_writer(swept.run_uri), swept.run_uri.rpartition("/")[2])
    return swept_rows(folder, swept.part, swept.below)


def _pages(swept: SweptPart) -> Iterator[pa.Table]:
    rows = _rows(swept)
    rows = rows.filter(pc.is_in(rows["outcome"], pa.array(_WENT)))
    if swept.way != QUARANTINE:
        known = pc.is_valid(rows["version_id"])
        unknown = pc.and_(pc.equal(rows["outcome"], ledger.DELETED), pa.scalar(swept.way == VERSIONS))
        rows = rows.filter(pc.or_(known, unknown))
    for start in range(0, rows.num_rows, _PAGE_ROWS):
        yield rows.slice(start, _PAGE_ROWS)


def _look(namespace: str, swept: SweptPart, page: pa.Table, config: PurgingConfig) -> list[Leftover]:
    """The leftovers of a page of deletions; pinned and live objects are skipped."""
    choosing = Choosing(namespace, swept.run_uri, swept.way, config.cutoff)
    hashes = page["hash"].to_numpy()
    (pinned,) = in_any(config.pinned, [hashes])
    (live,) = config.live.find([hashes])
    kept = [Leftover(row, PINNED, swept.way) for row in page.filter(pa.array(pinned)).to_pylist()]
    kept += [Leftover(row, LIVE, swept.way) for row in page.filter(pa.array(live & ~pinned)).to_pylist()]
    asked = page.filter(pa.array(~pinned & ~live)).to_pylist()
    return kept + [item for items in ordered_map(choosing.look, asked, _AT_ONCE) for item in items]


def _ledger(swept: SweptPart, found: Sequence[Leftover]) -> pa.Table:
    run_id = swept.run_uri.rpartition("/")[2]
    columns = {
        "run_id": [run_id] * len(found),
        "address": [item.row["address"] for item in found],
        "size": [item.row["size"] for item in found],
        "way": [item.way for item in found],
        "version_id": [None if item.version is None else item.version.version_id for item in found],
        "outcome": [item.outcome for item in found],
        "message": [item.message for item in found],
    }
    return pa.table(columns, schema=SCHEMA)
