"""Bulk delete: check again, then delete the candidates, and write down what became of each.

    one chain? guards passed? mark young enough? → re-check → delete, batch by batch, through the gate → settle
                                                      ↑______ a branch moved to an unknown commit ______|

What is deleted must have been listed, marked, compared and guarded in one unbroken chain of results, read afresh
before each round: the re-check leaves out what the mark knew, so it must be the mark that these candidates were
compared with. This is the only module of the collector that is handed a deleter.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError, RefusedError
from dredge.gc.bulk_delete.head_watch import Gate, watching
from dredge.gc.bulk_delete.recheck import Known, recheck
from dredge.gc.bulk_delete.reconcile import settle, stem_of
from dredge.gc.chain import SWEEP
from dredge.gc.check_limits.identical import CLEARED, verdict_parts
from dredge.gc.check_limits.verdicts import Verdicts
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.sets.files import read_hashes
from dredge.gc.sets.hashes import Hashes, contains
from dredge.gc.sets.sharded import ShardedSet
from dredge.gc.subtract import reasons
from dredge.runs import ledger
from dredge.runs.chain import check_chain
from dredge.runs.clock import running_seconds
from dredge.runs.defects import foreseen
from dredge.runs.folder import RunFolder
from dredge.runs.partial import as_partial, partial_after
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.report import duration_text
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner, round_robin
from dredge.storage import ObjectDeleter, open_deleter, open_writer

log = logging.getLogger("dredge")

STEP = ledger.STEP
_FIRST_GROUP = 1000


def bulk_delete(run: Run, runner: TaskRunner) -> StepSummary:
    """Check again, then delete the candidates; in a dry run only say what would go.

    Run again after an error, it goes on where the ledger ends and tries only what is not done.

    Raises:
        RefusedError: a guard did not pass, the results do not belong together, the mark is too old, or branches
            move all the time.
        LeaseHeldError: another run has taken over.
        UnavailableError: some objects could not be deleted; the others were.
        ConfigError: the credentials may not delete, and nothing was.
        PartialError: the credentials may not delete the rest.
    """
    return run.step_by_name(STEP, list(SWEEP), lambda record: _bulk_delete(run, runner, record))


def _bulk_delete(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    guard, candidates = record.inputs["check_limits"], record.inputs["subtract"]
    check_chain(run.folder, STEP, SWEEP, record.inputs)
    if run.plan.dry_run:
        record.status = "dry_run"
        record.counts["would_delete_objects"] = guard.counts["deletable_objects"]
        record.counts["would_delete_bytes"] = guard.counts["deletable_bytes"]
        return
    if guard.details["verdict"] != "passed":
        raise RefusedError(
            f"run {run.plan.run_id}: the guards did not pass. Nothing was deleted. Read guard.json of"
            " the run."
        )
    _check_age(run)
    parts = candidates.parts_below("subtract/part-")
    stopped: DredgeError | None = None
    try:
        if parts:
            with foreseen(f"the sweep of run {run.plan.run_id}", run.folder.uri):
                _sweep(run, runner, record, parts)
    except DredgeError as error:
        stopped = error
    with partial_after(lambda: _what_went(record)):
        try:
            settle(run, runner, record, parts, complete=stopped is None)
        except DredgeError:
            if stopped is None:
                raise
            log.exception("the ledger could not be settled")
    if stopped is not None:
        record.status, record.error = "partial", as_partial(stopped, _what_went(record))


def _what_went(record: StepRecord) -> str:
    """What the sweep deleted, as a sentence; "" when it deleted nothing."""
    deleted = record.counts.get("deleted_objects")
    if deleted is None:  # the ledger was not settled, and each round of deleting begins with a re-check
        return "What was deleted is in the ledger." if "rechecks" in record.details else ""
    return f"{deleted:,} objects were deleted; the ledger names them." if deleted else ""


def _check_age(run: Run) -> None:
    age = run.store_now() - run.plan.created_at
    age_max = timedelta(hours=run.plan.config.safety.mark_age_hours_max)
    if age > age_max:
        raise RefusedError(
            f"run {run.plan.run_id} was planned {duration_text(age)} ago; a mark older"
            f" than {duration_text(age_max)} is not swept. Nothing (more) was deleted. Start a new run."
        )


def _sweep(run: Run, runner: TaskRunner, record: StepRecord, parts: Sequence[PartInfo]) -> None:
    """Delete in rounds: each begins with a re-check, and ends early when a branch moves to a commit nobody
    knows."""
    plan = run.plan
    known = Known.of_mark(run, record.input(ListCommittedOutput))
    attempt = record.attempt.number
    hands = round_robin([part.to_json() for part in parts], run.num_tasks(runner, len(parts)))
    tasks = [{"name": f"{index:05d}", "parts": hand} for index, hand in enumerate(hands)]
    rows = sum(part.rows for part in parts)
    safety = plan.config.safety
    for turn in range(safety.recheck_rounds_max):
        figures = recheck(run, runner, known, f"recheck/{attempt:03d}-{turn:03d}")
        record.details.setdefault("rechecks", []).append(figures)
        # A name that no other driver has, also when a number comes again because its object was lost: another
        # one's look says nothing about what this one's workers know.
        watched = f"{STEP}/_watch/{attempt:03d}-{turn:03d}-{uuid.uuid4().hex[:8]}.json"
        config = {
            "lease": plan.lease.to_json(),
            "gate_seconds": safety.gate_every_seconds,
            "watch_seconds": safety.watch_silence_seconds_max,
            "watch": watched,
            "attempt": attempt,
            "turn": turn,
            "delete_keys": plan.config.tuning.delete_keys,
            "alive": [found.to_json() for found in known.live],
            "cleared": record.inputs["check_limits"].part(CLEARED).to_json(),
            "verdicts": [part.to_json() for part in verdict_parts(record.inputs["check_limits"])],
        }
        check_chain(run.folder, STEP, SWEEP, record.inputs)
        record.attempt.check()
        run.lease.renew(plan.lease, take_back=False)
        with watching(run, known.commits, watched) as watch:
            results = run.spread_json(runner, STEP, sweep_parts, config, tasks, "objects", rows)
        if not any(result["stopped"] for result in results):
            return
        if (error := watch.must_not_go_on()) is not None:
            raise error
        record.warn(
            f"the sweep stopped ({watch.reason or 'nobody had looked at branch heads for too long'}) and"
            " checked again"
        )
    raise RefusedError(
        f"branches moved during each of {safety.recheck_rounds_max} rounds of deleting. What"
        " was deleted is in the ledger; the rest was left alone. Start a new run at a quieter time, or"
        " raise recheck_rounds_max."
    )


def sweep_parts(config: Json, task: Json) -> Json:
    """Delete the candidates of some parts that are not alive, held or done. A partition function.

    Args:
        config: doors, the gate's settings, `attempt`, `turn`, `delete_keys`, `alive` (sets), `cleared` and
            `verdicts` of the guard, `progress`.
        task: `name` and `parts`.

    Returns:
        `stopped`: whether the gate closed before everything was done.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"])
    gate = Gate(folder, open_writer(config["state_uri"]), config)
    deleter = open_deleter(config["namespace"])
    alive = [ShardedSet.from_json(value) for value in config["alive"]]
    cleared = read_hashes(folder, PartInfo.from_json(config["cleared"]))
    verdicts = Verdicts.read(folder, [PartInfo.from_json(value) for value in config["verdicts"]])
    for part in (PartInfo.from_json(value) for value in task["parts"]):
        if not _sweep_part(folder, part, deleter, gate, alive, cleared, verdicts, config, progress):
            return {"stopped": True}
    return {"stopped": False}


