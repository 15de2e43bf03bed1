"""Verify: what was deleted is gone, and what lives is still there.

deleted   `verify_looks` of them, spread over all parts of the ledger, and every one of which the store first gave
          no clear answer, are looked for in the store
living    a new sample of what branches show, and some of what was staged: none of them may stand in the ledger as
          deleted (all are compared), and some are looked for in the store
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched, groupby

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError, UnavailableError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import Canary, meant, sample
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.state.base import base_of
from dredge.gc.subtract import SubtractOutput
from dredge.runs import ledger
from dredge.runs.output import StepOutput
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner, round_robin
from dredge.storage import ObjectReader
from dredge.storage.neighbours import LOOKS_PER_PAGE, find_neighbours

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
        PartLooks(part=part, looks=_share(part.rows, rows, run.plan.config.verify_looks)) for part in parts
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


class VerifyOutput(StepOutput):
    """That what was deleted is gone, and what lives is still there."""

    STEP = "verify"
    INPUTS = (MarkUncommittedOutput, SubtractOutput, BulkDeleteOutput)


_STAGED_SAMPLE = 200
_LOOKS = 200
"""Living objects that must have been seen in the store where not all deleted ones are looked for."""


def take_living(run: Run, staged: MarkUncommittedOutput) -> list[Canary]:
    """Take living objects.

    Args:
        run: this run.
        staged: of its mark.
    """
    return sample(run, VerifyOutput.STEP) + _staged(run, staged)


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


def to_look_at(run: Run, living: list[Canary], doubtful: set[str], seen: set[str]) -> list[Canary]:
    """Choose the living objects to be looked for: all that are in doubt, and others until enough were seen.

    Args:
        run: this run.
        living: all of them.
        doubtful: addresses of those that the ledger says were deleted, or that a listing lacks.
        seen: addresses of those that a listing showed after the sweep.
    """
    if run.plan.config.verify_looks is None:
        return living
    found = [canary for canary in living if canary.address in doubtful]
    others = [canary for canary in living if canary.address not in doubtful | seen]
    chance = random.Random(f"{run.plan.run_id}-living")
    return found + chance.sample(others, min(len(others), max(0, _LOOKS - len(seen))))


def missing_of(run: Run, living: list[Canary]) -> list[Canary]:
    """Those of some living objects that the store does not have."""
    with ThreadPoolExecutor(run.plan.config.tuning.threads, thread_name_prefix="stat") as pool:
        found = pool.map(lambda canary: lacks(run.reader, canary.address), living)
        missing = [canary for canary, lacking in zip(living, found, strict=True) if lacking]
    # lakeFS words some keys decoded or without a query, and then another key is meant.
    return [canary for canary in missing if not meant(run, canary)]


def words_of(canary: Canary) -> str:
    """An object with the place where it lives, for people."""
    if not canary.branch:
        return f"{canary.address!r} (staged)"
    return f"{canary.address!r} ({canary.path!r} on {canary.branch})"


SAMPLES = 20
"""Addresses that a task names, and the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyConfig:
    """What all tasks need; a payload.

    Attributes:
        threads: how many objects a task looks for at once.
        run_length: neighbours among deleted and living names that one page of a listing is likely to span.
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
        living_seen: addresses of living objects that the store has.
        living_lacking: addresses of living objects that it does not list.
    """

    deleted: int
    checked: int
    still_there: int
    left: list[str]
    living_deleted: list[str]
    living_seen: list[str]
    living_lacking: list[str]


@dataclass(slots=True)
class _Found:
    """What looks for deleted objects gave.

    Attributes:
        checked: how many of them were looked for.
        there: those that the store has.
        seen: living objects beside them that it has.
        lacking: living objects beside them that it does not show.
    """

    checked: int
    there: list[str]
    seen: set[str] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)


@partition_function
def verify_parts(run: WorkerRun, config: VerifyConfig, task: VerifyTask) -> VerifyResult:
    """Look for deleted objects, and for living ones among them, in some parts of the ledger."""
    deleted = checked = still_there_count = 0
    left: list[str] = []
    living_deleted: list[str] = []
    seen: set[str] = set()
    lacking: set[str] = set()
    living = run.folder.read_part(config.living)["address"].combine_chunks()
    for item in task.settled:
        rows = run.folder.read_part(item.part, ["address", "outcome", "message"])
        by_us = rows["address"].filter(pc.equal(rows["outcome"], ledger.DELETED))
        living_deleted.extend(by_us.filter(pc.is_in(by_us, living)).to_pylist())
        gone = rows.filter(pc.is_in(rows["outcome"], pa.array([ledger.DELETED, ledger.MISSING])))
        found = _look_into(run, config, item, gone, living)
        deleted += gone.num_rows
        checked += found.checked
        still_there_count += len(found.there)
        left.extend(found.there[:SAMPLES])
        seen |= found.seen
        lacking |= found.lacking
        run.progress.add(item.part.rows)
    return VerifyResult(
        deleted=deleted,
        checked=checked,
        still_there=still_there_count,
        left=left[:SAMPLES],
        living_deleted=living_deleted,
        living_seen=sorted(seen),
        living_lacking=sorted(lacking),
    )


