"""Purge: look at what each run's deletions left, and delete what is old enough; a dry run only looks.

runs that deleted, older than the cutoff → rows of their ledgers → chosen, page by page → gate → deleted → ledger
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError
from dredge.gc.history import run_ids
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.plan import RUNS
from dredge.gc.purge.choosing import Choosing, Leftover
from dredge.gc.purge.config import PurgeConfig
from dredge.gc.purge.deleting import delete_leftovers
from dredge.gc.purge.output import FAILED, OUTCOMES, PINNED, PURGED, UNSENT, WOULD_GO, PurgeOutput
from dredge.gc.undo.deleted import SweptRun, open_swept, run_uri_of, swept_rows
from dredge.gc.undo.pins import active_pins, sets_of
from dredge.gc.undo.side_run import PURGES, SideRun, side_run
from dredge.gc.undo.ways import QUARANTINE
from dredge.gc.undo.work import Done, Tally, note_outcomes, shares_of, work_through
from dredge.graveler.xid import descending_time
from dredge.lakefs import LakeFS
from dredge.runs import ledger
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.gate import Gate, GateConfig
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_PAGE_ROWS = 1000
_AT_ONCE = 16
_WENT = (ledger.DELETED, ledger.MISSING)
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
"""Rows of the ledger of a purge."""


def purge(
    config: PurgeConfig,
    runner: TaskRunner,
    holder: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Let copies and old versions go that runs left behind.

    Args:
        config: which; a dry run only looks.
        runner: spreads the work.
        holder: who takes the lease; None is this purge alone.
        client: the lakeFS server; None reads the environment.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock.

    Raises:
        LeaseHeldError: another run works on the repository.
        UnavailableError: something could not be deleted; the rest was.
        FormatError: a pin cannot be read, so nobody can tell what it holds.
    """

    def place(namespace: str) -> str:
        return f"{namespace.rstrip('/')}/{PURGES}"

    with side_run(config.repository, place, "purge", config.to_json(), holder, client, options, clock) as run:
        return run.step(PurgeOutput, lambda record: _purge(run, runner, record, config))


def _purge(run: SideRun, runner: TaskRunner, record: StepRecord, config: PurgeConfig) -> None:
    cutoff = run.plan.created_at - timedelta(days=config.older_than_days)
    runs = list(_runs(run, record, config, cutoff))
    parts = [
        SweptPart(run_uri=swept.folder.uri, way=swept.plan.undo.way, part=part)
        for swept in runs
        for part in swept.candidates
    ]
    tasks = [PurgeTask(name=name, parts=share) for name, share in shares_of(run, runner, parts)]
    pinned = sets_of(active_pins(run.state, run.plan.created_at))

    def purging(gate: GateConfig) -> PurgingConfig:
        return PurgingConfig(cutoff=cutoff, dry_run=config.dry_run, pinned=pinned, gate=gate)

    tally = work_through(run, runner, record, PurgeOutput, purge_parts, purging, tasks, "parts", len(parts))
    record.counts["runs"] = len(runs)
    _sum_up(run, record, tally, config.dry_run)


def _runs(run: SideRun, record: StepRecord, config: PurgeConfig, cutoff: datetime) -> Iterator[SweptRun]:
    """Runs of this repository that deleted, and began before the cutoff."""
    if config.run is not None:
        uris = [run_uri_of(config.run, run.plan.namespace)]
    else:
        root = (config.run_root or f"{run.plan.namespace.rstrip('/')}/{RUNS}").rstrip("/")
        ids = run_ids(open_reader(root, run.options))
        uris = [f"{root}/{run_id}" for run_id in ids if descending_time(run_id) < cutoff]
    for uri in uris:
        try:
            swept = open_swept(uri, run.options)
        except (ConfigError, FormatError) as error:
            if config.run is not None:
                raise
            log.info("purge %s: nothing of %s: %s", run.plan.run_id, uri, error)
            continue
        here = canonical_namespace(run.plan.namespace)
        if canonical_namespace(swept.plan.namespace) == here and swept.plan.repository == run.plan.repository:
            yield swept
        elif config.run is not None:
            raise ConfigError(f"run {swept.plan.run_id} is of another repository. Nothing was deleted.")


def _sum_up(run: SideRun, record: StepRecord, tally: Tally, dry_run: bool) -> None:
    went = WOULD_GO if dry_run else PURGED
    record.counts[f"{went}_bytes"] = tally.size_bytes[went]
    if dry_run:
        record.status = "dry_run"
    text = (
        f"purge {run.plan.run_id}: {{left}} copies or versions could not be deleted{{example}};"
        f" {tally.objects[PURGED]:,} were. Purge again: only what is left is tried again."
    )
    note_outcomes(record, tally, OUTCOMES, (FAILED, UNSENT), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptPart:
    """A part of the candidates of a run that deleted; a payload.

    Attributes:
        run_uri: URI of its folder.
        way: how its deletions can be taken back.
        part: of its candidates.
    """

    run_uri: str
    way: str
    part: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgingConfig:
    """What every task needs; a payload.

    Attributes:
        cutoff: only what is older goes.
        dry_run: whether nothing goes.
        pinned: hashes of what stays.
        gate: what every request must pass.
    """

    cutoff: datetime
    dry_run: bool
    pinned: tuple[LocatedSet, ...]
    gate: GateConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeTask:
    """Some parts; a payload.

    Attributes:
        name: of the files that the task writes.
        parts: of runs' candidates.
    """

    name: str
    parts: list[SweptPart]


@partition_function
def purge_parts(run: WorkerRun, config: PurgingConfig, task: PurgeTask) -> Done:
    """Delete, or in a dry run only count, what some parts' deletions left."""
    gate, tally = Gate.of_task(run, config.gate), Tally()
    for swept in task.parts:
        for page in _pages(swept):
            found = _look(run.stores.store_uri, swept, page, config)
            if not config.dry_run:
                gate.is_open()  # raises what is wrong
                found = delete_leftovers(run.stores.store_uri, swept.run_uri, found, gate.lets_through)
            if found:
                rows, name = _ledger(swept, found), f"part-{task.name}"
                tally.parts.append(run.folder.write_table(PurgeOutput.STEP, len(tally.parts), rows, name))
            for item in found:
                tally.count(item.outcome, item.size_bytes, item.row["address"], item.message)
        run.progress.add(1)
    return tally.done()


def _pages(swept: SweptPart) -> Iterator[pa.Table]:
    """What the ledger says was deleted, page by page."""
    folder = RunFolder(open_writer(swept.run_uri), swept.run_uri.rpartition("/")[2])
    rows = swept_rows(folder, swept.part)
    rows = rows.filter(pc.is_in(rows["outcome"], pa.array(_WENT)))
    if swept.way != QUARANTINE:
        rows = rows.filter(pc.is_valid(rows["version_id"]))
    for start in range(0, rows.num_rows, _PAGE_ROWS):
        yield rows.slice(start, _PAGE_ROWS)


def _look(namespace: str, swept: SweptPart, page: pa.Table, config: PurgingConfig) -> list[Leftover]:
    """Look at what the deletions of a page left; what is pinned is not looked at."""
    choosing = Choosing(namespace, swept.run_uri, swept.way, config.cutoff)
    (pinned,) = in_any(config.pinned, [page["hash"].to_numpy()])
    kept = [Leftover(row, PINNED, swept.way) for row in page.filter(pa.array(pinned)).to_pylist()]
    asked = page.filter(pa.array(~pinned)).to_pylist()
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
