"""Verify: what was deleted is gone, and what lives is there."""

from __future__ import annotations

import json
import random

import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection import canaries, guards, listing, marking, sets, sweeping
from dredge.icechunk.collection.plan import Context
from dredge.icechunk.ids import hashes_of_names
from dredge.runs import ledger
from dredge.runs.perform import StepRecord
from dredge.runs.summary import StepSummary

STEP = "verify"
SAMPLE = 200


def verify(context: Context) -> StepSummary:
    """Look at a sample of what was deleted, at every live snapshot and manifest, and at chunks of every ref.

    Raises:
        FormatError: something live is not in the store. It says what; the ledger says whether this run
            deleted it.
    """
    inputs = [marking.STEP, guards.STEP, sweeping.STEP]
    return context.step_by_name(STEP, inputs, lambda record: _verify(context, record))


def _verify(context: Context, record: StepRecord) -> None:
    problems: list[str] = []
    mark = record.inputs[marking.STEP]
    for kind in ("snapshots", "manifests"):
        live = sets.read_ids(context.folder, mark.part(f"{marking.STEP}/{kind}.ids"))
        prefix = listing.KINDS[kind]
        seen = [
            hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(prefix)))[0]
            for batch in context.reader.list(prefix)
        ]
        absent = int((~sets.contains(sets.unite(seen), live)).sum())
        record.counts[f"live_{kind}"] = len(live)
        if absent:
            problems.append(f"{absent} live {kind} are not in the store")
    part = record.inputs[guards.STEP].part(f"{guards.STEP}/{guards.CANARIES}")
    birds: list[str] = json.loads(context.folder.read_bytes(part))
    _, dead = canaries.split(context, birds)
    record.counts["canaries"] = len(birds)
    if dead:
        problems.append(
            f"{len(dead)} objects that refs need are gone since the guards looked, such as {dead[0]}"
        )
    record.counts["deleted_sample"] = _check_deleted(context, record, problems)
    if problems:
        record.status = "partial"
        record.error = FormatError(
            f"run {context.plan.run_id}: {'; '.join(problems)}. Look into the ledger of"
            f" {context.folder.uri} before anything else is deleted."
        )


def _check_deleted(context: Context, record: StepRecord, problems: list[str]) -> int:
    rng = random.Random(context.plan.run_id)
    keys: list[str] = []
    for table in context.folder.read_parts(sweeping.settled_parts(record.inputs[sweeping.STEP])):
        gone = table.filter(pc.equal(table["outcome"], ledger.DELETED))["address"].to_pylist()
        keys += rng.sample(gone, min(SAMPLE, len(gone)))
    keys = rng.sample(keys, min(SAMPLE, len(keys)))
    still = [key for key in keys if _is_there(context, key)]
    if still:
        problems.append(f"{len(still)} deleted objects are still there, such as {still[0]}")
    return len(keys)


def _is_there(context: Context, key: str) -> bool:
    try:
        context.reader.stat(key)
    except NotFoundError:
        return False
    return True
