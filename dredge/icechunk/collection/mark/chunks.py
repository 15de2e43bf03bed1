"""Live manifests and chunks: read new manifests into the index, then write the live chunks as sorted sets of ids.

part of the index ── live manifests ──> chunks ──> shard 0, shard 1, … by the first bits of an id   a task each
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import (
    ManifestIndex,
    manifest_rows,
    read_manifest_rows,
    write_manifest_rows,
)
from dredge.icechunk.collection.outputs import MarkOutput, chunk_set_name
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.sets import Ids
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin, waiting_function

log = logging.getLogger("dredge")

_BITS_MAX = 10
_REFS_PER_FILE = 1000
"""Reading a file costs as much as decoding so many references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsConfig:
    """Payload of all tasks: files in flight, and whether to digest their bytes."""

    threads: int
    digests: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsTask:
    """Name of the task's part of the index, and the number of references in each of its manifests."""

    index_part: str
    refs: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsResult:
    """The part of the index, and the MD5 of each manifest's bytes if wanted."""

    part: PartInfo
    digests: dict[str, str]


@partition_function
def read_manifests(run: WorkerRun, config: ManifestsConfig, task: ManifestsTask) -> ManifestsResult:
    """Read manifests, and write their chunks as a part of the index."""
    rows = []
    digests: dict[str, str] = {}
    asked = digests if config.digests else None
    for manifest, chunks in manifest_rows(run.open_store(), task.refs, config.threads, asked):
        rows.append((manifest, chunks))
        run.progress.add(len(chunks.native))
    part = write_manifest_rows(run.open_state(), task.index_part, rows)
    return ManifestsResult(part=part, digests=digests)


def index_manifests(
    run: Run,
    runner: TaskRunner,
    index: ManifestIndex,
    refs: Mapping[str, int],
    label: str,
    digests: bool = False,
) -> dict[str, str]:
    """Read live manifests missing from the index.

    Returns:
        The MD5 of each read manifest's bytes by id, or "" without `digests`.
    """
    indexed = {manifest for ids in index.manifests_of.values() for manifest in ids}
    lacking = {manifest: count for manifest, count in refs.items() if manifest not in indexed}
    tuning = run.plan.config.tuning
    shares = equal_shares(lacking, tuning.refs_per_task, runner.default_parallelism)
    tasks = [
        ManifestsTask(index_part=f"{label}-manifests-{number:05d}", refs=share)
        for number, share in enumerate(shares)
    ]
    config = ManifestsConfig(threads=tuning.threads, digests=digests)
    written = run.spread(runner, MarkOutput.STEP, read_manifests, config, tasks, "references")
    parts = [(result.part, list(task.refs)) for result, task in zip(written, tasks, strict=True)]
    index.add(run.state, label, [], parts)
    found = {manifest: digest for result in written for manifest, digest in result.digests.items()}
    return dict.fromkeys(lacking, "") | found


def equal_shares(refs: Mapping[str, int], refs_per_task: int, parallelism: int) -> list[dict[str, int]]:
    """Split manifests into shares of about equal work."""
    largest_first = sorted(refs, key=lambda manifest: (-refs[manifest], manifest))
    work = sum(refs.values()) + _REFS_PER_FILE * len(refs)
    shares = round_robin(largest_first, max(parallelism, -(-work // refs_per_task)))
    return [{manifest: refs[manifest] for manifest in share} for share in shares]


@dataclass(frozen=True, slots=True)
class LiveChunks:
    """The live chunks of a repository: files with sorted sets, a file for each task and shard.

    Attributes:
        bits: the first so many bits of an id are its shard.
        manifests_read: manifests that the index lacked.
    """

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
        pieces: list[list[Ids]] = [[] for _ in range(1 << config.bits)]
        for _, chunks in live:
            found = chunks.native if is_native else chunks.virtual
            for shard, ids in enumerate(sets.shards(found, config.bits)):
                pieces[shard].append(ids)
        written += [
            sets.write_ids(run.folder, chunk_set_name(task.number, shard, is_native=is_native), ids)
            for shard, ids in enumerate(sets.unite_by_shard(pieces))
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
