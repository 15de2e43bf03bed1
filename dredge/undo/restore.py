"""Restore: select the objects, pin them, restore them.

    deleted objects of the run → selected: hashes → pin in force → each object: there? else restored → ledger, by page

The pin is written before the first byte, so every run finds a restored object pinned. A killed restore is repeated:
restored objects are only checked.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import ConfigError, DredgeError, NotFoundError, PartialError
from dredge.runs.clock import Clock, Coverage, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.gate import Gate, GateConfig
from dredge.runs.payload import PartInfo, StepSummary, to_json
from dredge.runs.run import StepRecord, read_stored_plan
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function
from dredge.sets.hashes import unite, write_hashes
from dredge.sets.live import LocatedSet, ShardedSet
from dredge.storage import StorageOptions, open_writer
from dredge.storage.parallel import ordered_map
from dredge.undo.deleted import Collected, SweptRun, fitting, prefix_of, swept_rows
from dredge.undo.pins import Pin, narrow_pin, pin_folder, slices_of, unite_slices, write_pin
from dredge.undo.putting_back import (
    FAILED,
    GONE,
    OUTCOMES,
    REFUSED,
    RESTORED,
    TAKEN,
    UNSENT,
    PuttingBack,
    Restored,
    RestoreOutput,
)
from dredge.undo.side_run import SideRun, Tally, note_outcomes, shares_of, side_run, work_through
from dredge.undo.ways import RestoreConfig

log = logging.getLogger("dredge")

# Below the folder of the deleting run.
FOLDER = "restores"
# Outcomes without an object to pin. A taken key is pinned: an earlier restore, or a repeated task, may have written its
# object under another tag.
_ABSENT = (GONE,)
_PAGE_ROWS = 1000
_AT_ONCE = 16
# Rows of the ledger of a restore.
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


def restore(
    collected: Collected,
    config: RestoreConfig,
    runner: TaskRunner,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Restore deletions of a run. Raises NotFoundError: no object is restorable any more; UnavailableError: some
    objects were not restored; the others were."""
    uri = collected.run_uri_of(config.run)
    read_stored_plan(uri, bool, options)  # a restore creates no folder elsewhere
    with side_run(
        collected.repository,
        collected.uri,
        collected.state,
        f"{uri}/{FOLDER}",
        "restore",
        to_json(config),
        holder,
        options,
        clock,
    ) as run:
        swept = collected.open_run(uri)  # no other run changes under the lease
        return run.step(RestoreOutput, lambda record: _restore(run, runner, record, config, swept))


def _restore(
    run: SideRun, runner: TaskRunner, record: StepRecord, config: RestoreConfig, swept: SweptRun
) -> None:
    tasks = [
        RestoreTask(name=name, candidates=share) for name, share in shares_of(run, runner, swept.candidates)
    ]
    chosen = Chosen(
        run_uri=swept.folder.uri,
        below=list(swept.below),
        prefix=prefix_of(config),
        is_address=config.address is not None,
        reason=config.reason or "",
        pin_uri=pin_folder(run.state.uri, run.plan.run_id, run.options).uri,
    )
    _pin(run, runner, record, config, chosen, tasks)

    def put(gate: GateConfig) -> PutConfig:
        return PutConfig(chosen=chosen, way=swept.way, gate=gate)

    objects = record.counts["chosen_objects"]
    tally = work_through(run, runner, record, RestoreOutput, put_back, put, tasks, "objects", objects)
    _finish(run, record, chosen, tally)
    _sum_up(run, record, tally)


def _pin(
    run: SideRun,
    runner: TaskRunner,
    record: StepRecord,
    config: RestoreConfig,
    chosen: Chosen,
    tasks: Sequence[RestoreTask],
) -> None:
    found = run.spread(runner, RestoreOutput.STEP, choose, chosen, tasks, "parts")
    objects = sum(result.objects for result in found)
    if not objects:
        raise ConfigError(f"no deletion of run {config.run} fits the selection. Nothing was restored.")
    sets = tuple(
        LocatedSet(chosen.pin_uri, ShardedSet(0, {0: part})) for result in found for part in result.hashes
    )
    pin = Pin(
        pin_id=run.plan.run_id,
        run_id=chosen.run_uri.rpartition("/")[2],
        reason=config.because or "restored",
        created_at=run.plan.created_at,
        until=run.plan.created_at + timedelta(days=config.keep_days),
        objects=objects,
        size_bytes=sum(result.size_bytes for result in found),
        sets=sets,
        slices=unite_slices(result.slices for result in found),
    )
    write_pin(run.state, pin)
    record.counts.update(chosen_objects=objects, chosen_bytes=pin.size_bytes)
    record.details["pin"] = pin.text
    log.info("restore %s: pinned %s", run.plan.run_id, pin.text)


def _finish(run: SideRun, record: StepRecord, chosen: Chosen, tally: Tally) -> None:
    """Reduce the pin to possibly restored objects, and note the end of the restore, to save later listings."""
    sets = tuple(LocatedSet(chosen.pin_uri, ShardedSet(0, {0: part})) for part in tally.back)
    stays = [name for name in OUTCOMES if name not in _ABSENT]
    objects = sum(tally.objects[name] for name in stays)
    size_bytes = sum(tally.size_bytes[name] for name in stays)
    try:
        pin = narrow_pin(run.state, run.plan.run_id, sets, objects, size_bytes, run.store_now())
        record.details["pin"] = pin.text if pin is not None and objects else ""
    except DredgeError as error:
        record.warn(f"its end was not recorded, so runs list its slices again until the pin ends: {error}")


