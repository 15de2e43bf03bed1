"""The second round of collecting: tasks merge what those of the first found, shard by shard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dredge.gc.list_committed.output import COUNTED, COUNTS, LIVE
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.hashes import (
    Counted,
    Hashes,
    read_counted,
    read_hashes,
    split,
    unite,
    write_counted,
    write_hashes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConfig:
    """What all tasks need.

    Attributes:
        where: folder of the files, in the run folder.
        bits: there are 2**bits shards.
        is_difference: counts are a layer on an earlier run's, and by themselves say nothing of what is live.
        keep_counts: write counts that a later run can build on, beside the committed index.
        count_here: write counts for this run alone, into its own folder.
    """

    where: str
    bits: int
    is_difference: bool
    keep_counts: bool
    count_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What is to be merged into one file.

    Attributes:
        kind: of the files.
        shard: its number.
        parts: files of that shard.
        whole: files of which only that shard counts.
    """

    kind: str
    shard: int
    parts: list[PartInfo]
    whole: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """One task."""

    merges: list[Merge]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What a task wrote.

    Attributes:
        sets: files by kind, in the run folder.
        counted: files of counts, beside the committed index or in the run folder.
    """

    sets: dict[str, list[PartInfo]]
    counted: list[PartInfo]


@partition_function
def merge_shards(run: WorkerRun, config: MergeConfig, task: MergeTask) -> MergeResult:
    """Merge the files of some shards."""
    sets: dict[str, list[PartInfo]] = {}
    counted: list[PartInfo] = []
    for merge in task.merges:
        kind = merge.kind
        if kind == COUNTS:
            kind, found = LIVE, _merge_counts(run, config, merge, counted)
        else:
            found = unite([read_hashes(run.folder, part) for part in merge.parts])
        name = f"{config.where}/{kind}-{merge.shard:04d}.u64"
        sets.setdefault(kind, []).append(write_hashes(run.folder, name, found))
    return MergeResult(sets=sets, counted=counted)


def _merge_counts(run: WorkerRun, config: MergeConfig, merge: Merge, counted: list[PartInfo]) -> Hashes:
    """Sum counts up, and write them where they are wanted; gives the hashes that are live."""
    total = Counted.sum([read_counted(run.folder, part) for part in merge.parts])
    counted.extend(_write_counts(run, config, merge.shard, total))
    live = [] if config.is_difference else [total.hashes[total.counts > 0]]
    for part in merge.whole:
        live.append(split(read_hashes(run.folder, part), config.bits)[merge.shard])
    return unite(live)


def _write_counts(run: WorkerRun, config: MergeConfig, shard: int, total: Counted) -> Iterable[PartInfo]:
    if not len(total.hashes):
        return
    if config.count_here:
        yield write_counted(run.folder, f"{config.where}/{COUNTS}-{shard:04d}.counts", total)
    elif config.keep_counts:
        state = RunFolder(run.open_state(), run.stores.run_id)
        label = f"{run.folder.label}-{config.where.replace('/', '-')}"
        yield write_counted(state, f"{COUNTED}/{label}-{shard:04d}.counts", total)
