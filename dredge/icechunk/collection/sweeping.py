"""Sweep: look again, then delete the candidates kind by kind, and write down what became of each.

    look again → snapshots → transaction logs → manifests → chunks → old repo infos

What names something goes before what it names, and the next kind begins only when nothing of the last one
failed: whatever stops the sweep, no file is left that names a deleted one. This is the only module of
    Icechunk
collection that is handed a deleter.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import (
    DredgeError,
    FormatError,
    RefusedError,
    UnavailableError,
)
from dredge.icechunk.collection import guards, listing, marking, sets
from dredge.icechunk.collection.overwritten import KIND as OVERWRITTEN
from dredge.icechunk.collection.overwritten import needed_copies
from dredge.icechunk.collection.plan import Context
from dredge.icechunk.collection.recheck import look_again, newly_live, refuse_risen, watching
from dredge.icechunk.format.repo_info import OVERWRITTEN as OVERWRITTEN_FOLDER
from dredge.icechunk.ids import hashes_of_names
from dredge.icechunk.repository import read_repo_info
from dredge.runs import ledger
from dredge.runs.chain import PLAN, check_chain
from dredge.runs.defects import foreseen
from dredge.runs.folder import RunFolder
from dredge.runs.gate import Gate, GateConfig
from dredge.runs.partial import as_partial, not_deleted, partial_after
from dredge.runs.payload import from_json, to_json
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.report import duration_text
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner, round_robin
from dredge.storage import open_deleter, open_writer

log = logging.getLogger("dredge")

STEP = ledger.STEP
ORDER = (*listing.KINDS, OVERWRITTEN)
FOLDERS = {**listing.KINDS, OVERWRITTEN: OVERWRITTEN_FOLDER}
CHAIN = {
    marking.STEP: [PLAN],
    listing.STEP: [marking.STEP],
    guards.STEP: [marking.STEP, listing.STEP],
}
"""What each result must have been made from before anything is deleted for it."""
REASONS = dict.fromkeys(listing.KINDS, "unreachable") | {OVERWRITTEN: "overwritten"}
ALIVE_CODE = "alive_again"


def sweep(context: Context, runner: TaskRunner) -> StepSummary:
    """Look again, then delete the candidates; in a dry run only say what would go.

    Run again after an error, it goes on where the ledger ends and tries only what is not done.

    Raises:
        RefusedError: a guard did not pass, the results do not belong together, the mark is too old, or a
            doomed snapshot is in use again.
        LeaseHeldError: another run has taken over.
        UnavailableError: some objects could not be deleted; kinds after theirs were not begun.
        ConfigError: the credentials may not delete, and nothing was.
        PartialError: the credentials may not delete the rest.
    """
    return context.step_by_name(STEP, list(CHAIN), lambda record: _sweep(context, runner, record))


def _sweep(context: Context, runner: TaskRunner, record: StepRecord) -> None:
    guard, candidates = record.inputs[guards.STEP], record.inputs[listing.STEP]
    check_chain(context.folder, STEP, CHAIN, record.inputs)
    if context.plan.config.dry_run:
        record.status = "dry_run"
        record.counts["would_delete_objects"] = guard.counts["deletable_objects"]
        record.counts["would_delete_bytes"] = guard.counts["deletable_bytes"]
        return
    if guard.details["verdict"] != "passed":
        raise RefusedError(f"run {context.plan.run_id}: the guards did not pass. Nothing was deleted.")
    _check_age(context)
    parts = {kind: listing.candidate_parts(candidates, kind) for kind in ORDER}
    stopped: DredgeError | None = None
    try:
        with foreseen(f"the sweep of run {context.plan.run_id}", context.folder.uri):
            _delete(context, runner, record, parts)
    except DredgeError as error:
        stopped = error
    with partial_after(lambda: _what_went(record)):
        failed = _settle(context, record, parts)
    if stopped is None and failed:
        codes = {str(sample["code"]) for sample in record.details["failures"]}
        text = (
            f"run {context.plan.run_id}: {failed:,} objects could not be deleted ({', '.join(sorted(codes))}); kinds"
            " after theirs were not begun. What was deleted is in the ledger."
        )
        stopped = not_deleted(text, codes, record.counts["deleted_objects"])
    if stopped is not None:
        record.status, record.error = "partial", as_partial(stopped, _what_went(record))


def _what_went(record: StepRecord) -> str:
    """What the sweep deleted, as a sentence; "" when it deleted nothing."""
    deleted = record.counts.get("deleted_objects")
    if deleted is None:  # the ledger was not settled
        return "What was deleted is in the ledger." if "new_since_mark" in record.counts else ""
    return f"{deleted:,} objects were deleted; the ledger names them." if deleted else ""


def _check_age(context: Context) -> None:
    age = context.store_now() - context.plan.created_at
    age_max = timedelta(hours=context.plan.config.safety.mark_age_hours_max)
    if age > age_max:
        raise RefusedError(
            f"run {context.plan.run_id} was planned {duration_text(age)} ago; a mark older than"
            f" {duration_text(age_max)} is not swept. Nothing (more) was deleted. Start a new run."
        )


def _delete(
    context: Context, runner: TaskRunner, record: StepRecord, parts: dict[str, list[PartInfo]]
) -> None:
    plan = context.plan
    known = marking.known_snapshots(context, record.inputs[marking.STEP])
    keys = listing.candidate_keys(context.folder, record.inputs[listing.STEP], "snapshots")
    doomed = {key.removeprefix(listing.KINDS["snapshots"]) for key in keys}
    since = look_again(context.reader, plan.spec_version, known, doomed)
    refuse_risen(context, since)
    attempt = record.attempt.number
    alive = {
        kind: sets.write_ids(context.folder, f"{STEP}/_alive/{attempt:03d}-{kind}.ids", ids).to_json()
        for kind, ids in newly_live(context.reader, since).items()
    }
    record.counts["new_since_mark"] = len(since.new)
    # A name that no other driver has, also when a number comes again because its object was lost.
    watched = f"{STEP}/_watch/{attempt:03d}-{uuid.uuid4().hex[:8]}.json"
    config = {
        "lease": plan.lease.to_json(),
        "gate": to_json(
            GateConfig(
                lease=plan.lease,
                watch=watched,
                trusted_seconds=plan.config.safety.gate_every_seconds,
                silence_seconds_max=plan.config.safety.watch_silence_seconds_max,
            )
        ),
        "attempt": attempt,
        "delete_keys": plan.config.tuning.delete_keys,
        "alive": alive,
    }
    check_chain(context.folder, STEP, CHAIN, record.inputs)
    record.attempt.check()
    with watching(context, known | since.new, doomed, watched) as watch:
        for kind in ORDER:
            hands = round_robin([part.to_json() for part in parts[kind]], runner.default_parallelism)
            tasks = [
                {"name": f"{kind}-{number:04d}", "kind": kind, "parts": hand, **_needed(context, kind)}
                for number, hand in enumerate(hands)
            ]
            results = context.spread_json(runner, STEP, delete_parts, config, tasks, "objects")
            if any(result["stopped"] for result in results):
                raise watch.error or UnavailableError(
                    f"run {plan.run_id}: the sweep stopped, because nobody had looked at the refs for too long."
                    " What was deleted is in the ledger. Run the step again; it goes on where it stopped."
                )
            failed = sum(result["failed"] for result in results)
            if failed:
                log.warning("%d %s could not be deleted; the kinds after them are left alone", failed, kind)
                return


def _needed(context: Context, kind: str) -> Json:
    """Give the copies of the repo info that the log needs now; they may be others than at the mark."""
    if kind != OVERWRITTEN:
        return {}
    return {"needed": sorted(needed_copies(context.reader, read_repo_info(context.reader)))}


def delete_parts(config: Json, task: Json) -> Json:
    """Delete the candidates of some parts that are not alive again and not done. A partition function.

    Args:
        config: doors, the gate's settings, `attempt`, `delete_keys`, `alive` (sets by kind), `progress`.
        task: `name`, `kind`, `parts`, and `needed` names for old repo infos.

    Returns:
        `stopped`: whether the gate closed before everything was done; `failed`: objects that failed.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"])
    gate = Gate(folder, open_writer(config["state_uri"]), from_json(GateConfig, config["gate"]))
    deleter = open_deleter(config["uri"])
    fencing = config["lease"]["fencing"]
    failed = 0
    for part in map(PartInfo.from_json, task["parts"]):
        name = _stem(part)
        rows = _undone(folder, part, name, task["kind"])
        kept = pa.array(_alive(folder, config, task, rows))
        held = rows.filter(kept)
        if held.num_rows:
            codes = [ALIVE_CODE] * held.num_rows
            entries = ledger.rows_of(
                held, [ledger.KEPT] * held.num_rows, config["attempt"], fencing, code=codes
            )
            ledger.write_raw(folder, name, config["attempt"], 0, 0, entries)
        doomed = rows.filter(pc.invert(kept)).combine_chunks()
        for number, start in enumerate(range(0, doomed.num_rows, config["delete_keys"]), 1):
            if not gate.is_open():
                return {"stopped": True, "failed": failed}
            group = doomed.slice(start, config["delete_keys"])
            outcomes = deleter.delete(group["address"].to_pylist(), gate.lets_through)
            failed += sum(item.outcome == ledger.FAILED for item in outcomes)
            entries = ledger.outcome_rows(group, outcomes, config["attempt"], fencing)
            ledger.write_raw(folder, name, config["attempt"], 0, number, entries)
            progress.add(entries.num_rows)
            if gate.has_shut:
                gate.is_open()
                return {"stopped": True, "failed": failed}
    return {"stopped": False, "failed": failed}


