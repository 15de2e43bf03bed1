"""The entries of branch heads with the size of a candidate: a branch may serve the candidate at their paths.

A branch reads an undetected copy only where its head has an entry of the same size at the same path. Tasks search the
ranges of branch heads for such entries; the committed index excludes most ranges, and most sizes that have too many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from dredge.errors import FormatError
from dredge.gc.check_limits.holds import CheckLimitsOutput
from dredge.gc.index.ranges import HeadEntries, Metaranges, decode_entries, get_files, read_facts, read_files
from dredge.gc.index.store import CommittedIndex, IndexPart, read_part
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Run
from dredge.runs.payload import PartInfo
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, in_chunks, partition_function
from dredge.sets.hashes import NONE, Hashes, contains, read_hashes, unite, write_hashes
from dredge.storage import ObjectReader

SCHEMA = pa.schema(
    [("range_id", pa.string()), ("rank", pa.int64()), ("path", pa.large_binary()), ("size", pa.uint64())]
)
_JOB_RANGES = 64
# Ranges that all metaranges of a mark name together, at most, to take them from its tables.
_NAMED_MAX = 1 << 22
# Page limit of lakeFS.
PAGE = 1000
# Cost of a page, in questions about a single path.
PAGE_COST = 10
_ROUNDING = 1e-6
_STEP = CheckLimitsOutput.STEP

type Numbers = npt.NDArray[np.int64]


class Places(Struct, frozen=True):
    """Entries of branch heads, in key order within each range."""

    ranges: dict[str, range]  # rows of each range
    ranks: Numbers  # position of each entry in its range
    paths: pa.LargeBinaryArray
    sizes: Hashes
    skipped: Hashes  # sizes with too many entries; these entries are left out


def find_places(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    sizes: Hashes,
    contents: Sequence[HeadRanges],
    where: str = _STEP,
) -> Places:
    """Find all entries of branch heads with the given sizes (sorted and distinct); files go to the folder `where` of
    the run."""
    folder, safety = run.folder, run.plan.config.safety
    table = folder.read_part(record.input(ListCommittedOutput).ranges)
    counts = {range_id: facts.count for range_id, facts in read_facts(table) if facts.head}
    jobs = _jobs(CommittedIndex.load(run.state, run.plan.namespace), counts)
    places_max = safety.identical_places_max
    config = SearchConfig(
        where=where,
        sizes=write_hashes(folder, f"{where}/sizes.u64", sizes),
        weights=folder.write_table(where, 0, weights_of(contents), "weights"),
        cost_max=safety.identical_requests_max,
        places_max=places_max,
    )
    tasks = in_chunks(jobs, run.num_tasks(runner, len(jobs)))
    results = run.spread(runner, _STEP, search_ranges, config, tasks, "ranges", len(counts))
    parts = [result.places for result in results]
    record.parts.extend(parts)
    found = _Found(places_max, unite([read_hashes(folder, result.skipped) for result in results]))
    for rows in folder.read_parts(parts):
        found.add(rows)
    return found.places()


class RangeJob(Struct, frozen=True, kw_only=True):
    """Ranges of a part of the committed index, None for ranges outside it, with their record counts; a payload."""

    part: IndexPart | None
    counts: dict[str, int]


class SearchConfig(Struct, frozen=True, kw_only=True):
    """The config of the search; a payload."""

    where: str  # folder of the files, relative to the run folder
    sizes: PartInfo  # file of the wanted ones
    weights: PartInfo  # rows of `weights_of`
    cost_max: int  # a size that costs more questions is not asked for
    places_max: int  # entries that a task holds at once


class SearchResult(Struct, frozen=True, kw_only=True):
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
    costs = _Costs(sizes, run.folder.read_part(config.weights), config.cost_max)
    for job in jobs:
        if not len(costs.left):
            break
        ids = costs.choose(_indexed(state, job), job.counts)
        for range_id, entries in decode_entries(get_files(reader, ids), job.counts):
            costs.add(range_id, entries.sizes)
            found.skip(costs.too_many)
            found.add(_places_in(range_id, entries, costs.left))
            run.progress.add(1)
            if not len(costs.left):
                break
        found.skip(costs.too_many)
    return SearchResult(
        places=run.folder.write_table(config.where, int(run.task), found.table(), "paths"),
        skipped=write_hashes(run.folder, f"{config.where}/skipped-{run.task}.u64", found.skipped),
    )


class _Costs:
    """The least cost of the questions about each size so far: the sizes that cost too much are not searched for."""

    def __init__(self, sizes: Hashes, weights: pa.Table, cost_max: int) -> None:
        self.left = sizes
        self.too_many = NONE
        self._sizes = sizes
        self._cost_max = cost_max
        columns = [weights[name].to_pylist() for name in ("range_id", "branches", "share")]
        self._weights = {item: (branches, share) for item, branches, share in zip(*columns, strict=True)}
        self._costs = np.zeros(len(sizes))

    def choose(self, indexed: Mapping[str, Hashes], counts: Iterable[str]) -> list[str]:
        """The ranges of a job to search, those of most branches first: with some of the sizes, or outside of the
        index."""
        costs = self._costs.copy()
        for range_id, found in indexed.items():
            self._spend(costs, range_id, found[contains(self.left, found)], np.ones(1), np.ones(1))
        self._leave(costs)
        wanted = [item for item in counts if item not in indexed or contains(self.left, indexed[item]).any()]
        return sorted(wanted, key=lambda item: -self._weight(item)[0]) if len(self.left) else []

    def add(self, range_id: str, found: Hashes) -> None:
        """Count the entries of a range."""
        ranks = np.flatnonzero(contains(self.left, found))
        if not len(ranks):
            return
        order = np.argsort(found[ranks], kind="stable")
        ranks = ranks[order]
        sizes, firsts, entries = np.unique(found[ranks], return_index=True, return_counts=True)
        # A page has at most the entries of a size that are so close to each other.
        keys = np.repeat(np.arange(len(sizes)) * (len(found) + PAGE), entries) + ranks
        close = np.searchsorted(keys, keys + PAGE) - np.arange(len(keys))
        self._spend(self._costs, range_id, sizes, entries, np.maximum.reduceat(close, firsts))
        self._leave(self._costs)

    def _spend(
        self,
        costs: npt.NDArray[np.float64],
        range_id: str,
        sizes: Hashes,
        entries: npt.NDArray[Any],
        close: npt.NDArray[Any],
    ) -> None:
        branches, share = self._weight(range_id)
        costs[np.searchsorted(self._sizes, sizes)] += branches * entries * np.minimum(1, share / close)

    def _weight(self, range_id: str) -> tuple[int, float]:
        return self._weights.get(range_id, (1, PAGE_COST / PAGE))

    def _leave(self, costs: npt.NDArray[np.float64]) -> None:
        over = self._sizes[costs > self._cost_max + _ROUNDING]
        if len(over):
            self.too_many = unite([self.too_many, over])
            self.left = self._sizes[~contains(self.too_many, self._sizes)]


def _places_in(range_id: str, entries: HeadEntries, sizes: Hashes) -> pa.Table:
    ranks = np.flatnonzero(contains(sizes, entries.sizes))
    columns = [
        pa.repeat(pa.scalar(range_id, pa.string()), len(ranks)),
        pa.array(ranks),
        entries.paths.take(pa.array(ranks)).cast(pa.large_binary()),
        pa.array(entries.sizes[ranks]),
    ]
    return pa.table(columns, schema=SCHEMA)


def _indexed(state: ObjectReader, job: RangeJob) -> dict[str, Hashes]:
    """The sizes in the ranges of a job, as far as the index has them."""
    try:
        ranges = [] if job.part is None else read_part(state, job.part, job.counts.__contains__)
    except FormatError:
        ranges = []
    return {item.range_id: item.sizes for item in ranges if item.range_id in job.counts}


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

    def skip(self, sizes: Hashes) -> None:
        """Skip more sizes."""
        if len(sizes) and not contains(self.skipped, sizes).all():
            self.skipped = unite([self.skipped, sizes])
            self._drop()

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
        self._drop()

    def _drop(self) -> None:
        self._tables = [self._without_skipped(rows) for rows in self._tables]
        self._rows = sum(rows.num_rows for rows in self._tables)


class Head(Struct, frozen=True):
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


class HeadRanges(Struct, frozen=True):
    """A metarange with its branches."""

    branches: list[str]
    ids: Sequence[str]  # of the ranges of all heads, and of others
    rows: npt.NDArray[np.int32]  # of its ranges in `ids`, in key order
    starts: Numbers  # rank of the first entry of each range
    count: int  # of entries


def read_heads(run: Run, committed: ListCommittedOutput, named_max: int = _NAMED_MAX) -> list[HeadRanges]:
    """Read the ranges of branches: of all their heads since staging was read."""
    table = run.folder.read_part(committed.branches)
    branches: dict[str, list[str]] = defaultdict(list)
    seen = zip(table["branch"].to_pylist(), table["metarange_id"].to_pylist(), strict=True)
    for branch, metarange in dict.fromkeys(seen):
        if metarange:
            branches[metarange].append(branch)
    if committed.metaranges.rows * committed.named_ranges.rows <= named_max:
        tables = run.folder.read_parts([committed.named_ranges, committed.metaranges])
        found = Metaranges.from_tables(*tables)
    else:  # a history that fills the memory: only those of heads, from their files
        found = read_files(run.reader, sorted(branches))
    ids = list(found.ranges)
    counts = np.array([facts.count for facts in found.ranges.values()], np.int64)
    heads = []
    for metarange, names in sorted(branches.items()):
        rows = found.named[metarange]
        ends = np.cumsum(counts[rows])
        heads.append(HeadRanges(names, ids, rows, ends - counts[rows], int(ends[-1]) if len(rows) else 0))
    return heads


def weights_of(contents: Sequence[HeadRanges]) -> pa.Table:
    """For each range of heads: `branches` with it, and `share`, the least part of a page's cost that it bears where a
    page asks for its entries. A page costs `PAGE_COST`, for all ranges that it reaches."""
    ids = contents[0].ids if contents else []
    branches, reached = np.zeros(len(ids), np.int64), np.ones(len(ids), np.int64)
    for head in contents:
        branches[head.rows] += len(head.branches)
        reached[head.rows] = np.maximum(reached[head.rows], _reach(head))
    rows = pa.table(
        {"range_id": pa.array(ids, pa.string()), "branches": branches, "share": PAGE_COST / reached}
    )
    return rows.filter(pa.array(branches > 0))  # the mark's tables name ranges of other commits, too


def _reach(head: HeadRanges) -> Numbers:
    """For each range of a head, the most ranges that a page with some of its entries can reach."""
    last_entries = np.append(head.starts[1:], head.count) - 1
    reached = np.searchsorted(head.starts, last_entries + PAGE) - np.arange(len(head.starts))
    most = reached.copy()
    for before in range(1, int(reached.max(initial=1))):  # of pages that begin so many ranges before
        most[before:] = np.maximum(most[before:], np.where(reached[:-before] > before, reached[:-before], 0))
    return most


def find_heads(contents: Iterable[HeadRanges], places: Places) -> list[Head]:
    """Find the heads with wanted entries."""
    heads = []
    for head in contents:
        pairs = zip(head.rows.tolist(), head.starts.tolist(), strict=True)
        ranges = [(head.ids[row], start) for row, start in pairs if head.ids[row] in places.ranges]
        if ranges:
            heads.append(Head(head.branches, ranges))
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
