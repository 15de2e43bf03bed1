"""Verify: deleted objects no longer exist, and live objects still do.

deleted   a sample (`verify_sample_size`) from all files of the ledger, and each object with an unclear first answer
          of the store, is looked up
live      a new sample of canaries, and of staged addresses: none of them may be deleted in the ledger (all are
          compared), and some are looked up; an optimized run that deleted nothing takes no sample

The store confirmed each key, so a sample is enough. It consists of runs of neighbours: one page of a listing shows a
thousand names. The sweep deletes in random order, so neighbours were in different requests. The same pages show live
objects.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched, chain, groupby

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError, UnavailableError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import Canary, meant, sample
from dredge.gc.config import CLEAN
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.state import base_of
from dredge.gc.subtract import SubtractOutput
from dredge.lakefs import Ref
from dredge.runs import ledger
from dredge.runs.steps import Ahead, StepRecord
from dredge.runs.summary import PartInfo, StepOutput, StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner, WorkerRun, partition_function, round_robin
from dredge.storage import ObjectReader
from dredge.storage.lookup import LOOKS_PER_PAGE, LOOKUPS_A_THREAD, find_neighbours
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

VERIFY = "verify.json"


def verify(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Verify the deletions of a run.

    Raises:
        FormatError: a deleted object is still there, or a live object was deleted.
    """

    def read(inputs: Mapping[str, StepSummary]) -> list[Ref] | None:
        # What others deleted is found by clean runs.
        samples = BulkDeleteOutput.of(inputs[BulkDeleteOutput.STEP]).settled or run.plan.mode == CLEAN
        return run.client.branches(run.plan.repository) if samples else None

    ahead = Ahead(read)
    return run.step(
        VerifyOutput,
        lambda record: _verify(run, runner or LocalRunner(), record, ahead.result(record.inputs)),
        ahead=ahead,
    )


def _verify(run: Run, runner: TaskRunner, record: StepRecord, branches: list[Ref] | None) -> None:
    parts = record.input(BulkDeleteOutput).settled
    living, results = list[Canary](), list[VerifyResult]()
    if branches is not None:
        living = take_living(run, record.input(MarkUncommittedOutput), branches)
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
            f"{record.counts['still_there_objects']:,} objects were reported deleted and are still in the store,"
            f" such as {left[0]!r}. No live object was lost. Check the store; then start a new run."
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
    addresses = pa.array(sorted({canary.address for canary in living}), pa.string())
    config = VerifyConfig(
        threads=tuning.threads,
        run_length=length_of_runs(rows + len(living), objects),
        living=run.folder.write_table(VerifyOutput.STEP, 0, pa.table({"address": addresses}), "living"),
    )
    todo = [
        PartLooks(part=part, looks=_share(part.rows, rows, run.plan.config.verify_sample_size))
        for part in parts
    ]
    tasks = round_robin(todo, run.num_tasks(runner, len(todo)))
    found = run.spread(runner, VerifyOutput.STEP, verify_parts, config, tasks, "objects", rows)
    return list(chain.from_iterable(found))


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