def _undone(folder: RunFolder, part: PartInfo, name: str, kind: str) -> pa.Table:
    rows = folder.read_part(part)
    if not pc.all(pc.starts_with(rows["address"], FOLDERS[kind])).as_py():
        raise FormatError(f"{part.name} names an object outside {FOLDERS[kind]}. Nothing more was deleted.")
    done = ledger.finished(ledger.read_raw(folder, name))
    rows = rows.filter(pc.invert(pc.is_in(rows["address"], done)))
    return rows.append_column("reason", pa.array([REASONS[kind]] * rows.num_rows, pa.string()))


def _alive(folder: RunFolder, config: Json, task: Json, rows: pa.Table) -> Any:
    prefix = FOLDERS[task["kind"]]
    names = pc.utf8_slice_codeunits(rows["address"], len(prefix))
    if task["kind"] == OVERWRITTEN:
        return pc.is_in(names, pa.array(task["needed"], pa.string())).to_numpy()
    hashes, right = hashes_of_names(names)
    alive = sets.read_ids(folder, PartInfo.from_json(config["alive"][task["kind"]]))
    # A candidate that is no id cannot have come from the listing: it stays.
    return sets.contains(alive, hashes) | ~right if rows.num_rows else np.zeros(0, dtype=np.bool_)


