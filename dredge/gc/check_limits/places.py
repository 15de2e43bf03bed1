"""Where branches could serve a candidate: the entries of branch heads that have its size.

A branch reads a copy that its changes do not show only where its head has an entry of the same size at the same
path. The ranges of branch heads are searched for such entries, distributed; the committed index says which
ranges need no look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.check_limits.output import CheckLimitsOutput
from dredge.gc.index.ranges import decode_entries, read_facts
from dredge.gc.index.store import CommittedIndex, IndexPart, read_part
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, in_chunks, partition_function
from dredge.sets.hashes import NONE, Hashes, contains, read_hashes, unite, write_hashes
from dredge.storage import ObjectReader

SCHEMA = pa.schema(
    [("range_id", pa.string()), ("rank", pa.int64()), ("path", pa.large_binary()), ("size", pa.uint64())]
)
_PLACES_MAX = 1_000_000
"""Entries that the driver and each task hold at once; sizes that more entries have are left out."""
_JOB_RANGES = 64
_STEP = CheckLimitsOutput.STEP

type Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Entries of branch heads, in key order within each range.

    Attributes:
        ranges: rows of each range.
        ranks: position of the entry in its range.
        paths: raw bytes.
        sizes: as the entries state them.
        skipped: sizes of which there are too many entries; no entry of theirs is here.
    """

    ranges: dict[str, range]
    ranks: Numbers
    paths: pa.LargeBinaryArray
    sizes: Hashes
    skipped: Hashes


