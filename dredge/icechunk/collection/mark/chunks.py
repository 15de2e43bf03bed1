"""Live manifests and chunks: read new manifests into the index, then write the live chunks as sorted sets of ids, and
count the live manifests of each chunk.

    part of the index ── live manifests ──> chunks ──> shard 0, shard 1, … by the first bits of an id   a task each

    clean        live manifests ──────────────────────────> sets of chunks, and a layer of counts for each task
    optimized    new manifests, and dropped manifests ────> layers of differences on the layers of the base

Counts come from the index alone, for new and for dropped manifests, and each manifest from one part of it. So an
optimized run subtracts exactly the counts that an earlier run added, even if the manifest's file has changed since.
"""

import logging
import os
from collections.abc import Collection, Mapping

from msgspec import Struct, field

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
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin, waiting_function
from dredge.sets.hashes import Counted, Hashes, read_counted, split, unite, write_counted, write_hashes
from dredge.sets.live import CountedSet
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_BITS_MAX = 10
_REFS_PER_FILE = 1000
"""Cost of reading a file, in decoded references."""


@partition_function
def read_manifests(
    run: WorkerRun, _: None, task: tuple[str, dict[str, int]]
) -> tuple[PartInfo, dict[str, str]]:
    """Read manifests (given with their numbers of references) and write their chunks as a part of the index named
    `name`; returns the part, and the MD5 of each manifest's bytes."""
    name, refs = task
    rows = []
    digests: dict[str, str] = {}
    for manifest, chunks in manifest_rows(run.open_store(), refs, digests):
        rows.append((manifest, chunks))
        run.progress.add(len(chunks.native))
    return write_manifest_rows(run.open_state(), name, rows), digests


def index_manifests(
    run: Run, runner: TaskRunner, index: ManifestIndex, refs: Mapping[str, int], label: str
) -> dict[str, str]:
    """Read live manifests missing from the index; returns the MD5 of the bytes of each by id."""
    indexed = {manifest for ids in index.manifests_of.values() for manifest in ids}
    lacking = {manifest: count for manifest, count in refs.items() if manifest not in indexed}
    shares = equal_shares(lacking, run.plan.config.tuning.refs_per_task, runner.default_parallelism)
    tasks = [(f"{label}-manifests-{number:05d}", share) for number, share in enumerate(shares)]
    written = run.spread(runner, MarkOutput.STEP, read_manifests, None, tasks, "references")
    parts = [(part, list(share)) for (part, _), share in zip(written, shares, strict=True)]
    index.add(run.state, label, [], parts)
    return {manifest: digest for _, digests in written for manifest, digest in digests.items()}


