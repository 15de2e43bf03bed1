"""Restore: choose what to bring back, pin it, put it back.

    what the run deleted → chosen: hashes → pin in force → each object: there? else back → ledger, page by page

The pin comes before the first byte, so whatever run sees an object that came back finds it pinned. A restore that died
is done again: what is there already is only looked at.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, UnavailableError
from dredge.gc.namespaces import DATA, canonical_namespace
from dredge.gc.restore.config import RestoreConfig
from dredge.gc.restore.output import FAILED, GONE, OUTCOMES, TAKEN, UNSENT, RestoreOutput
from dredge.gc.restore.putting_back import PuttingBack, Restored
from dredge.gc.run import read_plan
from dredge.gc.undo.deleted import SweptRun, open_swept, run_uri_of, swept_rows
from dredge.gc.undo.pins import Pin, pin_folder, write_pin
from dredge.gc.undo.side_run import LOOK_SECONDS, SideRun, side_run
from dredge.lakefs import LakeFS
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.gate import Gate, GateConfig
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import TaskRunner, round_robin
from dredge.runs.watch import watching
from dredge.sets.files import write_hashes
from dredge.sets.hashes import unite
from dredge.sets.live import LocatedSet
from dredge.sets.sharded import ShardedSet
from dredge.storage import StorageOptions, open_writer
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

FOLDER = "restores"
"""Below the folder of the run whose deletions are taken back."""
_PAGE_ROWS = 1000
_AT_ONCE = 16
SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("way", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)
"""Rows of the ledger of a restore."""


def restore(
    config: RestoreConfig,
    runner: TaskRunner,
    holder: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Take deletions of a run back.

    Args:
        config: which, and for how long they are kept.
        runner: spreads the work.
        holder: who takes the lease; None is this restore alone.
        client: the lakeFS server; None reads the environment.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run, or it deleted nothing that fits.
        LeaseHeldError: another run works on the repository.
        UnavailableError: some objects could not be brought back; the others were.
    """

    def place(namespace: str) -> str:
        uri = run_uri_of(config.run, namespace)
        read_plan(uri, options)  # a restore makes no folder where no run is
        return f"{uri}/{FOLDER}"

    with side_run(
        config.repository, place, "restore", config.to_json(), holder, client, options, clock
    ) as run:
        swept = open_swept(run_uri_of(config.run, run.plan.namespace), options)
        _check_is_of(swept, run)
        return run.step(RestoreOutput, lambda record: _restore(run, runner, record, config, swept))


def _check_is_of(swept: SweptRun, run: SideRun) -> None:
    """A run of another repository, or of an earlier life of this name, deleted objects of another namespace."""
    here = canonical_namespace(run.plan.namespace)
    if canonical_namespace(swept.plan.namespace) != here or swept.plan.repository != run.plan.repository:
        raise ConfigError(
            f"run {swept.plan.run_id} is of {swept.plan.repository} ({swept.plan.namespace}), not of"
            f" {run.plan.repository} ({run.plan.namespace}). Nothing was restored."
        )


def _restore(
    run: SideRun, runner: TaskRunner, record: StepRecord, config: RestoreConfig, swept: SweptRun
) -> None:
    shares = round_robin(swept.candidates, run.num_tasks(runner, len(swept.candidates)))
    tasks = [RestoreTask(name=f"{index:05d}", candidates=share) for index, share in enumerate(shares)]
    chosen = Chosen(
        run_uri=swept.folder.uri,
        prefix=config.address or config.prefix or DATA,
        is_address=config.address is not None,
        reason=config.reason or "",
        pin_uri=pin_folder(run.state.uri, run.plan.run_id, run.options).uri,
    )
    _pin(run, runner, record, config, chosen, tasks)
    watched = f"{RestoreOutput.STEP}/_watch/{record.attempt.number:03d}.json"
    put = PutConfig(chosen=chosen, way=swept.plan.undo.way, gate=run.gate(watched))
    with watching(run.folder, watched, lambda: None, LOOK_SECONDS):
        results = run.spread(
            runner, RestoreOutput.STEP, put_back, put, tasks, "objects", record.counts["chosen_objects"]
        )
    record.parts.extend(part for result in results for part in result.parts)
    _sum_up(run, record, results)


def _pin(
    run: SideRun,
    runner: TaskRunner,
    record: StepRecord,
    config: RestoreConfig,
    chosen: Chosen,
    tasks: Sequence[RestoreTask],
) -> None:
    """Put in force what holds everything that is about to come back."""
    found = run.spread(runner, RestoreOutput.STEP, choose, chosen, tasks, "parts")
    objects = sum(result.objects for result in found)
    if not objects:
        raise ConfigError(f"run {config.run} deleted nothing that fits. Nothing was restored.")
    sets = tuple(
        LocatedSet(chosen.pin_uri, ShardedSet(0, {0: part})) for result in found for part in result.hashes
    )
    pin = Pin(
        pin_id=run.plan.run_id,
        run_id=chosen.run_uri.rpartition("/")[2],
        reason=config.because or "brought back",
        created_at=run.plan.created_at,
        until=run.plan.created_at + timedelta(days=config.keep_days),
        objects=objects,
        size_bytes=sum(result.size_bytes for result in found),
        sets=sets,
    )
    write_pin(run.state, pin)
    record.counts.update(chosen_objects=objects, chosen_bytes=pin.size_bytes)
    record.details["pin"] = pin.text
    log.info("restore %s: pinned %s", run.plan.run_id, pin.text)