def find_places(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    sizes: Hashes,
    where: str = _STEP,
) -> Places:
    """Find every entry of a branch head that has one of some sizes.

    Args:
        run: this run.
        runner: spreads the search.
        record: of the step; takes the files.
        sizes: sorted and distinct.
        where: folder of the files, relative to the run folder.
    """
    folder = run.folder
    table = folder.read_part(record.input(ListCommittedOutput).ranges)
    counts = {range_id: facts.count for range_id, facts in read_facts(table) if facts.head}
    jobs = _jobs(CommittedIndex.load(run.state, run.plan.namespace), counts)
    config = SearchConfig(
        where=where, sizes=write_hashes(folder, f"{where}/sizes.u64", sizes), places_max=_PLACES_MAX
    )
    shares = in_chunks(jobs, run.num_tasks(runner, len(jobs)))
    tasks = [SearchTask(index=index, jobs=share) for index, share in enumerate(shares)]
    results = run.spread(runner, _STEP, search_ranges, config, tasks, "ranges", len(counts))
    parts = [result.places for result in results]
    record.parts.extend(parts)
    found = _Found(_PLACES_MAX, unite([read_hashes(folder, result.skipped) for result in results]))
    for rows in folder.read_parts(parts):
        found.add(rows)
    return found.places()


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeJob:
    """Ranges of branch heads that one part of the committed index knows; a payload.

    Attributes:
        part: of the index; None for ranges that the index lacks.
        counts: records of each range, by id.
    """

    part: IndexPart | None
    counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """What all tasks need; a payload.

    Attributes:
        where: folder of the files, relative to the run folder.
        sizes: file of the wanted ones.
        places_max: entries that a task holds at once.
    """

    where: str
    sizes: PartInfo
    places_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTask:
    """One task; a payload.

    Attributes:
        index: makes the names of its files.
        jobs: what to search.
    """

    index: int
    jobs: list[RangeJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a task found; a payload.

    Attributes:
        places: rows of `SCHEMA`.
        skipped: file of the sizes that too many entries have.
    """

    places: PartInfo
    skipped: PartInfo


def _jobs(index: CommittedIndex, counts: dict[str, int]) -> list[RangeJob]:
    """Ranges of branch heads by the part of the index they lie in; what the index lacks is decoded."""
    groups: dict[str, list[str]] = defaultdict(list)
    lacking: list[str] = []
    for range_id, count in counts.items():
        name = index.part_of(range_id, count)
        (lacking if name is None else groups[name]).append(range_id)
    slices = [lacking[start : start + _JOB_RANGES] for start in range(0, len(lacking), _JOB_RANGES)]
    return [
        *(_job(index.parts[name], ids, counts) for name, ids in sorted(groups.items())),
        *(_job(None, ids, counts) for ids in slices),
    ]


def _job(part: IndexPart | None, range_ids: list[str], counts: dict[str, int]) -> RangeJob:
    return RangeJob(part=part, counts={range_id: counts[range_id] for range_id in range_ids})


@partition_function
def search_ranges(run: WorkerRun, config: SearchConfig, task: SearchTask) -> SearchResult:
    """Search ranges for entries that have one of some sizes."""
    reader, state = run.open_store(), run.open_state()
    sizes = read_hashes(run.folder, config.sizes)
    found = _Found(config.places_max, NONE)
    for job in task.jobs:
        for range_id in _with_size(state, job, sizes):
            found.add(_places_in(reader, range_id, job.counts[range_id], sizes))
            run.progress.add(1)
    return SearchResult(
        places=run.folder.write_table(config.where, task.index, found.table(), "paths"),
        skipped=write_hashes(run.folder, f"{config.where}/skipped-{task.index:05d}.u64", found.skipped),
    )


def _places_in(reader: ObjectReader, range_id: str, count: int, sizes: Hashes) -> pa.Table:
    """The entries of a range that have some of the sizes; rows of `SCHEMA`."""
    key = METADATA + range_id
    entries = decode_entries(reader.get(key), key, count)
    ranks = np.flatnonzero(contains(sizes, entries.sizes))
    columns = [
        pa.array([range_id] * len(ranks), pa.string()),
        pa.array(ranks),
        entries.paths.take(pa.array(ranks)).cast(pa.large_binary()),
        pa.array(entries.sizes[ranks]),
    ]
    return pa.table(columns, schema=SCHEMA)


def _with_size(state: ObjectReader, job: RangeJob, sizes: Hashes) -> Iterator[str]:
    """The ranges of a job that have some of the sizes; all of them where the index cannot tell."""
    try:
        ranges = [] if job.part is None else read_part(state, job.part, job.counts.__contains__)
    except FormatError:
        ranges = []
    indexed = {item.range_id: item.sizes for item in ranges}
    for range_id in job.counts:
        if range_id not in indexed or contains(sizes, indexed[range_id]).any():
            yield range_id


class _Found:
    """Collects entries in bounded memory: sizes that very many entries have are given up.

    Args:
        rows_max: entries held at most.
        skipped: sizes that were given up already.
    """

    def __init__(self, rows_max: int, skipped: Hashes) -> None:
        self._rows_max = rows_max
        self._tables: list[pa.Table] = []
        self._rows = 0
        self.skipped = skipped

    def add(self, rows: pa.Table) -> None:
        """Take rows of `SCHEMA`."""
        rows = self._without_skipped(rows)
        self._tables.append(rows)
        self._rows += rows.num_rows
        if self._rows > self._rows_max:
            self._give_up_some()

    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables([SCHEMA.empty_table(), *self._tables]).combine_chunks()

    def places(self) -> Places:
        """All rows, by range."""
        rows = self.table()
        ids = rows["range_id"].combine_chunks()
        starts = [0, *(np.flatnonzero(pc.not_equal(ids[1:], ids[:-1]).to_numpy(False)) + 1).tolist()]
        ends = [*starts[1:], rows.num_rows]
        spans = zip(starts, ends, strict=True) if rows.num_rows else ()
        return Places(
            {ids[start].as_py(): range(start, end) for start, end in spans},
            rows["rank"].to_numpy(),
            pa.concat_arrays([pa.array([], pa.large_binary()), *rows["path"].chunks]),
            rows["size"].to_numpy(),
            self.skipped,
        )

    def _without_skipped(self, rows: pa.Table) -> pa.Table:
        if not len(self.skipped):
            return rows
        return rows.filter(pa.array(~contains(self.skipped, rows["size"].to_numpy())))

    def _give_up_some(self) -> None:
        """Give up the most frequent sizes until half of the room is free again."""
        sizes, counts = np.unique(self.table()["size"].to_numpy(), return_counts=True)
        order = np.argsort(counts, kind="stable")
        stays = np.cumsum(counts[order]) <= self._rows_max // 2
        self.skipped = unite([self.skipped, sizes[order[~stays]]])
        self._tables = [self._without_skipped(rows) for rows in self._tables]
        self._rows = sum(rows.num_rows for rows in self._tables)