def _sweep_part(
    folder: RunFolder,
    part: PartInfo,
    deleter: ObjectDeleter,
    gate: Gate,
    alive: Sequence[ShardedSet],
    cleared: Hashes,
    verdicts: Verdicts,
    config: Json,
    progress: Progress,
) -> bool:
    name = stem_of(part)
    rows = folder.read_part(part)
    if not pc.all(pc.starts_with(rows["address"], DATA), min_count=0).as_py():
        raise FormatError(f"{part.name} names an object outside {DATA}. Nothing more was deleted.")
    done = ledger.finished(ledger.read_raw(folder, name))
    rows = rows.filter(pc.invert(pc.is_in(rows["address"], done)))
    progress.add(part.rows - rows.num_rows)
    hashes = rows["hash"].to_numpy()
    suspect = pc.not_equal(rows["suspect"], "").to_numpy()
    held = suspect & ~contains(cleared, hashes)
    # Another object may have the hash of a cleared one, so the verdict must be about this one, too.
    held[suspect] |= verdicts.codes_of(rows.filter(pa.array(suspect))) != ""
    again = np.zeros(len(hashes), bool)
    for known in alive:
        again |= known.find(folder, [hashes])[0]
    kept = rows.filter(pa.array(held | again))
    attempt, fencing = config["attempt"], config["lease"]["fencing"]
    if kept.num_rows:
        codes = verdicts.codes_of(kept)
        codes = np.where(codes == "", reasons.TOO_MANY, codes)
        codes = np.where(again[held | again], reasons.ALIVE_AGAIN, codes)
        entries = ledger.rows_of(kept, [ledger.KEPT] * kept.num_rows, attempt, fencing, code=codes.tolist())
        ledger.write_raw(folder, name, attempt, config["turn"], 0, entries)
        progress.add(kept.num_rows)
    doomed = _shuffled(rows.filter(pa.array(~(held | again))), f"{config['run_id']}/{name}")
    groups = _Groups(doomed, config["delete_keys"], config["gate_seconds"])
    for number, group in enumerate(groups, 1):
        if not gate.is_open():
            return False
        outcomes = deleter.delete(group["address"].to_pylist(), gate.lets_through)
        entries = ledger.outcome_rows(group, outcomes, attempt, fencing)
        ledger.write_raw(folder, name, attempt, config["turn"], number, entries)
        progress.add(entries.num_rows)
        if gate.has_shut:
            gate.is_open()
            return False
    return True


def _shuffled(rows: pa.Table, seed: str) -> pa.Table:
    """Rows in another order: neighbours in name share the store's partitions, and would slow each other
    down."""
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    return rows.take(pa.array(order, pa.int64())).combine_chunks()


class _Groups:
    """Cuts rows into groups that take about as long as a look through the gate is trusted.

    Args:
        rows: to be deleted.
        keys_max: longest group.
        seconds: that a group should take at most.
    """

    def __init__(self, rows: pa.Table, keys_max: int, seconds: float) -> None:
        self._rows = rows
        self._keys_max = keys_max
        self._seconds = seconds

    def __iter__(self) -> Iterator[pa.Table]:
        keys, start = min(_FIRST_GROUP, self._keys_max), 0
        while start < self._rows.num_rows:
            group = self._rows.slice(start, keys)
            begun = running_seconds()
            yield group
            start += group.num_rows
            if running_seconds() - begun > self._seconds:
                keys = max(min(_FIRST_GROUP, self._keys_max), keys // 2)
            else:
                keys = min(self._keys_max, keys * 2)