def _sum_up(run: SideRun, record: StepRecord, tally: Tally) -> None:
    record.counts.update(restored_bytes=tally.size_bytes[RESTORED])
    for outcome in (TAKEN, GONE):
        if tally.objects[outcome]:
            record.warn(
                f"{tally.objects[outcome]:,} objects {OUTCOMES[outcome]}, such as {tally.examples[outcome]}"
            )
    if tally.objects[GONE] == sum(tally.objects.values()):
        record.status = "refused"
        record.error = NotFoundError(
            f"restore {run.plan.run_id}: no object can be restored. Of {tally.objects[GONE]:,} objects neither a"
            f" copy nor a version exists, such as {tally.examples[GONE]}: they were purged, the bucket removed them, or"
            " the run kept none. Nothing is pinned."
        )
        record.counts.update({f"{outcome}_objects": tally.objects[outcome] for outcome in OUTCOMES})
        return
    text = (
        f"restore {run.plan.run_id}: {{left}} objects were not restored{{example}}; {tally.objects[RESTORED]:,} were."
        " Restore again to retry the rest."
    )
    note_outcomes(record, tally, OUTCOMES, (FAILED, UNSENT), text)
    if tally.objects[REFUSED] and record.error is None:
        record.status = "partial"
        record.error = PartialError(
            f"restore {run.plan.run_id}: {tally.objects[REFUSED]:,} objects {OUTCOMES[REFUSED]}, such as"
            f" {tally.examples[REFUSED]}; {tally.objects[RESTORED]:,} were restored. The copies stay until a purge."
            " Correct the rights, or copy the objects from the quarantine folder by hand; then restore again."
        )


class Chosen(Struct, frozen=True, kw_only=True):
    """The selected deletions of a run; a payload."""

    run_uri: str
    below: list[str]
    prefix: str
    is_address: bool  # whether the prefix is a complete address
    reason: str
    pin_uri: str

    def rows(self, part: PartInfo) -> pa.Table:
        """The selected rows of a part."""
        folder = RunFolder(open_writer(self.run_uri), self.run_uri.rpartition("/")[2])
        return fitting(swept_rows(folder, part, self.below), self.prefix, self.is_address, self.reason)


class RestoreTask(Struct, frozen=True, kw_only=True):
    """The parts of a task; a payload."""

    name: str
    candidates: list[PartInfo]


class ChooseResult(Struct, frozen=True, kw_only=True):
    """The selection of a task; a payload."""

    hashes: list[PartInfo]
    objects: int
    size_bytes: int
    slices: Coverage


@partition_function
def choose(run: WorkerRun, config: Chosen, task: RestoreTask) -> ChooseResult:
    """Write the hashes of the selected objects of some parts into the folder of the pin."""
    folder = RunFolder(open_writer(config.pin_uri), run.folder.run_id, call=run.folder.call)
    hashes: list[PartInfo] = []
    objects = size_bytes = 0
    slices = Coverage()
    for index, part in enumerate(task.candidates):
        rows = config.rows(part)
        run.progress.add(1)
        if not rows.num_rows:
            continue
        name = f"hashes-{task.name}-{index:05d}-0.u64"
        hashes.append(write_hashes(folder, name, unite([rows["hash"].to_numpy()])))
        objects += rows.num_rows
        size_bytes += pc.sum(rows["size"]).as_py()
        slices = unite_slices([slices, slices_of(rows["address"])])
    return ChooseResult(hashes=hashes, objects=objects, size_bytes=size_bytes, slices=slices)


class PutConfig(Struct, frozen=True, kw_only=True):
    """The configuration of all tasks; a payload."""

    chosen: Chosen
    way: str
    gate: GateConfig


@partition_function
def put_back(run: WorkerRun, config: PutConfig, task: RestoreTask) -> Tally:
    """Restore the selected objects of some parts."""
    putting = PuttingBack(run.stores.store_uri, config.chosen.run_uri, config.way)
    gate, tally = Gate.of_task(run, config.gate), Tally()

    def put(row: Mapping[str, Any]) -> Restored:
        return putting.put_back(row) if gate.lets_through() else Restored(UNSENT)

    folder = RunFolder(open_writer(config.chosen.pin_uri), run.folder.run_id, call=run.folder.call)
    for part in task.candidates:
        rows = config.chosen.rows(part)
        for start in range(0, rows.num_rows, _PAGE_ROWS):
            page = rows.slice(start, _PAGE_ROWS)
            asked = page.to_pylist()
            found = list(ordered_map(put, asked, _AT_ONCE))
            name, index = f"part-{task.name}", len(tally.parts)
            tally.parts.append(run.folder.write_table(RestoreOutput.STEP, index, _ledger(page, found), name))
            for row, item in zip(asked, found, strict=True):
                tally.count(item.outcome, row["size"], row["address"], item.message)
            stays = page.filter(pa.array([item.outcome not in _ABSENT for item in found], pa.bool_()))
            if stays.num_rows:
                hashes = unite([stays["hash"].to_numpy()])
                tally.back.append(write_hashes(folder, f"hashes-back-{task.name}-{index:05d}-0.u64", hashes))
            run.progress.add(page.num_rows)
    return tally


def _ledger(page: pa.Table, found: Sequence[Restored]) -> pa.Table:
    columns = [page["address"], page["size"], page["reason"]]
    columns += [pa.array([getattr(item, name) for item in found]) for name in ("outcome", "way", "message")]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