def equal_shares(refs: Mapping[str, int], refs_per_task: int, parallelism: int) -> list[dict[str, int]]:
    """Split manifests into shares of about equal work."""
    largest_first = sorted(refs, key=lambda manifest: (-refs[manifest], manifest))
    work = sum(refs.values()) + _REFS_PER_FILE * len(refs)
    shares = round_robin(largest_first, max(parallelism, -(-work // refs_per_task)))
    return [{manifest: refs[manifest] for manifest in share} for share in shares]


class Chunks(Struct, frozen=True):
    """The chunks of the live manifests; in an optimized run, the changes since the base."""

    bits: int  # the first so many bits of an id are its shard
    counted: CountedSet | None  # number of live manifests by chunk; None without counts
    sets: list[PartInfo]  # sets of virtual chunks of the new manifests, in a clean run also of native ones
    new: Mapping[str, str]  # live manifests without counts in the base, with their parts of the index
    dropped: frozenset[str]
    not_taken_away: int  # dropped ones that the index has lost: their chunks stay until the next clean run
    read: Mapping[str, str]  # MD5 of the bytes of each manifest that this run read, by id


class CountConfig(Struct, frozen=True, kw_only=True):
    """Payload of all tasks: shard bits, prefix of file names, and whether tasks write counts and sets of native
    chunks."""

    bits: int
    label: str
    counts: bool
    native: bool


class CountTask(Struct, frozen=True, kw_only=True):
    """A part of the index, with its new and its dropped manifests; the number is in the names of the task's files."""

    number: int
    index_part: PartInfo
    added: list[str]
    dropped: list[str]


class CountResult(Struct, frozen=True, kw_only=True):
    """A layer of counts and sets of chunks of one part of the index; `is_damaged` for an unreadable part."""

    index_part: str
    counts: list[PartInfo] = field(default_factory=list)
    sets: list[PartInfo] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    is_damaged: bool = False


@waiting_function
def count_chunks(run: WorkerRun, config: CountConfig, task: CountTask) -> CountResult:
    """Write the chunks of a part of the index as sorted sets, a set for each shard, and count their manifests."""
    state, name = run.open_state(), task.index_part.name
    try:
        named = dict(read_manifest_rows(state, task.index_part))
    except FormatError:
        return CountResult(index_part=name, is_damaged=True)
    added, dropped = ([name for name in names if name in named] for names in (task.added, task.dropped))
    sets: list[PartInfo] = []
    for is_native in (True, False) if config.native else (False,):
        pieces: list[list[Hashes]] = [[] for _ in range(1 << config.bits)]
        for manifest in added:
            found = named[manifest].native if is_native else named[manifest].virtual
            for shard, ids in enumerate(split(found, config.bits)):
                pieces[shard].append(ids)
        sets += [
            write_hashes(run.folder, chunk_set_name(task.number, shard, is_native=is_native), ids)
            for shard, ids in enumerate(ordered_map(unite, pieces, os.cpu_count() or 1))
            if len(ids)
        ]
    counts: list[PartInfo] = []
    if config.counts:
        rows = {name: named[name].all for name in (*added, *dropped)}
        total = Counted.sum(
            [Counted.of([rows[name] for name in added]), Counted.of([rows[name] for name in dropped], -1)]
        )
        folder = RunFolder(state, run.stores.run_id)
        counts = [
            write_counted(folder, f"{COUNTED}/{config.label}-{task.number:05d}-{shard:04d}.counts", counted)
            for shard, counted in enumerate(total.split(config.bits))
            if len(counted.hashes)
        ]
    run.progress.add(len(added) + len(dropped))
    return CountResult(index_part=name, counts=counts, sets=sets, added=added, dropped=dropped)


def find_live_chunks(
    run: Run, runner: TaskRunner, index: ManifestIndex, base: Base | None, refs: Mapping[str, int]
) -> Chunks:
    """Read manifests missing from the index, then write and count the live chunks; an optimized run writes and counts
    changes since an earlier run. A clean dry run counts nothing."""
    before = {manifest for row in base.rows.values() for manifest in row.manifests} if base else set[str]()
    new, dropped = refs.keys() - before, before - refs.keys()
    wanted = {manifest: refs[manifest] for manifest in new}
    counted = CountedSet(_bits(run, refs), ()) if base is None else base.state.counted
    counts = base is not None or not run.plan.config.dry_run
    read: dict[str, str] = {}
    for number in (2, 3):  # manifests of damaged parts of the index are read again, once
        label = f"{run.folder.label}-{number}"
        read |= index_manifests(run, runner, index, wanted, label)
        config = CountConfig(bits=counted.bits, label=label, counts=counts, native=base is None)
        results = _count(run, runner, index, new, dropped, config)
        damaged = [result.index_part for result in results if result.is_damaged]
        for name in damaged:
            log.warning("index part %s is damaged; its manifests are read again", name)
            index.drop(name)
        if not damaged:
            break
    counted_from = {name: result.index_part for result in results for name in result.added}
    if missing := new - counted_from.keys():
        raise FormatError(f"{run.plan.uri}: {len(missing)} live manifests were not read")
    taken_away = {name for result in results for name in result.dropped}
    for result in results:
        counted = counted.then(result.counts) if result.counts else counted
    if base is not None and len(counted.layers) > run.plan.config.tuning.counted_layers_max:
        counted = _united(run, runner, counted)
    return Chunks(
        bits=counted.bits,
        counted=counted if counts else None,
        sets=[part for result in results for part in result.sets],
        new=counted_from,
        dropped=frozenset(dropped),
        not_taken_away=len(dropped - taken_away),
        read=read,
    )


def _bits(run: Run, refs: Mapping[str, int]) -> int:
    bits = 0
    while bits < _BITS_MAX and sum(refs.values()) > run.plan.config.tuning.ids_per_shard << bits:
        bits += 1
    return bits


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


@partition_function
def unite_layers(run: WorkerRun, counted: CountedSet, shards: list[int]) -> list[PartInfo]:
    """Unite several layers of counts."""
    folder = RunFolder(run.open_state(), run.stores.run_id)
    parts = []
    for shard in shards:
        layers = [layer[shard] for layer in counted.layers if shard in layer]
        total = Counted.sum([read_counted(folder, part) for part in layers])
        if bool((total.counts < 0).any()):
            raise FormatError(
                f"shard {shard} of the reference counts has chunks with a negative count. Nothing was deleted."
                " Start a clean run."
            )
        if len(total.hashes):
            name = f"{COUNTED}/{run.folder.label}-united-{shard:04d}.counts"
            parts.append(write_counted(folder, name, total))
    return parts


def _united(run: Run, runner: TaskRunner, counted: CountedSet) -> CountedSet:
    shards = list(range(1 << counted.bits))
    tasks = run.shares(runner, shards)
    results = run.spread(runner, MarkOutput.STEP, unite_layers, counted, tasks, "shards", len(shards))
    return CountedSet.of([part for parts in results for part in parts], counted.bits)
