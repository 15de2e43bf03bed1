"""Verify: deleted objects no longer exist, and live objects still do.

deleted   a sample (`verify_sample_size`) from all files of the ledger, and each object with an unclear first answer
          of the store, is looked up
live      a new, smaller sample of canaries, and of staged addresses: none of them may be deleted in the ledger (all
          are compared), and some are looked up; an optimized run that deleted nothing takes no sample

The store confirmed each key, so a sample is enough. It consists of runs of neighbours: one page of a listing shows a
thousand names. The sweep deletes in random order, so neighbours were in different requests.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import batched, chain

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import FormatError, UnavailableError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import Canary, Sizes, meant, sample
from dredge.gc.config import CLEAN
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.subtract import Refused, SubtractOutput, ask_store, by_folder
from dredge.runs import ledger
from dredge.runs.payload import PartInfo, StepOutput, StepSummary
from dredge.runs.run import Ahead, StepRecord
from dredge.runs.tasks import LocalRunner, TaskRunner, WorkerRun, partition_function
from dredge.storage import ObjectReader
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

VERIFY = "verify.json"
# A third of the branches is enough: the next mark compares all deletions with all that is live.
_SIZES = Sizes(part=3)


def verify(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Verify the deletions of a run. Raises FormatError: a deleted object still exists, or a live one was deleted."""

    def read(inputs: Mapping[str, StepSummary]) -> list[Canary] | None:
        # What others deleted is found by clean runs.
        if not BulkDeleteOutput.of(inputs[BulkDeleteOutput.STEP]).settled and run.plan.mode != CLEAN:
            return None
        return sample(run, VerifyOutput.STEP, _SIZES)

    ahead = Ahead(read)
    return run.step(
        VerifyOutput, lambda record: _verify(run, runner or LocalRunner(), record, ahead), ahead=ahead
    )


def _verify(run: Run, runner: TaskRunner, record: StepRecord, ahead: Ahead[list[Canary] | None]) -> None:
    parts = record.input(BulkDeleteOutput).settled
    with at_once() as ask:
        sampled = ask(ahead.result, record.inputs)
        results = _look_up_deleted(run, runner, parts)
    living, in_ledger = sampled.result(), set[str]()
    if living is not None:
        living = living + take_staged(run, record.input(MarkUncommittedOutput))
        in_ledger = _find_in_ledger(run, runner, parts, living)
    living = living or []
    left = [address for result in results for address in result.left]
    looked_at = choose_living(run, living, in_ledger)
    missing = missing_of(run, looked_at)
    ours = [canary for canary in missing if canary.address in in_ledger]
    record.counts.update(
        deleted_objects=sum(result.deleted for result in results),
        checked_objects=sum(result.checked for result in results),
        still_there_objects=sum(result.still_there for result in results),
        living_objects=len(living),
        living_objects_looked_at=len({canary.address for canary in looked_at}),
        living_objects_missing=len(missing),
        living_objects_deleted=len(ours),
    )
    run.folder.publish_json(
        VERIFY,
        {
            **record.counts,
            "still_there": left[:SAMPLES],
            "living_missing": [_words(canary) for canary in missing[:SAMPLES]],
            "living_deleted": [_words(canary) for canary in ours[:SAMPLES]],
        },
    )
    if ours:
        raise FormatError(
            f"run {run.plan.run_id} DELETED LIVE OBJECTS: {len(ours)} of a sample of {len(living)}, such as"
            f" {_words(ours[0])}. Start no further run. Restore them (an older version of the bucket, a backup; the"
            f" ledger in {run.folder.uri} has every object) and report this."
        )
    if record.counts["still_there_objects"]:
        raise FormatError(
            f"{record.counts['still_there_objects']:,} objects were reported deleted and are still in the store, such"
            f" as {left[0]!r}. No live object was lost. Check whether the store ignores deletions; then start a new"
            " run."
        )
    if missing:
        record.warn(
            f"{len(missing)} of {len(living)} sampled objects of branches are missing in the store, such as"
            f" {_words(missing[0])}; this run did not delete them"
        )


def _look_up_deleted(run: Run, runner: TaskRunner, parts: list[PartInfo]) -> list[VerifyResult]:
    rows = sum(part.rows for part in parts)
    todo = [
        PartLooks(part=part, looks=_share(part.rows, rows, run.plan.config.verify_sample_size))
        for part in parts
    ]
    tasks, threads = run.shares(runner, todo), run.plan.config.tuning.threads
    found = run.spread(runner, VerifyOutput.STEP, look_up_deleted, threads, tasks, "objects", rows)
    return list(chain.from_iterable(found))


def _find_in_ledger(run: Run, runner: TaskRunner, parts: list[PartInfo], living: list[Canary]) -> set[str]:
    """Find the addresses of live objects that the ledger has as deleted."""
    addresses = pa.array(sorted({canary.address for canary in living}), pa.string())
    table = run.folder.write_table(VerifyOutput.STEP, 0, pa.table({"address": addresses}), "living")
    tasks = run.shares(runner, parts)
    found = run.spread(runner, VerifyOutput.STEP, find_in_ledger, table, tasks, "objects")
    return set(chain.from_iterable(found))


