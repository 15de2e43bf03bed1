"""Live manifests and chunks: read new manifests into the index, then write the live chunks as sorted sets of ids, and
count the live manifests of each chunk.

    part of the index ── live manifests ──> chunks ──> shard 0, shard 1, … by the first bits of an id   a task each

    clean        live manifests ──────────────────────────> a layer of counts for each task
    optimized    new manifests, and dropped manifests ────> layers of differences on the layers of the base

Counts come from the index alone, for new and for dropped manifests, and each manifest from one part of it. So an
optimized run subtracts exactly the counts that an earlier run added, even if the manifest's file has changed since.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.icechunk.collection.index import (
    ManifestIndex,
    manifest_rows,
    read_manifest_rows,
    write_manifest_rows,
)
from dredge.icechunk.collection.outputs import COUNTED, MarkOutput, chunk_set_name
from dredge.icechunk.collection.run import Base, Run
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin, waiting_function
from dredge.sets.hashes import Counted, Hashes, read_counted, split, unite, write_counted, write_hashes
from dredge.sets.live import CountedSet
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_BITS_MAX = 10
_REFS_PER_FILE = 1000
"""Reading a file costs as much as decoding so many references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsTask:
    """Name of the task's part of the index, and the number of references in each of its manifests."""

    index_part: str
    refs: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsResult:
    """The part of the index, and the MD5 of each manifest's bytes."""

    part: PartInfo
    digests: dict[str, str]


@partition_function
def read_manifests(run: WorkerRun, threads: int, task: ManifestsTask) -> ManifestsResult:
    """Read manifests, and write their chunks as a part of the index."""
    rows = []
    digests: dict[str, str] = {}
    for manifest, chunks in manifest_rows(run.open_store(), task.refs, threads, digests):
        rows.append((manifest, chunks))
        run.progress.add(len(chunks.native))
    part = write_manifest_rows(run.open_state(), task.index_part, rows)
    return ManifestsResult(part=part, digests=digests)


def index_manifests(
    run: Run, runner: TaskRunner, index: ManifestIndex, refs: Mapping[str, int], label: str
) -> dict[str, str]:
    """Read live manifests missing from the index; returns the MD5 of the bytes of each by id."""
    indexed = {manifest for ids in index.manifests_of.values() for manifest in ids}
    lacking = {manifest: count for manifest, count in refs.items() if manifest not in indexed}
    tuning = run.plan.config.tuning
    shares = equal_shares(lacking, tuning.refs_per_task, runner.default_parallelism)
    tasks = [
        ManifestsTask(index_part=f"{label}-manifests-{number:05d}", refs=share)
        for number, share in enumerate(shares)
    ]
    written = run.spread(runner, MarkOutput.STEP, read_manifests, tuning.threads, tasks, "references")
    parts = [(result.part, list(task.refs)) for result, task in zip(written, tasks, strict=True)]
    index.add(run.state, label, [], parts)
    return {manifest: digest for result in written for manifest, digest in result.digests.items()}