def _sum_up(run: SideRun, record: StepRecord, results: Sequence[PutResult]) -> None:
    objects, size_bytes = Counter[str](dict.fromkeys(OUTCOMES, 0)), Counter[str]()
    for result in results:
        objects.update(result.objects)
        size_bytes.update(result.size_bytes)
    record.counts.update({f"{outcome}_objects": count for outcome, count in objects.items()})
    record.counts.update(restored_bytes=size_bytes["restored"])
    for outcome in (TAKEN, GONE):
        if objects[outcome]:
            example = next(result.examples[outcome] for result in results if outcome in result.examples)
            record.warn(f"{objects[outcome]:,} objects {OUTCOMES[outcome]}, such as {example}")
    left = objects[FAILED] + objects[UNSENT]
    if left:
        example = next((result.examples[FAILED] for result in results if FAILED in result.examples), "")
        record.status = "partial"
        record.error = UnavailableError(
            f"restore {run.plan.run_id}: {left:,} objects did not come back{f', such as {example}' if example else ''};"
            f" {objects['restored']:,} did. Restore again: only what is not there is tried again."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which of a run's deletions are taken back; a payload.

    Attributes:
        run_uri: URI of the folder of the run that deleted.
        prefix: of the addresses.
        is_address: whether the prefix is a whole address.
        reason: why they were deleted; "" for any.
        pin_uri: URI of the folder of the pin.
    """

    run_uri: str
    prefix: str
    is_address: bool
    reason: str
    pin_uri: str

    def rows(self, part: PartInfo) -> pa.Table:
        """The rows of a part that are chosen."""
        folder = RunFolder(open_writer(self.run_uri), self.run_uri.rpartition("/")[2])
        rows = swept_rows(folder, part)
        fits = pc.equal(rows["address"], self.prefix) if self.is_address else _starts(rows, self.prefix)
        if self.reason:
            fits = pc.and_(fits, pc.equal(rows["reason"], self.reason))
        return rows.filter(fits).combine_chunks()


def _starts(rows: pa.Table, prefix: str) -> pa.ChunkedArray:
    return pc.starts_with(rows["address"], prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTask:
    """Some parts of the candidates; a payload.

    Attributes:
        name: of the files that the task writes.
        candidates: parts.
    """

    name: str
    candidates: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChooseResult:
    """What a task chose; a payload.

    Attributes:
        hashes: files in the folder of the pin.
        objects: how many.
        size_bytes: their sizes together.
    """

    hashes: list[PartInfo]
    objects: int
    size_bytes: int


@partition_function
def choose(run: WorkerRun, config: Chosen, task: RestoreTask) -> ChooseResult:
    """Write the hashes of what is chosen of some parts into the folder of the pin."""
    folder = RunFolder(open_writer(config.pin_uri), run.folder.run_id)
    hashes: list[PartInfo] = []
    objects = size_bytes = 0
    for index, part in enumerate(task.candidates):
        rows = config.rows(part)
        run.progress.add(1)
        if not rows.num_rows:
            continue
        name = f"hashes-{task.name}-{index:05d}-0.u64"
        hashes.append(write_hashes(folder, name, unite([rows["hash"].to_numpy()])))
        objects += rows.num_rows
        size_bytes += pc.sum(rows["size"]).as_py()
    return ChooseResult(hashes=hashes, objects=objects, size_bytes=size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConfig:
    """What every task needs; a payload.

    Attributes:
        chosen: which objects.
        way: that the run's plan took.
        gate: what must hold while objects are put back.
    """

    chosen: Chosen
    way: str
    gate: GateConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PutResult:
    """What a task put back; a payload.

    Attributes:
        parts: of the ledger.
        objects: by outcome.
        size_bytes: by outcome.
        examples: address and message of one object of each outcome.
    """

    parts: list[PartInfo]
    objects: dict[str, int]
    size_bytes: dict[str, int]
    examples: dict[str, str]


@partition_function
def put_back(run: WorkerRun, config: PutConfig, task: RestoreTask) -> PutResult:
    """Put back what is chosen of some parts."""
    putting = PuttingBack(run.stores.store_uri, config.chosen.run_uri, config.way)
    gate = Gate.of_task(run, config.gate)
    objects, size_bytes = Counter[str](), Counter[str]()
    parts: list[PartInfo] = []
    examples: dict[str, str] = {}

    def put(row: Mapping[str, Any]) -> Restored:
        return putting.put_back(row) if gate.lets_through() else Restored(UNSENT)

    for part in task.candidates:
        rows = config.chosen.rows(part)
        for start in range(0, rows.num_rows, _PAGE_ROWS):
            page = rows.slice(start, _PAGE_ROWS)
            asked = page.to_pylist()
            found = list(ordered_map(put, asked, _AT_ONCE))
            parts.append(
                run.folder.write_table(
                    RestoreOutput.STEP, len(parts), _ledger(page, found), f"part-{task.name}"
                )
            )
            for row, item in zip(asked, found, strict=True):
                objects[item.outcome] += 1
                size_bytes[item.outcome] += row["size"]
                examples.setdefault(item.outcome, f"{row['address']!r} ({item.message})")
            run.progress.add(page.num_rows)
    return PutResult(parts=parts, objects=dict(objects), size_bytes=dict(size_bytes), examples=examples)


def _ledger(page: pa.Table, found: Sequence[Restored]) -> pa.Table:
    columns = [page["address"], page["size"], page["reason"]]
    columns += [pa.array([getattr(item, name) for item in found]) for name in ("outcome", "way", "message")]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