def _share(rows: int, all_rows: int, looks_max: int | None) -> int | None:
    if looks_max is None:
        return None
    return -(-looks_at(all_rows, looks_max) * rows // max(1, all_rows))


class VerifyOutput(StepOutput):
    """The check of deleted and live objects."""

    STEP = "verify"
    INPUTS = (MarkUncommittedOutput, SubtractOutput, BulkDeleteOutput)


_STAGED_SAMPLE = 200
# Live objects to be found in the store, for a sample of deleted ones.
_LOOKS = 200


def take_staged(run: Run, staged: MarkUncommittedOutput) -> list[Canary]:
    """Sample staged addresses of the mark."""
    found: list[Canary] = []
    parts = staged.addresses
    for part in parts:
        rows = run.folder.read_part(part)
        step = max(1, rows.num_rows * len(parts) // _STAGED_SAMPLE)
        found.extend(Canary(address, "", "") for address in rows["address"].to_pylist()[::step])
    return found[:_STAGED_SAMPLE]


def choose_living(run: Run, living: list[Canary], doubtful: set[str]) -> list[Canary]:
    """Choose the live objects to look up: all doubtful ones (in the ledger as deleted), and a sample of the others."""
    if run.plan.config.verify_sample_size is None:
        return living
    found = [canary for canary in living if canary.address in doubtful]
    others = [canary for canary in living if canary.address not in doubtful]
    chance = random.Random(f"{run.plan.run_id}-living")
    return found + chance.sample(others, min(len(others), _LOOKS))


def missing_of(run: Run, living: list[Canary]) -> list[Canary]:
    """The missing objects among some live objects."""
    names = by_folder(sorted({canary.address for canary in living}))
    found = set(find_there(run.reader, names, run.plan.config.tuning.threads))
    # lakeFS returns some keys decoded or without a query, and then means another key.
    return [canary for canary in living if canary.address not in found and not meant(run, canary)]


def _words(canary: Canary) -> str:
    if not canary.branch:
        return f"{canary.address!r} (staged)"
    return f"{canary.address!r} ({canary.path!r} on {canary.branch})"


# Limit of addresses in a result, and in the report.
SAMPLES = 20


class PartLooks(Struct, frozen=True, kw_only=True):
    """A file of the ledger, and the least number of deleted objects to look up, None for all; a payload."""

    part: PartInfo
    looks: int | None


class VerifyResult(Struct, frozen=True, kw_only=True):
    """The result of a file of the ledger; a payload."""

    deleted: int  # number of objects deleted or missing in the ledger
    checked: int  # number of these looked up
    still_there: int  # number of these found in the store
    left: list[str]  # addresses of some of these


@partition_function
def look_up_deleted(run: WorkerRun, threads: int, settled: list[PartLooks]) -> list[VerifyResult]:
    """Look up deleted objects of some files of the ledger."""
    return [_look_up(run, threads, item) for item in settled]


def _look_up(run: WorkerRun, threads: int, item: PartLooks) -> VerifyResult:
    rows = run.folder.read_part(item.part, ["address", "outcome", "message"])
    gone = rows.filter(pc.is_in(rows["outcome"], pa.array([ledger.DELETED, ledger.MISSING])))
    names = _choose_names(run, item, gone)
    there = find_there(run.open_store(), names, threads)
    run.progress.add(item.part.rows)
    return VerifyResult(
        deleted=gone.num_rows,
        checked=sum(map(len, names)),
        still_there=len(there),
        left=there[:SAMPLES],
    )


@partition_function
def find_in_ledger(run: WorkerRun, living: PartInfo, settled: list[PartInfo]) -> list[str]:
    """Find the addresses of live objects that some files of the ledger have as deleted."""
    addresses = run.folder.read_part(living)["address"].combine_chunks()
    found: list[str] = []
    for part in settled:
        rows = run.folder.read_part(part, ["address", "outcome"])
        by_us = rows["address"].filter(pc.equal(rows["outcome"], ledger.DELETED))
        found += by_us.filter(pc.is_in(by_us, addresses)).to_pylist()
    return found


def _choose_names(run: WorkerRun, item: PartLooks, gone: pa.Table) -> Sequence[Names]:
    """Choose deleted objects of a file: all, or a sample and those with an unclear first answer."""
    if item.looks is None:
        return by_folder(sorted(set(gone["address"].to_pylist())))
    unclear = pc.is_valid(gone["message"])
    clear = gone.filter(pc.invert(unclear))["address"].to_pylist()
    chance = random.Random(f"{run.folder.run_id}-{item.part.name}")
    unclear_names = by_folder(sorted(gone.filter(unclear)["address"].to_pylist()))
    return [*unclear_names, *choose(clear, item.looks, chance)]


# Names for one page, which has a thousand: garbage is not spread evenly.
_NEIGHBOURS = 200
_LOOKS_MIN = 200
# The sample of few deleted names: with thirty of them still there, one in 24 runs would miss all. The next clean
# run lists them.
_ONE_IN = 10
type Names = Sequence[str]


def looks_at(deleted: int, looks_max: int) -> int:
    """The size of the sample of deleted names."""
    return min(looks_max, max(_LOOKS_MIN, -(-deleted // _ONE_IN)))


def choose(names: Iterable[str], looks: int, chance: random.Random, length: int = _NEIGHBOURS) -> list[Names]:
    """Choose random runs of neighbours of at most `length` names, with at least `looks` names in all. A run stays in
    one folder: between two folders most of the namespace may be listed."""
    runs: list[Names] = [run for folder in by_folder(sorted(set(names))) for run in batched(folder, length)]
    chance.shuffle(runs)
    chosen, count = list[Names](), 0
    for run in runs:
        if count >= looks:
            break
        chosen.append(run[: looks - count])
        count += len(run)
    return chosen


def find_there(reader: ObjectReader, names: Sequence[Names], threads: int) -> list[str]:
    """Look up groups of neighbours in byte order; return those found. Raises UnavailableError if the store refuses to
    describe and to list an object."""
    answers = ask_store(reader, names, threads, refused_min=1)
    for answer in answers.values():
        if isinstance(answer, Refused):
            raise UnavailableError(
                f"the store does not show whether {answer.key!r} is there: {answer.message}"
            )
    return [name for name in chain.from_iterable(names) if answers[name] is not None]
