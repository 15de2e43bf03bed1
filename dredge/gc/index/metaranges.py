"""Metaranges: which ranges each of them names, read by the driver when they are few, else by tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.index.ranges import RangeFacts, Ranges, facts_of, table_of, unite_ranges
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.lakefs.files.ranges import RangeInfo
from dredge.lakefs.files.sstable import METARANGES, read_table
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Progress, TaskRunner, WorkerRun, partition_function, round_robin
from dredge.storage import ObjectReader

_INLINE = 64
"""So few metaranges are read by the driver itself; starting a job would take longer."""


@dataclass(slots=True)
class Metaranges:
    """Which ranges each of some metaranges names.

    Attributes:
        ranges: what is said of each range; none is marked as a head.
        named: indices into `ranges` by metarange id.
    """

    ranges: Ranges = field(default_factory=dict)
    named: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict)

    def add(self, other: Metaranges) -> None:
        """Add other metaranges; raises FormatError when two disagree about a range."""
        unite_ranges(self.ranges, other.ranges.items())
        place = {range_id: row for row, range_id in enumerate(self.ranges)}
        rows = np.array([place[range_id] for range_id in other.ranges], np.int32)
        self.named.update((metarange_id, rows[found]) for metarange_id, found in other.named.items())

    def select(self, metaranges: Iterable[str], heads: Collection[str] = ()) -> Ranges:
        """The ranges that some metaranges name together, with those of branch heads marked.

        Args:
            metaranges: ids, all of them in `named`; the empty one names nothing.
            heads: ids of the metaranges of branch heads, among these.
        """
        ids = list(self.ranges)
        chosen = self._rows(metaranges)
        in_heads = set(self._rows(heads).tolist())
        return {ids[row]: replace(self.ranges[ids[row]], head=row in in_heads) for row in chosen.tolist()}

    def _rows(self, metaranges: Iterable[str]) -> npt.NDArray[np.int32]:
        found = [self.named[metarange_id] for metarange_id in metaranges if metarange_id]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int32)

    def to_tables(self, metaranges: Iterable[str]) -> tuple[pa.Table, pa.Table]:
        """Some metaranges and the ranges they name, as rows.

        Returns:
            `SCHEMA` rows, and rows of metarange id with the row numbers of its ranges.
        """
        wanted = sorted({metarange_id for metarange_id in metaranges if metarange_id})
        ranges = table_of(self.select(wanted))
        place = {range_id: row for row, range_id in enumerate(ranges["range_id"].to_pylist())}
        rows = np.array([place.get(range_id, -1) for range_id in self.ranges], np.int32)
        lists = [rows[self.named[metarange_id]] for metarange_id in wanted]
        offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        values = np.concatenate(lists) if lists else np.empty(0, np.int32)
        named = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values, pa.int32()))
        return ranges, pa.table({"metarange_id": pa.array(wanted, pa.string()), "ranges": named})

    @classmethod
    def from_tables(cls, ranges: pa.Table, named: pa.Table) -> Metaranges:
        """From the rows that `to_tables` made."""
        found = named["ranges"].combine_chunks()
        lists = np.split(found.values.to_numpy(), found.offsets.to_numpy()[1:-1]) if len(named) else []
        plain = {range_id: replace(facts, head=False) for range_id, facts in facts_of(ranges)}
        return cls(plain, dict(zip(named["metarange_id"].to_pylist(), lists, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetarangeConfig:
    """What all tasks need.

    Attributes:
        where: folder of the files, in the run folder.
    """

    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetarangeTask:
    """One task.

    Attributes:
        number: makes the names of its files.
        ids: of the metaranges to read.
    """

    number: int
    ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetarangeResult:
    """The tables that `Metaranges.to_tables` makes, as files."""

    ranges: PartInfo
    named: PartInfo


def read_metaranges(
    run: Run,
    runner: TaskRunner,
    where: str,
    metaranges: Iterable[str],
    earlier: Metaranges | None = None,
) -> Metaranges:
    """Read metaranges, but for those that an earlier run has read.

    Args:
        run: the run.
        runner: spreads the work when there are many.
        where: folder for files and progress, in the run folder.
        metaranges: ids; the empty one names nothing.
        earlier: what an earlier run read, which cannot have changed; grows.

    Returns:
        These and the earlier ones.

    Raises:
        RefusedError: one is missing.
        FormatError: one is damaged, or two of them disagree about a range.
    """
    found = earlier or Metaranges()
    ids = sorted({metarange for metarange in metaranges if metarange and metarange not in found.named})
    if len(ids) <= _INLINE:
        found.add(read_files(run.reader, ids))
        return found
    shares = round_robin(ids, run.num_tasks(runner, len(ids) // _INLINE + 1))
    tasks = [MetarangeTask(number=number, ids=share) for number, share in enumerate(shares)]
    config = MetarangeConfig(where=where)
    for result in run.spread(runner, where, list_ranges, config, tasks, "metaranges", len(ids)):
        tables = run.folder.read_parts([result.ranges, result.named])
        found.add(Metaranges.from_tables(*tables))
    return found


def read_ranges(run: Run, runner: TaskRunner, where: str, metaranges: Iterable[str]) -> Ranges:
    """Read metaranges and unite the ranges they name; see `read_metaranges`."""
    ids = set(metaranges)
    return read_metaranges(run, runner, where, ids).select(ids)


@partition_function
def list_ranges(run: WorkerRun, config: MetarangeConfig, task: MetarangeTask) -> MetarangeResult:
    """Read metaranges and write the ranges they name."""
    ranges, named = read_files(run.open_store(), task.ids, run.progress).to_tables(task.ids)
    return MetarangeResult(
        ranges=run.folder.write_table(config.where, task.number, ranges, "ranges"),
        named=run.folder.write_table(config.where, task.number, named, "metaranges"),
    )


def read_files(reader: ObjectReader, ids: Sequence[str], progress: Progress | None = None) -> Metaranges:
    """Read metaranges in this process. Successive commits name mostly the same ranges, and what is said of each is
    decoded once.

    Args:
        reader: on the storage namespace.
        ids: of the metaranges.
        progress: counts them.

    Raises:
        RefusedError: one is missing.
        FormatError: one is damaged, or two of them disagree about a range.
    """
    place: dict[bytes, int] = {}
    infos: list[RangeInfo] = []
    named: dict[str, npt.NDArray[np.int32]] = {}
    try:
        for key, data in reader.get_many([METADATA + metarange for metarange in ids]):
            metarange_id = key.removeprefix(METADATA)
            records = read_table(data, key, kind=METARANGES, expected_id=metarange_id).records
            for record in records:
                if record.value not in place:
                    place[record.value] = len(infos)
                    infos.append(RangeInfo.decode(record.key, record.value, key))
            named[metarange_id] = np.array([place[record.value] for record in records], np.int32)
            if progress is not None:
                progress.add(1)
    except NotFoundError as error:
        raise RefusedError(
            f"a metarange of an active commit is missing: {error}. Its objects cannot be told from garbage."
            " Nothing was deleted. Restore the file (a backup, an older version of the bucket; what"
            " `metadata = delete` let go, `dredge gc metadata --note` puts back), then start"
            " a new run."
        ) from None
    ranges: Ranges = {}
    unite_ranges(ranges, ((info.id, RangeFacts(info.count, info.min_key, info.max_key)) for info in infos))
    rows = {range_id: row for row, range_id in enumerate(ranges)}
    final = np.array([rows[info.id] for info in infos], np.int32)
    return Metaranges(ranges, {metarange_id: final[found] for metarange_id, found in named.items()})
