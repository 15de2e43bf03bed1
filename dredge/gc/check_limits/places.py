"""Where branches could serve a suspect: the entries of branch heads that have its size.

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
from dredge.gc.index.decoding import entries_of
from dredge.gc.index.ranges import facts_of
from dredge.gc.index.store import CommittedIndex, IndexPart, read_part
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.gc.sets.files import read_hashes, write_hashes
from dredge.gc.sets.hashes import NONE, Hashes, contains, unite
from dredge.runs.folder import RunFolder
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner, in_chunks
from dredge.storage import ObjectReader, open_reader

STEP = "check_limits"
SCHEMA = pa.schema(
    [("range_id", pa.string()), ("rank", pa.int64()), ("path", pa.large_binary()), ("size", pa.uint64())]
)
_PLACES_MAX = 1_000_000
"""Entries that the driver and each task hold at once; sizes that more entries have are left out."""
_JOB_RANGES = 64

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
    run: Run, runner: TaskRunner, record: StepRecord, committed: StepSummary, sizes: Hashes
) -> Places:
    """Find every entry of a branch head that has one of some sizes.

    Args:
        run: of the run.
        runner: spreads the search.
        record: takes the files.
        committed: the step that knows the ranges of branch heads.
        sizes: sorted and distinct.
    """
    folder = run.folder
    table = folder.read_part(committed.part("list_committed/ranges-00000.parquet"))
    counts = {range_id: found.count for range_id, found in facts_of(table) if found.head}
    jobs = _jobs(CommittedIndex.load(run.state, run.plan.namespace), counts)
    config = {
        "sizes": write_hashes(folder, f"{STEP}/sizes.u64", sizes).to_json(),
        "places_max": _PLACES_MAX,
    }
    shares = in_chunks(jobs, run.num_tasks(runner, len(jobs)))
    tasks = [{"index": number, "jobs": share} for number, share in enumerate(shares)]
    results = run.spread_json(runner, STEP, search_ranges, config, tasks, "ranges", len(counts))
    parts = [PartInfo.from_json(result["part"]) for result in results]
    record.parts.extend(parts)
    skipped = unite([read_hashes(folder, PartInfo.from_json(result["skipped"])) for result in results])
    found = _Found(_PLACES_MAX, skipped)
    for rows in folder.read_parts(parts):
        found.add(rows)
    return found.places()


def _jobs(index: CommittedIndex, counts: dict[str, int]) -> list[Json]:
    """Ranges of branch heads by the part of the index they lie in; what the index lacks is decoded."""
    groups: dict[str, list[str]] = defaultdict(list)
    lacking: list[str] = []
    for range_id, count in counts.items():
        name = index.part_of(range_id, count)
        (lacking if name is None else groups[name]).append(range_id)
    named = [(index.parts[name].to_json(), ids) for name, ids in sorted(groups.items())]
    slices = [lacking[start : start + _JOB_RANGES] for start in range(0, len(lacking), _JOB_RANGES)]
    return [
        {"part": part, "ranges": ids, "counts": [counts[range_id] for range_id in ids]}
        for part, ids in [*named, *((None, ids) for ids in slices)]
    ]


def search_ranges(config: Json, task: Json) -> Json:
    """Search ranges for entries that have one of some sizes. A partition function.

    Args:
        config: doors, `sizes` (file), `places_max`, `progress`.
        task: `index`, and `jobs`: ranges of branch heads, and the part of the committed index that knows them.

    Returns:
        `part` with the rows, and `skipped`: file of the sizes of which there are too many.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], f"paths-{task['index']:05d}")
    reader, state = open_reader(config["namespace"]), open_reader(config["state_uri"])
    sizes = read_hashes(folder, PartInfo.from_json(config["sizes"]))
    found = _Found(config["places_max"], NONE)
    for job in task["jobs"]:
        counts = dict(zip(job["ranges"], job["counts"], strict=True))
        part = None if job["part"] is None else IndexPart.from_json(job["part"])
        for range_id in _with_size(state, part, counts, sizes):
            key = METADATA + range_id
            entries = entries_of(reader.get(key), key, counts[range_id])
            ranks = np.flatnonzero(contains(sizes, entries.sizes))
            found.add(
                pa.table(
                    [
                        pa.array([range_id] * len(ranks), pa.string()),
                        pa.array(ranks),
                        entries.paths.take(pa.array(ranks)).cast(pa.large_binary()),
                        pa.array(entries.sizes[ranks]),
                    ],
                    schema=SCHEMA,
                )
            )
            progress.add(1)
    index = task["index"]
    skipped = write_hashes(folder, f"{STEP}/skipped-{index:05d}.u64", found.skipped)
    part_written = folder.write_table(STEP, index, found.table(), "paths")
    return {"part": part_written.to_json(), "skipped": skipped.to_json()}


def _with_size(
    state: ObjectReader, part: IndexPart | None, counts: dict[str, int], sizes: Hashes
) -> Iterator[str]:
    """The ranges of a part of the index that have some of the sizes; all of them where it cannot tell."""
    try:
        ranges = [] if part is None else read_part(state, part, counts.__contains__)
    except FormatError:
        ranges = []
    known = {item.range_id: item.sizes for item in ranges}
    for range_id in counts:
        if range_id not in known or contains(sizes, known[range_id]).any():
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
