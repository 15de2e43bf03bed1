"""Verify: what was deleted is gone, and what lives is still there.

deleted   `verify_looks` of them, spread over all parts of the ledger, and every one of which the store first gave
          no clear answer, are looked for in the store
living    a new sample of what branches show, and some of what was staged: none of them may stand in the ledger as
          deleted (all are compared), and some are looked for in the store
"""

from __future__ import annotations

import logging
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import Canary, sample
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.state.base import base_of
from dredge.gc.subtract import SubtractOutput
from dredge.gc.verify.looks import Looked, choose, lacks, length_of_runs, look_for, still_there
from dredge.gc.verify.output import VerifyOutput
from dredge.runs import ledger
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner, round_robin

log = logging.getLogger("dredge")

VERIFY = "verify.json"
_STAGED_SAMPLE = 200
_LIVING_LOOKS = 200
"""Living objects that are looked for in the store where not all deleted ones are."""
_SAMPLES = 20


def verify(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Look for a sample of what was deleted, or all of it, and for a sample of what lives.

    Args:
        run: this run.
        runner: spreads the looks; None does it in this process.

    Raises:
        FormatError: something that was reported deleted is still there, or something that lives is gone.
    """
    return run.step(VerifyOutput, lambda record: _verify(run, runner or LocalRunner(), record))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyConfig:
    """What all tasks need; a payload.

    Attributes:
        threads: how many objects a task looks for at once.
        run_length: neighbouring deleted names that one page of a listing is likely to span.
        living: rows with the addresses of objects that live.
    """

    threads: int
    run_length: int
    living: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLooks:
    """How much of a part of the ledger is looked for; a payload.

    Attributes:
        part: of the ledger.
        looks: least number of deleted objects; None is all of them.
    """

    part: PartInfo
    looks: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask:
    """One task; a payload.

    Attributes:
        settled: parts of the ledger.
    """

    settled: list[PartLooks]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What a task found; a payload.

    Attributes:
        deleted: objects that the ledger says are gone.
        checked: those of them that it looked for.
        still_there: how many of these the store has.
        left: addresses of some of these.
        living_deleted: addresses of living objects that the ledger says were deleted.
    """

    deleted: int
    checked: int
    still_there: int
    left: list[str]
    living_deleted: list[str]


def _verify(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    parts = record.input(BulkDeleteOutput).settled
    living = sample(run, VerifyOutput.STEP) + _staged(run, record.input(MarkUncommittedOutput))
    results = _look_everywhere(run, runner, record, parts, living)
    left = [address for result in results for address in result.left]
    in_ledger = {address for result in results for address in result.living_deleted}
    looked_at = _to_look_at(run, living, in_ledger)
    missing = _missing(run, looked_at)
    ours = [canary for canary in missing if canary.address in in_ledger]
    record.counts.update(
        deleted_objects=sum(result.deleted for result in results),
        checked_objects=sum(result.checked for result in results),
        still_there_objects=sum(result.still_there for result in results),
        living_objects=len(living),
        living_objects_looked_at=len(looked_at),
        living_objects_missing=len(missing),
        living_objects_deleted=len(ours),
    )
    run.folder.publish_json(
        VERIFY,
        {
            **record.counts,
            "still_there": left[:_SAMPLES],
            "living_missing": [_words(canary) for canary in missing[:_SAMPLES]],
            "living_deleted": [_words(canary) for canary in ours[:_SAMPLES]],
        },
    )
    if ours:
        raise FormatError(
            f"run {run.plan.run_id} DELETED OBJECTS THAT LIVE: {len(ours)} of a sample of"
            f" {len(living)}, such as {_words(ours[0])}. Start no further run. Restore them (an older"
            f" version of the bucket, a backup; the ledger in {run.folder.uri} names every object) and"
            " report this."
        )
    if record.counts["still_there_objects"]:
        raise FormatError(
            f"{record.counts['still_there_objects']:,} objects were reported deleted and are still in the store,"
            f" such as {left[0]!r}. Nothing that lives was lost. Look at the store; then start a new run."
        )
    if missing:
        record.warn(
            f"{len(missing)} of {len(living)} sampled objects that branches show are not in the store, such"
            f" as {_words(missing[0])}; this run did not delete them"
        )


def _look_everywhere(
    run: Run, runner: TaskRunner, record: StepRecord, parts: list[PartInfo], living: list[Canary]
) -> list[VerifyResult]:
    rows, tuning = sum(part.rows for part in parts), run.plan.config.tuning
    listed, base = record.input(SubtractOutput).counts["listed_objects"], base_of(run)
    # An optimized run lists a part of the namespace only.
    objects = listed if base is None else max(listed, base.state.objects)
    config = VerifyConfig(
        threads=tuning.threads,
        run_length=length_of_runs(rows, objects),
        living=_write_living(run, living),
    )
    todo = [
        PartLooks(part=part, looks=_share(part.rows, rows, run.plan.config.verify_looks)) for part in parts
    ]
    tasks = [VerifyTask(settled=share) for share in round_robin(todo, run.num_tasks(runner, len(todo)))]
    return run.spread(runner, VerifyOutput.STEP, verify_parts, config, tasks, "objects", rows)


def _write_living(run: Run, living: list[Canary]) -> PartInfo:
    addresses = pa.array(sorted({canary.address for canary in living}), pa.string())
    return run.folder.write_table(VerifyOutput.STEP, 0, pa.table({"address": addresses}), "living")


def _share(rows: int, all_rows: int, looks: int | None) -> int | None:
    """How much is looked for in a part: each has its share, however small."""
    return None if looks is None else -(-looks * rows // max(1, all_rows))


@partition_function
def verify_parts(run: WorkerRun, config: VerifyConfig, task: VerifyTask) -> VerifyResult:
    """Look for deleted objects, and for living ones among them, in some parts of the ledger."""
    deleted = checked = still_there_count = 0
    left: list[str] = []
    living_deleted: list[str] = []
    living = run.folder.read_part(config.living)["address"].combine_chunks()
    for item in task.settled:
        rows = run.folder.read_part(item.part, ["address", "outcome", "message"])
        by_us = rows["address"].filter(pc.equal(rows["outcome"], ledger.DELETED))
        living_deleted.extend(by_us.filter(pc.is_in(by_us, living)).to_pylist())
        gone = rows.filter(pc.is_in(rows["outcome"], pa.array([ledger.DELETED, ledger.MISSING])))
        looked = _look_into(run, config, item, gone)
        deleted += gone.num_rows
        checked += looked.names
        still_there_count += len(looked.there)
        left.extend(looked.there[:_SAMPLES])
        run.progress.add(item.part.rows)
    return VerifyResult(
        deleted=deleted,
        checked=checked,
        still_there=still_there_count,
        left=left[:_SAMPLES],
        living_deleted=living_deleted,
    )


def _look_into(run: WorkerRun, config: VerifyConfig, item: PartLooks, gone: pa.Table) -> Looked:
    """Look for objects of a part that are gone: for all, or for some and those whose answer was not clear at first."""
    reader = run.open_store()
    if item.looks is None:
        found = still_there(reader, gone["address"].combine_chunks(), config.threads)
        return Looked(gone.num_rows, found)
    chance = random.Random(f"{run.folder.run_id}-{item.part.name}")
    unclear = pc.is_valid(gone["message"])
    runs = choose(gone.filter(unclear)["address"].to_pylist(), gone.num_rows, config.run_length, chance)
    clear = gone.filter(pc.invert(unclear))["address"].to_pylist()
    return look_for(reader, [*runs, *choose(clear, item.looks, config.run_length, chance)], config.threads)


def _to_look_at(run: Run, living: list[Canary], in_ledger: set[str]) -> list[Canary]:
    """Those of the living objects that are looked for: all that the ledger says were deleted, and some others."""
    if run.plan.config.verify_looks is None:
        return living
    found = [canary for canary in living if canary.address in in_ledger]
    others = [canary for canary in living if canary.address not in in_ledger]
    chance = random.Random(f"{run.plan.run_id}-living")
    return found + chance.sample(others, min(len(others), _LIVING_LOOKS))


def _staged(run: Run, staged: MarkUncommittedOutput) -> list[Canary]:
    """Some of the staged addresses of the mark: those that a re-check or a reset may have let go are told
    apart later."""
    found: list[Canary] = []
    parts = staged.addresses
    for part in parts:
        rows = run.folder.read_part(part)
        step = max(1, rows.num_rows * len(parts) // _STAGED_SAMPLE)
        found.extend(Canary(address, "", "") for address in rows["address"].to_pylist()[::step])
    return found[:_STAGED_SAMPLE]


def _missing(run: Run, living: list[Canary]) -> list[Canary]:
    with ThreadPoolExecutor(run.plan.config.tuning.threads, thread_name_prefix="stat") as pool:
        found = pool.map(lambda canary: lacks(run.reader, canary.address), living)
        return [canary for canary, lacking in zip(living, found, strict=True) if lacking]


def _words(canary: Canary) -> str:
    if not canary.branch:
        return f"{canary.address!r} (staged)"
    return f"{canary.address!r} ({canary.path!r} on {canary.branch})"