def _settle(context: Context, record: StepRecord, parts: dict[str, list[PartInfo]]) -> int:
    """Write one row an object, and count; gives how many failed."""
    totals: Counter[str] = Counter()
    samples: list[Json] = []
    for kind in ORDER:
        for part in parts[kind]:
            rows = ledger.best(ledger.read_raw(context.folder, _stem(part)))
            record.parts.append(ledger.write_settled(context.folder, _stem(part), rows))
            for group in rows.group_by("outcome").aggregate([("size", "count"), ("size", "sum")]).to_pylist():
                totals[f"{kind}_{group['outcome']}_objects"] += group["size_count"]
                totals[f"{kind}_{group['outcome']}_bytes"] += group["size_sum"]
            wrong = rows.filter(pc.equal(rows["outcome"], ledger.FAILED)).select(
                ["address", "code", "message"]
            )
            samples += wrong.slice(0, max(0, 20 - len(samples))).to_pylist()
    record.counts.update(totals)
    for outcome in ledger.OUTCOMES:
        for unit in ("objects", "bytes"):
            record.counts[f"{outcome}_{unit}"] = sum(totals[f"{kind}_{outcome}_{unit}"] for kind in ORDER)
    if samples:
        record.details["failures"] = samples
    return record.counts["failed_objects"]


def _stem(part: PartInfo) -> str:
    return part.name.rpartition("/")[2].removesuffix(".parquet")


def settled_parts(summary: StepSummary) -> Sequence[PartInfo]:
    """Give the parts of the settled ledger."""
    return summary.parts_below(f"{STEP}/")
