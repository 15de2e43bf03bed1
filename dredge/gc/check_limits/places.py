"""The entries of branch heads with the size of a candidate: a branch may serve the candidate at their paths.

A branch reads an undetected copy only where its head has an entry of the same size at the same path. Tasks search the
ranges of branch heads for such entries; the committed index excludes most ranges.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.check_limits.holds import CheckLimitsOutput
from dredge.gc.index.ranges import decode_entries, get_file, get_files, read_facts
from dredge.gc.index.store import CommittedIndex, IndexPart, read_part
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.lakefs.files.ranges import read_metarange
from dredge.runs.payload import PartInfo
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, in_chunks, partition_function
from dredge.sets.hashes import NONE, Hashes, contains, read_hashes, unite, write_hashes
from dredge.storage import ObjectReader

SCHEMA = pa.schema(
    [("range_id", pa.string()), ("rank", pa.int64()), ("path", pa.large_binary()), ("size", pa.uint64())]
)
_JOB_RANGES = 64
_STEP = CheckLimitsOutput.STEP

type Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Entries of branch heads, in key order within each range."""

    ranges: dict[str, range]  # rows of each range
    ranks: Numbers  # position of each entry in its range
    paths: pa.LargeBinaryArray
    sizes: Hashes
    skipped: Hashes  # sizes with too many entries; these entries are left out


