"""Looks for deleted objects, part by part of the ledger: they must be gone, and no living one may be among them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.verify.looks import choose, look_for, still_there
from dredge.runs import ledger
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function

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
