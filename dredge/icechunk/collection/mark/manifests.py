"""Live manifests: each is read once in the life of the repository, into the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dredge.icechunk.collection.index import ManifestIndex, write_manifest_rows
from dredge.icechunk.collection.live_files import manifest_rows
from dredge.icechunk.collection.mark.output import MarkOutput
from dredge.icechunk.collection.run import Run
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
    """

    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsTask:
    """One task.

    Attributes:
        index_part: name of the part of the index that it writes.
        refs: how many references snapshots say that each manifest has, by id.
    """

    index_part: str
    refs: dict[str, int]


@partition_function
def read_manifests(run: WorkerRun, config: ManifestsConfig, task: ManifestsTask) -> PartInfo:
    """Read manifests and write which chunks they name as a part of the index.

    Raises:
        FormatError: a live manifest is missing or damaged.
    """
    rows = []
    for manifest, chunks in manifest_rows(run.open_store(), task.refs, config.threads):
        rows.append((manifest, chunks))
        run.progress.add(len(chunks))
    return write_manifest_rows(run.open_state(), task.index_part, rows)


def index_manifests(
    run: Run, runner: TaskRunner, index: ManifestIndex, refs: Mapping[str, int], label: str
) -> int:
    """Read the live manifests that the index lacks.

    Args:
        run: whose state holds the index.
        runner: spreads the reading.
        index: gets the new parts.
        refs: how many references snapshots say that each live manifest has, by id.
        label: begins the names of the new parts.

    Returns:
        How many manifests were read.

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
    config = ManifestsConfig(threads=tuning.threads)
    written = run.spread(runner, MarkOutput.STEP, read_manifests, config, tasks, "references")
    index.add(
        run.state, label, [], [(part, list(task.refs)) for part, task in zip(written, tasks, strict=True)]
    )
    return len(lacking)


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