def find_places(
    run: Run, runner: TaskRunner, record: StepRecord, sizes: Hashes, where: str = _STEP
) -> Places:
    """Find all entries of branch heads with the given sizes (sorted and distinct); files go to the folder `where` of
    the run."""
    folder = run.folder
    table = folder.read_part(record.input(ListCommittedOutput).ranges)
    counts = {range_id: facts.count for range_id, facts in read_facts(table) if facts.head}
    jobs = _jobs(CommittedIndex.load(run.state, run.plan.namespace), counts)
    places_max = run.plan.config.safety.identical_places_max
    written = write_hashes(folder, f"{where}/sizes.u64", sizes)
    config = SearchConfig(where=where, sizes=written, places_max=places_max)
    tasks = in_chunks(jobs, run.num_tasks(runner, len(jobs)))
    results = run.spread(runner, _STEP, search_ranges, config, tasks, "ranges", len(counts))
    parts = [result.places for result in results]
    record.parts.extend(parts)
    found = _Found(places_max, unite([read_hashes(folder, result.skipped) for result in results]))
    for rows in folder.read_parts(parts):
        found.add(rows)
    return found.places()


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeJob:
    """Ranges of a part of the committed index, None for ranges outside it, with their record counts; a payload."""

    part: IndexPart | None
    counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """The config of the search; a payload."""

    where: str  # folder of the files, relative to the run folder
    sizes: PartInfo  # file of the wanted ones
    places_max: int  # entries that a task holds at once


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Rows of `SCHEMA`, and a file of sizes with too many entries; a payload."""

    places: PartInfo
    skipped: PartInfo


def _jobs(index: CommittedIndex, counts: dict[str, int]) -> list[RangeJob]:
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
def search_ranges(run: WorkerRun, config: SearchConfig, jobs: list[RangeJob]) -> SearchResult:
    """Search ranges for entries with the given sizes."""
    reader, state = run.open_store(), run.open_state()
    sizes = read_hashes(run.folder, config.sizes)
    found = _Found(config.places_max, NONE)
    for job in jobs:
        for range_id in _with_size(state, job, sizes):
            found.add(_places_in(reader, range_id, job.counts[range_id], sizes))
            run.progress.add(1)
    return SearchResult(
        places=run.folder.write_table(config.where, int(run.task), found.table(), "paths"),
        skipped=write_hashes(run.folder, f"{config.where}/skipped-{run.task}.u64", found.skipped),
    )


def _places_in(reader: ObjectReader, range_id: str, count: int, sizes: Hashes) -> pa.Table:
    key = METADATA + range_id
    entries = decode_entries(get_file(reader, range_id), key, count)
    ranks = np.flatnonzero(contains(sizes, entries.sizes))
    columns = [
        pa.array([range_id] * len(ranks), pa.string()),
        pa.array(ranks),
        entries.paths.take(pa.array(ranks)).cast(pa.large_binary()),
        pa.array(entries.sizes[ranks]),
    ]
    return pa.table(columns, schema=SCHEMA)


def _with_size(state: ObjectReader, job: RangeJob, sizes: Hashes) -> Iterator[str]:
    """The ranges of a job with some of the sizes; all ranges without an index."""
    try:
        ranges = [] if job.part is None else read_part(state, job.part, job.counts.__contains__)
    except FormatError:
        ranges = []
    indexed = {item.range_id: item.sizes for item in ranges}
    for range_id in job.counts:
        if range_id not in indexed or contains(sizes, indexed[range_id]).any():
            yield range_id


class _Found:
    """Collects entries in bounded memory: skips the sizes with the most entries."""

    def __init__(self, rows_max: int, skipped: Hashes) -> None:
        self._rows_max = rows_max
        self._tables: list[pa.Table] = []
        self._rows = 0
        self.skipped = skipped

    def add(self, rows: pa.Table) -> None:
        rows = self._without_skipped(rows)
        self._tables.append(rows)
        self._rows += rows.num_rows
        if self._rows > self._rows_max:
            self._give_up_some()

    def table(self) -> pa.Table:
        return pa.concat_tables([SCHEMA.empty_table(), *self._tables]).combine_chunks()

    def places(self) -> Places:
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
        """Skip the most frequent sizes until half of the limit is free."""
        sizes, counts = np.unique(self.table()["size"].to_numpy(), return_counts=True)
        order = np.argsort(counts, kind="stable")
        stays = np.cumsum(counts[order]) <= self._rows_max // 2
        self.skipped = unite([self.skipped, sizes[order[~stays]]])
        self._tables = [self._without_skipped(rows) for rows in self._tables]
        self._rows = sum(rows.num_rows for rows in self._tables)


@dataclass(frozen=True, slots=True)
class Head:
    """A metarange with its branches, and its ranges with wanted entries in key order, each with its first rank."""

    branches: list[str]
    ranges: list[tuple[str, int]]

    def rows(self, places: Places, wanted: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """The rows of the wanted places, and their ranks in the head."""
        rows, ranks = [], []
        for range_id, before in self.ranges:
            span = places.ranges[range_id]
            found = span.start + np.flatnonzero(wanted[span.start : span.stop])
            rows.append(found)
            ranks.append(places.ranks[found] + before)
        nothing = np.empty(0, np.int64)
        return np.concatenate([nothing, *rows]), np.concatenate([nothing, *ranks])


def heads_of_the_mark(run: Run, committed: ListCommittedOutput) -> list[tuple[str, str]]:
    """Branches with the metaranges of all their heads since staging was read."""
    table = run.folder.read_part(committed.branches)
    return list(zip(table["branch"].to_pylist(), table["metarange_id"].to_pylist(), strict=True))


def find_heads(run: Run, seen: Iterable[tuple[str, str]], places: Places) -> list[Head]:
    """Find the heads with wanted entries among branches with metaranges of their heads."""
    branches: dict[str, list[str]] = defaultdict(list)
    for branch, metarange in dict.fromkeys(seen):
        if metarange:
            branches[metarange].append(branch)
    heads: list[Head] = []
    for key, data in get_files(run.reader, sorted(branches)):
        ranges, before = [], 0
        for item in read_metarange(data, key).ranges:
            if item.id in places.ranges:
                ranges.append((item.id, before))
            before += item.count
        if ranges:
            heads.append(Head(branches[key.removeprefix(METADATA)], ranges))
    return heads


def weigh(sizes: Hashes, places: Places, heads: list[Head]) -> Numbers:
    """The number of paths of branches for each size."""
    branches: dict[str, int] = defaultdict(int)
    for head in heads:
        for range_id, _ in head.ranges:
            branches[range_id] += len(head.branches)
    weights = np.zeros(len(sizes), np.int64)
    for range_id, span in places.ranges.items():
        found = np.searchsorted(sizes, places.sizes[span.start : span.stop])
        np.add.at(weights, found, branches[range_id])
    return weights
