"""Live manifests: each is read once in the life of the repository, into the index.

Live chunks: from the parts of the index to sorted sets of ids, split into shards by the first bits of an id.

part of the index ── manifests that are live ──> chunks ──> shard 0, shard 1, …      a task for each part
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import ManifestIndex, read_manifest_rows, write_manifest_rows
from dredge.icechunk.collection.live_files import manifest_rows
from dredge.icechunk.collection.outputs import MarkOutput, chunk_set_name
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.sets import Ids
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, round_robin

_REFS_PER_FILE = 1000
"""Reading a file costs as much as decoding so many references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsConfig:
    """What all tasks need.

    Attributes:
        threads: files that a task fetches at once.
        digests: whether the bytes of each are digested.
    """

    threads: int
    digests: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsTask:
    """One task.

    Attributes:
        index_part: name of the part of the index that it writes.
        refs: how many references snapshots say that each manifest has, by id.
    """

    index_part: str
    refs: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsResult:
    """What a task wrote.

    Attributes:
        part: of the index.
        digests: MD5 of the bytes of each manifest, by id, where that was asked for.
    """

    part: PartInfo
    digests: dict[str, str]


@partition_function
def read_manifests(run: WorkerRun, config: ManifestsConfig, task: ManifestsTask) -> ManifestsResult:
    """Read manifests and write which chunks they name as a part of the index.

    Raises:
        FormatError: a live manifest is missing or damaged.
    """
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
    """Read the live manifests that the index lacks.

    Returns:
        The manifests that were read, by id; the MD5 of their bytes where that was asked for, else "".

    Raises:
        FormatError: a live manifest is missing or damaged.
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


log = logging.getLogger("dredge")

_BITS_MAX = 10


@dataclass(frozen=True, slots=True)
class LiveChunks:
    """The live chunks of a repository.

    Attributes:
        sets: files with sorted sets of ids, one for each task and shard that has any.
        bits: the first so many bits of an id say in which shard it is.
        manifests_read: manifests that the index lacked.
    """

    sets: list[PartInfo]
    bits: int
    manifests_read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksConfig:
    """What all tasks need.

    Attributes:
        bits: the first so many bits of an id say in which shard it is.
        manifests: a JSON list with the ids of all live manifests.
    """

    bits: int
    manifests: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksTask:
    """One task.

    Attributes:
        number: makes the names of the sets that it writes.
        index_part: with the manifests that it takes.
    """

    number: int
    index_part: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksResult:
    """What a task wrote.

    Attributes:
        sets: of live chunks.
        manifests: live manifests that it has taken.
        damaged: names of index parts that cannot be trusted; nothing of them was taken.
    """

    sets: list[PartInfo]
    manifests: list[str]
    damaged: list[str]


@partition_function
def shard_chunks(run: WorkerRun, config: ChunksConfig, task: ChunksTask) -> ChunksResult:
    """Write the live chunks of a part of the index as sorted sets, one for each shard."""
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
    """Read the manifests that the index lacks, then write the live chunks as sets.

    Raises:
        FormatError: a live manifest is missing or damaged, or was not read.
    """
    names = json.dumps(sorted(refs)).encode()
    manifests = run.folder.write_bytes(f"{MarkOutput.STEP}/manifests.json", names, len(refs))
    config = ChunksConfig(bits=_bits(run, refs), manifests=manifests)
    read = 0
    for number in (2, 3):  # parts of the index that turn out to be damaged are read anew, once
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
        f"{run.state.uri}: parts of the index that were just written cannot be read. Nothing was deleted."
    )


def _bits(run: Run, refs: Mapping[str, int]) -> int:
    """Choose into how many shards the live chunks are split, as a power of two."""
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
