"""Step verify: check the absence of deleted objects and the presence of live ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.check_limits import split_canaries
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.outputs import BulkDeleteOutput, CheckLimitsOutput, MarkOutput, VerifyOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.ids import hashes_of_names
from dredge.runs import ledger
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.storage import exists
from dredge.storage.parallel import at_once, ordered_map

SAMPLE = 200
_AT_ONCE = 64


def verify(run: Run) -> StepSummary:
    """Check a sample of deleted objects, all live snapshots and manifests, and chunks of all refs."""
    return run.step(VerifyOutput, lambda record: _verify(run, record))


def _verify(run: Run, record: StepRecord) -> None:
    with at_once() as ask:
        looks = [
            ask(lambda: [*_lost(run, record, "snapshots")]),
            ask(lambda: [*_lost(run, record, "manifests")]),
            ask(lambda: [*_lost_canaries(run, record)]),
            ask(lambda: [*_still_there(run, record)]),
        ]
    problems = [problem for look in looks for problem in look.result()]
    if problems:
        record.status = "partial"
        record.error = FormatError(
            f"run {run.plan.run_id}: {'; '.join(problems)}. Read the ledger of {run.folder.uri} before the"
            " next deletion."
        )


def _lost(run: Run, record: StepRecord, kind: str) -> Iterator[str]:
    live = sets.read_ids(run.folder, record.input(MarkOutput).live(kind))
    prefix = OBJECT_FOLDERS[kind]
    listed = [
        hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(prefix)))[0]
        for batch in run.reader.list(prefix)
    ]
    record.counts[f"live_{kind}"] = len(live)
    if absent := int((~sets.contains(sets.unite(listed), live)).sum()):
        yield f"{absent} live {kind} are not in the store"


def _lost_canaries(run: Run, record: StepRecord) -> Iterator[str]:
    sample = record.input(CheckLimitsOutput).read_canaries(run.folder)
    _, gone = split_canaries(run, sample)
    record.counts["canaries"] = len(sample)
    if gone:
        yield f"{len(gone)} objects that refs need have disappeared since the guards' check, such as {gone[0]}"


def _still_there(run: Run, record: StepRecord) -> Iterator[str]:
    rng = random.Random(run.plan.run_id)
    keys: list[str] = []
    for table in run.folder.read_parts(record.input(BulkDeleteOutput).settled):
        deleted = table.filter(pc.equal(table["outcome"], ledger.DELETED))["address"].to_pylist()
        keys += rng.sample(deleted, min(SAMPLE, len(deleted)))
    keys = rng.sample(keys, min(SAMPLE, len(keys)))
    record.counts["deleted_sample"] = len(keys)
    there = ordered_map(lambda key: exists(run.reader, key), keys, _AT_ONCE)
    left = [key for key, is_there in zip(keys, there, strict=True) if is_there]
    if left:
        yield f"{len(left)} deleted objects are still there, such as {left[0]}"
