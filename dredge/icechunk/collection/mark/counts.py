"""The number of live manifests of each chunk: counted by a clean run, updated by optimized runs.

    clean        live manifests ──────────────────────────> a layer of counts for each task
    optimized    new manifests, and dropped manifests ────> layers of differences on the layers of the base

Counts come from the index alone, for new and for dropped manifests, and each manifest from one part of it. So an
optimized run subtracts exactly the counts that an earlier run added, even if the manifest's file has changed since.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import ManifestIndex, read_manifest_rows
from dredge.icechunk.collection.mark.chunks import index_manifests
from dredge.icechunk.collection.outputs import COUNTED, MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state import Base, counts_folder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin, waiting_function
from dredge.sets.hashes import Counted, read_counted, write_counted
from dredge.sets.live import CountedSet

log = logging.getLogger("dredge")


@dataclass(frozen=True, slots=True)
class Change:
    """Changes of the manifests since the base.

    Attributes:
        counted: number of live manifests by chunk.
        new: live manifests without counts in the base, with their parts of the index.
        dropped: manifests with counts in the base that are not live any more.
        not_taken_away: dropped manifests that the index has lost: their chunks stay until the next clean run.
        read: MD5 of the bytes of each manifest that this run read, by id.
        virtual: sets of the ids in locations of virtual chunks in the new manifests.
    """

    counted: CountedSet
    new: Mapping[str, str]
    dropped: frozenset[str]
    not_taken_away: int
    read: Mapping[str, str]
    virtual: Sequence[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountConfig:
    """Payload of all tasks: shard bits, and the prefix of file names."""

    bits: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTask:
    """A part of the index, with its live and its dropped manifests."""

    number: int
    index_part: PartInfo
    added: list[str]
    dropped: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountResult:
    """A layer of counts of one part of the index.

    Attributes:
        damaged: names of damaged parts of the index, without counts.
        virtual: set of the ids in locations of virtual chunks in the added manifests; None without counts.
    """

    index_part: str
    parts: list[PartInfo]
    added: list[str]
    dropped: list[str]
    damaged: list[str]
    virtual: PartInfo | None = None


@waiting_function
def count_chunks(run: WorkerRun, config: CountConfig, task: CountTask) -> CountResult:
    """Count the manifests of each chunk in a part of the index."""
    state, name = run.open_state(), task.index_part.name
    try:
        named = dict(read_manifest_rows(state, task.index_part))
    except FormatError:
        return CountResult(index_part=name, parts=[], added=[], dropped=[], damaged=[name])
    rows = {name: chunks.all for name, chunks in named.items()}
    added = [name for name in task.added if name in rows]
    dropped = [name for name in task.dropped if name in rows]
    total = Counted.sum(
        [Counted.of([rows[name] for name in added]), Counted.of([rows[name] for name in dropped], -1)]
    )
    folder = counts_folder(state, run.stores.run_id)
    parts = [
        write_counted(folder, f"{COUNTED}/{config.label}-{task.number:05d}-{shard:04d}.counts", counted)
        for shard, counted in enumerate(total.split(config.bits))
        if len(counted.hashes)
    ]
    run.progress.add(len(added) + len(dropped))
    return CountResult(
        index_part=name,
        parts=parts,
        added=added,
        dropped=dropped,
        damaged=[],
        virtual=sets.write_ids(
            run.folder,
            f"{MarkOutput.STEP}/_virtual/{config.label}-{task.number:05d}.ids",
            sets.unite([named[name].virtual for name in added]),
        ),
    )


def count_live(
    run: Run, runner: TaskRunner, index: ManifestIndex, refs: Mapping[str, int], bits: int
) -> CountedSet:
    """Count the live manifests of each chunk."""
    results = _count(run, runner, index, refs.keys(), (), CountConfig(bits=bits, label=run.folder.label))
    if {name for result in results for name in result.added} != refs.keys():
        raise FormatError(
            f"{run.state.uri}: a part of the index cannot be read a second time. Nothing was deleted."
            " Start a new run."
        )
    return _with_layers(CountedSet(bits, ()), results)


def count_change(
    run: Run, runner: TaskRunner, index: ManifestIndex, base: Base, refs: Mapping[str, int]
) -> Change:
    """Update the counts of an earlier run."""
    before = {manifest for row in base.rows.values() for manifest in row.manifests}
    new, dropped = refs.keys() - before, before - refs.keys()
    wanted = {manifest: refs[manifest] for manifest in new}
    read: dict[str, str] = {}
    for number in (2, 3):  # manifests of damaged parts of the index are read again, once
        read |= index_manifests(run, runner, index, wanted, f"{run.folder.label}-{number}", digests=True)
        config = CountConfig(bits=base.state.counted.bits, label=f"{run.folder.label}-{number}")
        results = _count(run, runner, index, new, dropped, config)
        damaged = {name for result in results for name in result.damaged}
        for name in damaged:
            log.warning("the index's part %s is damaged; its manifests are read again", name)
            index.drop(name)
        if not damaged:
            break
    counted_from = {name: result.index_part for result in results for name in result.added}
    if missing := new - counted_from.keys():
        raise FormatError(f"{run.plan.uri}: {len(missing)} live manifests were not read")
    taken_away = {name for result in results for name in result.dropped}
    counted = _with_layers(base.state.counted, results)
    if len(counted.layers) > run.plan.config.tuning.counted_layers_max:
        counted = _united(run, runner, counted)
    virtual = [result.virtual for result in results if result.virtual is not None]
    return Change(counted, counted_from, frozenset(dropped), len(dropped - taken_away), read, virtual)


def _count(
    run: Run,
    runner: TaskRunner,
    index: ManifestIndex,
    added: Collection[str],
    dropped: Collection[str],
    config: CountConfig,
) -> list[CountResult]:
    tasks: list[CountTask] = []
    left, gone = set(added), set(dropped)
    for name in sorted(index.manifests_of):  # each manifest from one part: no double counts
        ids = index.manifests_of[name]
        here, away = sorted(left.intersection(ids)), sorted(gone.intersection(ids))
        left.difference_update(here)
        gone.difference_update(away)
        if here or away:
            part = index.manifest_parts[name]
            tasks.append(CountTask(number=len(tasks), index_part=part, added=here, dropped=away))
    total = len(added) + len(dropped)
    return run.spread(runner, MarkOutput.STEP, count_chunks, config, tasks, "manifests", total)


def _with_layers(counted: CountedSet, results: Sequence[CountResult]) -> CountedSet:
    for result in results:
        if result.parts:
            counted = counted.then(result.parts)
    return counted


@dataclass(frozen=True, slots=True, kw_only=True)
class UniteConfig:
    """Payload of all tasks: the layers, and the prefix of file names."""

    counted: CountedSet
    label: str


@partition_function
def unite_layers(run: WorkerRun, config: UniteConfig, shards: list[int]) -> list[PartInfo]:
    """Unite several layers of counts."""
    folder = counts_folder(run.open_state(), run.stores.run_id)
    parts = []
    for shard in shards:
        layers = [layer[shard] for layer in config.counted.layers if shard in layer]
        total = Counted.sum([read_counted(folder, part) for part in layers])
        if bool((total.counts < 0).any()):
            raise FormatError(
                f"shard {shard} of the reference counts has chunks with a negative count. Nothing was deleted."
                " Start a clean run."
            )
        if len(total.hashes):
            name = f"{COUNTED}/{config.label}-united-{shard:04d}.counts"
            parts.append(write_counted(folder, name, total))
    return parts


def _united(run: Run, runner: TaskRunner, counted: CountedSet) -> CountedSet:
    shards = list(range(1 << counted.bits))
    tasks = round_robin(shards, run.num_tasks(runner, len(shards)))
    config = UniteConfig(counted=counted, label=run.folder.label)
    results = run.spread(runner, MarkOutput.STEP, unite_layers, config, tasks, "shards", len(shards))
    return CountedSet.of([part for parts in results for part in parts], counted.bits)