def equal_shares(refs: Mapping[str, int], refs_per_task: int, parallelism: int) -> list[dict[str, int]]:
    """Split manifests into shares of about equal work."""
    largest_first = sorted(refs, key=lambda manifest: (-refs[manifest], manifest))
    work = sum(refs.values()) + _REFS_PER_FILE * len(refs)
    shares = round_robin(largest_first, max(parallelism, -(-work // refs_per_task)))
    return [{manifest: refs[manifest] for manifest in share} for share in shares]


@dataclass(frozen=True, slots=True)
class LiveChunks:
    """The live chunks: a sorted set for each task and shard, shard bits, and manifests that the index lacked."""

    sets: list[PartInfo]
    bits: int
    manifests_read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksConfig:
    """Payload of all tasks: shard bits, and a JSON list with the ids of all live manifests."""

    bits: int
    manifests: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksTask:
    """A part of the index; the number is in the names of the task's sets."""

    number: int
    index_part: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksResult:
    """Sets of live chunks, the live manifests in them, and names of damaged parts of the index."""

    sets: list[PartInfo]
    manifests: list[str]
    damaged: list[str]


@waiting_function
def shard_chunks(run: WorkerRun, config: ChunksConfig, task: ChunksTask) -> ChunksResult:
    """Write the live chunks of a part of the index as sorted sets, a set for each shard."""
    try:
        rows = read_manifest_rows(run.open_state(), task.index_part)
    except FormatError:
        return ChunksResult(sets=[], manifests=[], damaged=[task.index_part.name])
    wanted = set(json.loads(run.folder.read_bytes(config.manifests)))
    live = [(manifest, chunks) for manifest, chunks in rows if manifest in wanted]
    written: list[PartInfo] = []
    for is_native in (True, False):
        pieces: list[list[Hashes]] = [[] for _ in range(1 << config.bits)]
        for _, chunks in live:
            found = chunks.native if is_native else chunks.virtual
            for shard, ids in enumerate(split(found, config.bits)):
                pieces[shard].append(ids)
        written += [
            write_hashes(run.folder, chunk_set_name(task.number, shard, is_native=is_native), ids)
            for shard, ids in enumerate(ordered_map(unite, pieces, os.cpu_count() or 1))
            if len(ids)
        ]
    run.progress.add(len(live))
    return ChunksResult(sets=written, manifests=[manifest for manifest, _ in live], damaged=[])


def find_live_chunks(
    run: Run, runner: TaskRunner, index: ManifestIndex, refs: Mapping[str, int]
) -> LiveChunks:
    """Read manifests missing from the index, then write the live chunks as sets."""
    names = json.dumps(sorted(refs)).encode()
    manifests = run.folder.write_bytes(f"{MarkOutput.STEP}/manifests.json", names, len(refs))
    config = ChunksConfig(bits=_bits(run, refs), manifests=manifests)
    read = 0
    for number in (2, 3):  # manifests of damaged parts of the index are read again, once
        read += len(index_manifests(run, runner, index, refs, f"{run.folder.label}-{number}"))
        results = run.spread(
            runner, MarkOutput.STEP, shard_chunks, config, _tasks(index, refs), "manifests", len(refs)
        )
        damaged = {name for result in results for name in result.damaged}
        if not damaged:
            _check_complete(run, results, refs)
            return LiveChunks([part for result in results for part in result.sets], config.bits, read)
        for name in damaged:
            log.warning("the index's part %s is damaged; its manifests are read again", name)
            index.drop(name)
    raise FormatError(
        f"{run.state.uri}: this run wrote parts of the index and cannot read them. Nothing was deleted."
    )


def _bits(run: Run, refs: Mapping[str, int]) -> int:
    bits = 0
    while bits < _BITS_MAX and sum(refs.values()) > run.plan.config.tuning.ids_per_shard << bits:
        bits += 1
    return bits


def _tasks(index: ManifestIndex, refs: Mapping[str, int]) -> list[ChunksTask]:
    used = sorted(name for name, ids in index.manifests_of.items() if not refs.keys().isdisjoint(ids))
    return [
        ChunksTask(number=number, index_part=index.manifest_parts[name]) for number, name in enumerate(used)
    ]


def _check_complete(run: Run, results: Sequence[ChunksResult], refs: Mapping[str, int]) -> None:
    found = {manifest for result in results for manifest in result.manifests}
    if found != refs.keys():
        raise FormatError(f"{run.plan.uri}: {len(refs.keys() - found)} live manifests were not read")


@dataclass(frozen=True, slots=True)
class Change:
    """Changes of the manifests since the base."""

    counted: CountedSet
    new: Mapping[str, str]  # live manifests without counts in the base, with their parts of the index
    dropped: frozenset[str]
    not_taken_away: (
        int  # dropped manifests that the index has lost: their chunks stay until the next clean run
    )
    read: Mapping[str, str]  # MD5 of the bytes of each manifest that this run read, by id
    virtual: Sequence[PartInfo]  # sets of the ids in locations of virtual chunks in the new manifests


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
    """A layer of counts of one part of the index; `damaged` names a damaged part, without counts."""

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
    folder = RunFolder(state, run.stores.run_id)
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
        virtual=write_hashes(
            run.folder,
            f"{MarkOutput.STEP}/_virtual/{config.label}-{task.number:05d}.ids",
            unite([named[name].virtual for name in added]),
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
        read |= index_manifests(run, runner, index, wanted, f"{run.folder.label}-{number}")
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
    folder = RunFolder(run.open_state(), run.stores.run_id)
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
