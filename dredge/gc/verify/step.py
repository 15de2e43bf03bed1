"""Verify: what was deleted is gone, and what lives is still there.

deleted   `verify_sample_size` of them, spread over all parts of the ledger, and every one of which the store first gave
          no clear answer, are looked for in the store
living    a new sample of what branches show, and some of what was staged: none of them may stand in the ledger as
          deleted (all are compared), and some are looked for in the store
"""

from __future__ import annotations

import logging

import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import Canary
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.state import base_of
from dredge.gc.subtract import SubtractOutput
from dredge.gc.verify.deleted import SAMPLES, PartLooks, VerifyConfig, VerifyResult, VerifyTask, verify_parts
from dredge.gc.verify.living import missing_of, take_living, to_look_at, words_of
from dredge.gc.verify.looks import length_of_runs, looks_at
from dredge.gc.verify.output import VerifyOutput
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner, round_robin

log = logging.getLogger("dredge")

VERIFY = "verify.json"


def verify(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Look for a sample of what was deleted, or all of it, and for a sample of what lives.

    Args:
        run: this run.
        runner: spreads the looks; None does it in this process.

    Raises:
        FormatError: something that was reported deleted is still there, or something that lives is gone.
    """
    return run.step(VerifyOutput, lambda record: _verify(run, runner or LocalRunner(), record))


def _verify(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    parts = record.input(BulkDeleteOutput).settled
    living = take_living(run, record.input(MarkUncommittedOutput))
    results = _look_everywhere(run, runner, record, parts, living)
    left = [address for result in results for address in result.left]
    in_ledger = {address for result in results for address in result.living_deleted}
    seen = {address for result in results for address in result.living_seen} - in_ledger
    lacking = {address for result in results for address in result.living_lacking}
    looked_at = to_look_at(run, living, in_ledger | lacking, seen - lacking)
    missing = missing_of(run, looked_at)
    ours = [canary for canary in missing if canary.address in in_ledger]
    record.counts.update(
        deleted_objects=sum(result.deleted for result in results),
        checked_objects=sum(result.checked for result in results),
        still_there_objects=sum(result.still_there for result in results),
        living_objects=len(living),
        living_objects_looked_at=len({canary.address for canary in looked_at} | seen),
        living_objects_missing=len(missing),
        living_objects_deleted=len(ours),
    )
    run.folder.publish_json(
        VERIFY,
        {
            **record.counts,
            "still_there": left[:SAMPLES],
            "living_missing": [words_of(canary) for canary in missing[:SAMPLES]],
            "living_deleted": [words_of(canary) for canary in ours[:SAMPLES]],
        },
    )
    if ours:
        raise FormatError(
            f"run {run.plan.run_id} DELETED OBJECTS THAT LIVE: {len(ours)} of a sample of"
            f" {len(living)}, such as {words_of(ours[0])}. Start no further run. Restore them (an older"
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
            f" as {words_of(missing[0])}; this run did not delete them"
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
        run_length=length_of_runs(rows + len(living), objects),
        living=_write_living(run, living),
    )
    todo = [
        PartLooks(part=part, looks=_share(part.rows, rows, run.plan.config.verify_sample_size))
        for part in parts
    ]
    tasks = [VerifyTask(settled=share) for share in round_robin(todo, run.num_tasks(runner, len(todo)))]
    return run.spread(runner, VerifyOutput.STEP, verify_parts, config, tasks, "objects", rows)


def _write_living(run: Run, living: list[Canary]) -> PartInfo:
    addresses = pa.array(sorted({canary.address for canary in living}), pa.string())
    return run.folder.write_table(VerifyOutput.STEP, 0, pa.table({"address": addresses}), "living")


def _share(rows: int, all_rows: int, looks_max: int | None) -> int | None:
    """How much is looked for in a part: each has its share, however small."""
    if looks_max is None:
        return None
    return -(-looks_at(all_rows, looks_max) * rows // max(1, all_rows))