def take_living(run: Run, staged: MarkUncommittedOutput, branches: Sequence[Ref]) -> list[Canary]:
    """Sample live objects: canaries, and staged addresses of the mark."""
    found: list[Canary] = []
    parts = staged.addresses
    for part in parts:
        rows = run.folder.read_part(part)
        step = max(1, rows.num_rows * len(parts) // _STAGED_SAMPLE)
        found.extend(Canary(address, "", "") for address in rows["address"].to_pylist()[::step])
    return sample(run, VerifyOutput.STEP, branches=branches) + found[:_STAGED_SAMPLE]


def to_look_at(run: Run, living: list[Canary], doubtful: set[str], seen: set[str]) -> list[Canary]:
    """Choose the live objects to look up: all doubtful ones (in the ledger as deleted, or missing in a listing), and
    others until enough were seen in listings."""
    if run.plan.config.verify_sample_size is None:
        return living
    found = [canary for canary in living if canary.address in doubtful]
    others = [canary for canary in living if canary.address not in doubtful | seen]
    chance = random.Random(f"{run.plan.run_id}-living")
    return found + chance.sample(others, min(len(others), max(0, _LOOKS - len(seen))))


def missing_of(run: Run, living: list[Canary]) -> list[Canary]:
    """The missing objects among some live objects."""
    at_once = run.plan.config.tuning.threads * LOOKUPS_A_THREAD
    found = ordered_map(lambda canary: lacks(run.reader, canary.address), living, at_once)
    missing = [canary for canary, lacking in zip(living, found, strict=True) if lacking]
    # lakeFS returns some keys decoded or without a query, and then means another key.
    return [canary for canary in missing if not meant(run, canary)]


def _words(canary: Canary) -> str:
    if not canary.branch:
        return f"{canary.address!r} (staged)"
    return f"{canary.address!r} ({canary.path!r} on {canary.branch})"


# Limit of addresses in a result, and in the report.
SAMPLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyConfig:
    """The config of the tasks; a payload."""

    threads: int
    run_length: int  # number of neighbours, deleted or live, for one page of a listing
    living: PartInfo  # rows with the addresses of live objects


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLooks:
    """A file of the ledger, and the least number of deleted objects to look up, None for all; a payload."""

    part: PartInfo
    looks: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """The result of a file of the ledger; a payload."""

    deleted: int  # number of objects deleted or missing in the ledger
    checked: int  # number of these looked up
    still_there: int  # number of these found in the store
    left: list[str]  # addresses of some of these
    living_deleted: list[str]  # addresses of live objects deleted in the ledger
    living_seen: list[str]  # addresses of live objects found in the store
    living_lacking: list[str]  # addresses of live objects missing in a listing


@partition_function
def verify_parts(run: WorkerRun, config: VerifyConfig, settled: list[PartLooks]) -> list[VerifyResult]:
    """Look up deleted objects of some files of the ledger, and live objects among them."""
    living = run.folder.read_part(config.living)["address"].combine_chunks()
    return [_verify_part(run, config, item, living) for item in settled]


def _verify_part(run: WorkerRun, config: VerifyConfig, item: PartLooks, living: pa.Array) -> VerifyResult:
    rows = run.folder.read_part(item.part, ["address", "outcome", "message"])
    by_us = rows["address"].filter(pc.equal(rows["outcome"], ledger.DELETED))
    gone = rows.filter(pc.is_in(rows["outcome"], pa.array([ledger.DELETED, ledger.MISSING])))
    checked, there, seen, lacking = _look_into(run, config, item, gone, living)
    run.progress.add(item.part.rows)
    return VerifyResult(
        deleted=gone.num_rows,
        checked=checked,
        still_there=len(there),
        left=there[:SAMPLES],
        living_deleted=by_us.filter(pc.is_in(by_us, living)).to_pylist(),
        living_seen=sorted(seen),
        living_lacking=sorted(lacking),
    )


def _look_into(
    run: WorkerRun, config: VerifyConfig, item: PartLooks, gone: pa.Table, living: pa.Array
) -> tuple[int, list[str], set[str], set[str]]:
    """Look up deleted objects of a file: all, or a sample and those with an unclear first answer. Returns the number
    looked up, and the addresses of those still there, of live objects seen, and of live objects missing."""
    reader = run.open_store()
    if item.looks is None:
        there = still_there(reader, gone["address"].combine_chunks(), config.threads)
        return gone.num_rows, there, set(), set()
    chance = random.Random(f"{run.folder.run_id}-{item.part.name}")
    unclear = pc.is_valid(gone["message"])
    runs = choose(gone.filter(unclear)["address"].to_pylist(), gone.num_rows, config.run_length, chance)
    clear = gone.filter(pc.invert(unclear))["address"].to_pylist()
    beside = set(living.filter(pc.invert(pc.is_in(living, gone["address"]))).to_pylist())
    runs += choose(clear, item.looks, config.run_length, chance, beside)
    looked_for = {name for names in runs for name in names}
    found = set(look_for(reader, runs, config.threads))
    alive = looked_for & beside
    return len(looked_for - alive), sorted(found - alive), alive & found, alive - found


# Names for one page: a little less than a page, because garbage is not spread evenly.
_PAGE_NAMES = 900
# Limit of objects listed for a run of names.
_LISTED_MAX = 5 * _PAGE_NAMES
_LOOKS_MIN = 200
# The sample of few deleted names: with fifteen of them still there, one in 28 runs would miss all.
_ONE_IN = 5
type Names = Sequence[str]


def length_of_runs(names: int, objects: int) -> int:
    """The number of neighbours for a page of a listing, of names spread over the namespace; 1 where single lookups
    cost less."""
    length = _PAGE_NAMES * names // max(objects, names, 1)
    return length if length >= LOOKS_PER_PAGE else 1


def looks_at(deleted: int, looks_max: int) -> int:
    """The size of the sample of deleted names."""
    return min(looks_max, max(_LOOKS_MIN, -(-deleted // _ONE_IN)))


def choose(
    names: Names, looks: int, length: int, chance: random.Random, beside: Iterable[str] = ()
) -> list[Names]:
    """Choose random runs of neighbours of at most `length` names, with at least `looks` names in all.

    A run stays in one folder: between two folders most of the namespace may be listed. Names `beside` are in the
    runs, and do not count.
    """
    wanted = set(names)
    together = sorted(wanted.union(beside))
    folders = (list(found) for _, found in groupby(together, lambda name: name.rpartition("/")[0]))
    runs: list[Names] = [
        run for folder in folders for run in batched(folder, length) if not wanted.isdisjoint(run)
    ]
    if looks < len(wanted):
        chance.shuffle(runs)
    chosen, count = list[Names](), 0
    for run in runs:
        if count >= looks:
            break
        chosen.append(run)
        count += len(wanted.intersection(run))
    return chosen


def look_for(reader: ObjectReader, runs: Sequence[Names], threads: int) -> list[str]:
    """Look up runs of names in byte order; returns those found."""
    at_once = threads if any(len(names) > 1 for names in runs) else threads * LOOKUPS_A_THREAD
    return list(chain.from_iterable(ordered_map(lambda names: _look(reader, names), runs, at_once)))


def lacks(reader: ObjectReader, address: str) -> bool:
    """Whether an object is missing; a listing shows objects refused by the store."""
    try:
        reader.stat(address)
    except NotFoundError:
        return True
    except (ConfigError, UnavailableError):
        return not _listed(reader, DATA, [address])
    return False


def _look(reader: ObjectReader, names: Names) -> list[str]:
    if len(names) < LOOKS_PER_PAGE or not reader.is_remote:
        return [name for name in names if not lacks(reader, name)]
    there: list[str] = []
    asked = listed = 0
    for stretch in find_neighbours(reader, DATA, names):
        there += stretch.found["key"].to_pylist()
        asked, listed = asked + len(stretch.names), listed + stretch.listed
        if listed > _LISTED_MAX:
            break  # garbage is rare here: single lookups cost less
    return there + [name for name in names[asked:] if not lacks(reader, name)]


def _listed(reader: ObjectReader, prefix: str, names: Names) -> list[str]:
    stretches = find_neighbours(reader, prefix, names)
    return [name for stretch in stretches for name in stretch.found["key"].to_pylist()]


def still_there(reader: ObjectReader, gone: pa.Array, threads: int) -> list[str]:
    """Look up all addresses; returns those found."""
    names = sorted(set(gone.to_pylist()))
    if not reader.is_remote:
        return look_for(reader, list(batched(names, 64)), threads)
    found = ordered_map(lambda folder: _in_folder(reader, *folder), [*_folders(names).items()], threads)
    return list(chain.from_iterable(found))


def _folders(names: Names) -> dict[str, list[str]]:
    """The names by folder directly below `data/`; "" for none."""
    folders: dict[str, list[str]] = {}
    for name in names:
        head, slash, _ = name.removeprefix(DATA).partition("/")
        folders.setdefault(f"{DATA}{head}/" if slash else "", []).append(name)
    return folders


def _in_folder(reader: ObjectReader, folder: str, names: Names) -> list[str]:
    if folder:
        return _listed(reader, folder, names)
    wanted = set(names)
    return [info.key for info in reader.list_level(DATA).objects if info.key in wanted]
