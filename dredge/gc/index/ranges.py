"""From commits to ranges: which range files the active commits name, and how many records each must have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.graveler.committed.ranges import RangeInfo, is_table_id
from dredge.graveler.sstable import METARANGES, RANGES, read_table
from dredge.graveler.sstable.envelope import read_envelope
from dredge.graveler.sstable.layout import FOOTER_SIZE, MAGIC
from dredge.runs.folder import RunFolder
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json, TaskRunner, round_robin
from dredge.storage import ObjectReader, open_reader

SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("head", pa.bool_(), nullable=False),
    ]
)
_INLINE = 64
"""So few metaranges are read by the driver itself; starting a job would take longer."""


@dataclass(frozen=True, slots=True)
class RangeFacts:
    """What metaranges say of a range.

    Attributes:
        count: records.
        min_key: where it belongs among others; only a hint.
        max_key: its last key.
        head: whether the head of some branch has it.
    """

    count: int
    min_key: bytes
    max_key: bytes
    head: bool = False


type Ranges = dict[str, RangeFacts]


@dataclass(slots=True)
class Metaranges:
    """Which ranges each of some metaranges names.

    Attributes:
        ranges: what is known of each range; none of them is a head.
        named: rows in `ranges` by metarange id.
    """

    ranges: Ranges = field(default_factory=dict)
    named: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict)

    def add(self, other: Metaranges) -> None:
        """Take in what others name; raises FormatError when two disagree about a range."""
        unite_ranges(self.ranges, other.ranges.items())
        place = {range_id: row for row, range_id in enumerate(self.ranges)}
        rows = np.array([place[range_id] for range_id in other.ranges], np.int32)
        self.named.update((metarange_id, rows[found]) for metarange_id, found in other.named.items())

    def select(self, metaranges: Iterable[str], heads: Collection[str] = ()) -> Ranges:
        """The ranges that some metaranges name together, with those of branch heads marked.

        Args:
            metaranges: ids, all known; the empty one names nothing.
            heads: those of them that a branch's head has.
        """
        ids = list(self.ranges)
        chosen = self._rows(metaranges)
        in_heads = set(self._rows(heads).tolist())
        return {ids[row]: replace(self.ranges[ids[row]], head=row in in_heads) for row in chosen.tolist()}

    def _rows(self, metaranges: Iterable[str]) -> npt.NDArray[np.int32]:
        found = [self.named[metarange_id] for metarange_id in metaranges if metarange_id]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int32)

    def to_table(self, metaranges: Iterable[str]) -> tuple[pa.Table, pa.Table]:
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
        """From the rows that `to_table` made."""
        found = named["ranges"].combine_chunks()
        lists = np.split(found.values.to_numpy(), found.offsets.to_numpy()[1:-1]) if len(named) else []
        plain = {range_id: replace(facts, head=False) for range_id, facts in facts_of(ranges)}
        return cls(plain, dict(zip(named["metarange_id"].to_pylist(), lists, strict=True)))


def read_metaranges(
    run: Run,
    runner: TaskRunner,
    where: str,
    metaranges: Iterable[str],
    known: Metaranges | None = None,
) -> Metaranges:
    """Read metaranges that are not known yet.

    Args:
        run: of the run.
        runner: spreads the work when there are many.
        where: step folder for parts and progress.
        metaranges: ids; the empty one names nothing.
        known: from an earlier run; metaranges are immutable.

    Returns:
        What is known now.

    Raises:
        RefusedError: one is missing.
        FormatError: one is damaged, or two of them disagree about a range.
    """
    found = known or Metaranges()
    ids = sorted({metarange for metarange in metaranges if metarange and metarange not in found.named})
    if len(ids) <= _INLINE:
        found.add(_read(run.reader, ids))
        return found
    hands = round_robin(ids, run.num_tasks(runner, len(ids) // _INLINE + 1))
    tasks = [{"index": index, "ids": hand} for index, hand in enumerate(hands)]
    results = run.spread_json(runner, where, list_ranges, {"where": where}, tasks, "metaranges", len(ids))
    for result in results:
        parts = [PartInfo.from_json(result[name]) for name in ("ranges", "named")]
        found.add(Metaranges.from_tables(*run.folder.read_parts(parts)))
    return found


def read_ranges(run: Run, runner: TaskRunner, where: str, metaranges: Iterable[str]) -> Ranges:
    """Read metaranges and unite the ranges they name; see `read_metaranges`."""
    ids = set(metaranges)
    return read_metaranges(run, runner, where, ids).select(ids)


def list_ranges(config: Json, task: Json) -> Json:
    """Read metaranges and write the ranges they name. A partition function.

    Args:
        config: doors, `where`, `progress`.
        task: `index` and `ids`.

    Returns:
        `ranges` and `named`: parts as `Metaranges.to_table` makes them.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], f"metaranges-{task['index']:05d}")
    ranges, named = _read(open_reader(config["namespace"]), task["ids"], progress).to_table(task["ids"])
    where, index = config["where"], task["index"]
    return {
        "ranges": folder.write_table(where, index, ranges, "ranges").to_json(),
        "named": folder.write_table(where, index, named, "metaranges").to_json(),
    }