def _look_into(
    run: WorkerRun, config: VerifyConfig, item: PartLooks, gone: pa.Table, living: pa.Array
) -> _Found:
    """Look for objects of a part that are gone: for all, or for some and those whose answer was not clear at first."""
    reader = run.open_store()
    if item.looks is None:
        return _Found(gone.num_rows, still_there(reader, gone["address"].combine_chunks(), config.threads))
    chance = random.Random(f"{run.folder.run_id}-{item.part.name}")
    unclear = pc.is_valid(gone["message"])
    runs = choose(gone.filter(unclear)["address"].to_pylist(), gone.num_rows, config.run_length, chance)
    clear = gone.filter(pc.invert(unclear))["address"].to_pylist()
    beside = set(living.filter(pc.invert(pc.is_in(living, gone["address"]))).to_pylist())
    runs += choose(clear, item.looks, config.run_length, chance, beside)
    looked_for = {name for names in runs for name in names}
    there = set(look_for(reader, runs, config.threads).there)
    alive = looked_for & beside
    return _Found(len(looked_for - alive), sorted(there - alive), alive & there, alive - there)


_PAGE_NAMES = 900
"""Names that a run should span in the store: a little less than a page, because garbage is not spread evenly."""
_LISTED_MAX = 5 * _PAGE_NAMES
"""Objects that a run may list."""
_LOOKS_MIN = 200
_ONE_IN = 5
"""Of few deleted names one in so many is looked for: fifteen that were still there would be missed once in 28 runs."""
type Names = Sequence[str]


@dataclass(frozen=True, slots=True)
class Looked:
    """What looks gave.

    Attributes:
        names: how many names were looked for.
        there: those of them that the store has.
    """

    names: int
    there: list[str]


def length_of_runs(names: int, objects: int) -> int:
    """How many neighbours among some names one page of a listing is likely to span; 1 where looking them up costs less.

    Args:
        names: that somebody wants to know of, all over the namespace.
        objects: that were in the store before.
    """
    length = _PAGE_NAMES * names // max(objects, names, 1)
    return length if length >= LOOKS_PER_PAGE else 1


def looks_at(deleted: int, looks_max: int) -> int:
    """How many deleted names are looked for; all are when they are fewer.

    Args:
        deleted: how many there are.
        looks_max: how many at most.
    """
    return min(looks_max, max(_LOOKS_MIN, -(-deleted // _ONE_IN)))


def choose(
    names: Names, looks: int, length: int, chance: random.Random, beside: Iterable[str] = ()
) -> list[Names]:
    """Take runs of neighbours by chance until they have enough names together.

    Args:
        names: to choose from.
        looks: least number of names; when there are not so many, all are taken.
        length: of a run, at most. None goes from one folder into another: what a part of the ledger lacks between two
            folders may be most of the namespace, and would be listed.
        chance: makes the choice.
        beside: further names, which the same pages tell of: they are in the runs, and do not count.
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


def look_for(reader: ObjectReader, runs: Sequence[Names], threads: int) -> Looked:
    """Look for runs of names.

    Args:
        reader: on the namespace.
        runs: of names in the order of their bytes.
        threads: how many requests are made at once.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = list(pool.map(lambda names: _look(reader, names), runs))
    return Looked(sum(item.names for item in found), [name for item in found for name in item.there])


def lacks(reader: ObjectReader, address: str) -> bool:
    """Whether the store does not have an object; one that it will not describe is looked for in a listing."""
    try:
        reader.stat(address)
    except NotFoundError:
        return True
    except (ConfigError, UnavailableError):
        return not _listed(reader, DATA, [address])
    return False


def _look(reader: ObjectReader, names: Names) -> Looked:
    if len(names) < LOOKS_PER_PAGE or not reader.is_remote:
        return Looked(len(names), [name for name in names if not lacks(reader, name)])
    there: list[str] = []
    asked = listed = 0
    for stretch in find_neighbours(reader, DATA, names):
        there += stretch.found["key"].to_pylist()
        asked, listed = asked + len(stretch.names), listed + stretch.listed
        if listed > _LISTED_MAX:
            break  # garbage is rare here, so the others cost less one by one
    there += [name for name in names[asked:] if not lacks(reader, name)]
    return Looked(len(names), there)


def _listed(reader: ObjectReader, prefix: str, names: Names) -> list[str]:
    """Those of some names, in order, that a listing from the first to the last shows."""
    stretches = find_neighbours(reader, prefix, names)
    return [name for stretch in stretches for name in stretch.found["key"].to_pylist()]


def still_there(reader: ObjectReader, gone: pa.Array, threads: int) -> list[str]:
    """Those of some addresses that the store has, all of them looked for.

    Args:
        reader: on the namespace.
        gone: addresses.
        threads: how many requests are made at once.
    """
    names = sorted(set(gone.to_pylist()))
    if not reader.is_remote:
        runs = [names[first : first + 64] for first in range(0, len(names), 64)]
        return look_for(reader, runs, threads).there
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = pool.map(lambda folder: _in_folder(reader, *folder), _folders(names).items())
        return [address for hits in found for address in hits]


def _folders(names: Names) -> dict[str, list[str]]:
    """The names, by folder directly below `data/`; "" for those without a folder."""
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
