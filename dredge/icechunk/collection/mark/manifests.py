"""Live manifests: each is read once in the life of the repository, into the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dredge.icechunk.collection.index import ManifestIndex, write_manifest_rows
from dredge.icechunk.collection.live_files import manifest_rows
from dredge.icechunk.collection.mark.output import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin

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

    Args:
        run: whose state holds the index.
        runner: spreads the reading.
        index: gets the new parts.
        refs: how many references snapshots say that each live manifest has, by id.
        label: begins the names of the new parts.
        digests: whether the bytes of what is read are digested.

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
    """Split manifests into shares of about equal work.

    Args:
        refs: how many references each manifest has, by id.
        refs_per_task: about the most work in a share, in references.
        parallelism: at least as many shares, as long as there are manifests.
    """
    largest_first = sorted(refs, key=lambda manifest: (-refs[manifest], manifest))
    work = sum(refs.values()) + _REFS_PER_FILE * len(refs)
    shares = round_robin(largest_first, max(parallelism, -(-work // refs_per_task)))
    return [{manifest: refs[manifest] for manifest in share} for share in shares]