def find_range_files(run: Run, known: Iterable[str]) -> tuple[Ranges, list[str]]:
    """Find every range file of the namespace, whoever may name it; used when every commit counts as active.

    Files are told apart by their content: metaranges and refs dumps are left out, and so is what is no table
    at all. A file whose name is a table's id but which cannot be read as one stops the run.

    Args:
        run: of the run.
        known: names of files below `_lakefs/` that need no look: ranges and metaranges that were read
            already, and what an earlier run looked at (files there never change).

    Returns:
        The other ranges, and the names of the files that were looked at.

    Raises:
        FormatError: a damaged table.
    """
    have = set(known)
    names = [info.key for info in run.reader.list_level(METADATA).objects]
    unknown = [name for name in names if name.removeprefix(METADATA) not in have]
    tables = [name for name in unknown if _is_table(run.reader, name)]
    ranges: Ranges = {}
    for name, data in run.reader.get_many(tables):
        envelope = read_envelope(data, name, None, None)
        if envelope.kind == RANGES and envelope.entity is None and envelope.records:
            ranges[name.removeprefix(METADATA)] = RangeFacts(envelope.records, b"", envelope.max_key)
    return ranges, [name.removeprefix(METADATA) for name in unknown]


def _is_table(reader: ObjectReader, name: str) -> bool:
    if is_table_id(name.removeprefix(METADATA)):
        return True
    size = reader.stat(name).size
    return size >= FOOTER_SIZE and reader.get_range(name, size - len(MAGIC), len(MAGIC)) == MAGIC


def _read(reader: ObjectReader, ids: Sequence[str], progress: Progress | None = None) -> Metaranges:
    """Read metaranges. Those of successive commits name mostly the same ranges, which are then decoded
    once."""
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
            " Nothing was deleted. Restore the file (a backup, an older version of the bucket), then start"
            " a new run."
        ) from None
    ranges: Ranges = {}
    unite_ranges(ranges, ((info.id, RangeFacts(info.count, info.min_key, info.max_key)) for info in infos))
    rows = {range_id: row for row, range_id in enumerate(ranges)}
    final = np.array([rows[info.id] for info in infos], np.int32)
    return Metaranges(ranges, {metarange_id: final[found] for metarange_id, found in named.items()})


def unite_ranges(ranges: Ranges, found: Iterable[tuple[str, RangeFacts]]) -> None:
    """Add ranges to those known; raises FormatError when two metaranges disagree about one."""
    for range_id, facts in found:
        known = ranges.setdefault(range_id, facts)
        if (known.count, known.max_key) != (facts.count, facts.max_key):
            raise FormatError(
                f"range {range_id} has {known.count} records in one metarange and {facts.count} in another."
                " Nothing was deleted."
            )
        if facts.head and not known.head:
            ranges[range_id] = replace(known, head=True)


def table_of(ranges: Ranges) -> pa.Table:
    """Ranges as rows, those with small keys first: neighbours share blocks, and are then decoded once."""
    ordered = sorted(ranges.items(), key=lambda item: (item[1].min_key, item[0]))
    return pa.table(
        {
            "range_id": [range_id for range_id, _ in ordered],
            "count": [facts.count for _, facts in ordered],
            "min_key": [facts.min_key for _, facts in ordered],
            "max_key": [facts.max_key for _, facts in ordered],
            "head": [facts.head for _, facts in ordered],
        },
        schema=SCHEMA,
    )


def facts_of(table: pa.Table) -> Iterable[tuple[str, RangeFacts]]:
    """Rows as ranges."""
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    for range_id, *facts in zip(*columns, strict=True):
        yield range_id, RangeFacts(*facts)
