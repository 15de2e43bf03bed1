"""Ranges: what metaranges say of them, as rows, and in shares for tasks.

Metaranges: which ranges each of them names, read by the driver when they are few, else by tasks.

From a range file to what a collection compares: hashes of the addresses it names, sizes, and paths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.ranges import RangeInfo, is_table_id
from dredge.lakefs.files.sstable import METARANGES, RANGES, read_table
from dredge.lakefs.files.sstable.columns import Expected, decode_ranges, read_addresses
from dredge.lakefs.files.sstable.envelope import read_envelope
from dredge.lakefs.files.sstable.layout import FOOTER_SIZE, MAGIC
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Progress, TaskRunner, WorkerRun, in_chunks, partition_function, round_robin
from dredge.sets.hashes import Hashes, unite
from dredge.storage import ObjectReader

SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("head", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class RangeFacts:
    """What metaranges say of a range.

    Attributes:
        count: number of records.
        min_key: its first key; only a hint where it belongs among others.
        max_key: its last key.
        head: whether it is in the head of some branch.
    """

    count: int
    min_key: bytes
    max_key: bytes
    head: bool = False


type Ranges = dict[str, RangeFacts]
"""By range id."""


def unite_ranges(ranges: Ranges, found: Iterable[tuple[str, RangeFacts]]) -> None:
    """Add ranges to others; raises FormatError when two metaranges disagree about one."""
    for range_id, facts in found:
        there = ranges.setdefault(range_id, facts)
        if (there.count, there.max_key) != (facts.count, facts.max_key):
            raise FormatError(
                f"range {range_id} has {there.count} records in one metarange and {facts.count} in another."
                " Nothing was deleted."
            )
        if facts.head and not there.head:
            ranges[range_id] = replace(there, head=True)


def table_of(ranges: Ranges) -> pa.Table:
    """Ranges as rows (`SCHEMA`), in the order of their keys: neighbours share blocks, which are then decoded once."""
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


def facts_of(table: pa.Table) -> Iterator[tuple[str, RangeFacts]]:
    """Ranges from the rows that `table_of` made."""
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    for range_id, *facts in zip(*columns, strict=True):
        yield range_id, RangeFacts(*facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeShare:
    """Neighbouring rows of a table of ranges: those that one task works on.

    Attributes:
        table: rows (`SCHEMA`).
        first: index of the first row.
        stop: index after the last row.
    """

    table: PartInfo
    first: int
    stop: int

    def read(self, folder: RunFolder) -> Ranges:
        """The ranges, in the order of their keys."""
        rows = folder.read_part(self.table).slice(self.first, self.stop - self.first)
        return dict(facts_of(rows))


def share_ranges(table: PartInfo, num_tasks: int) -> list[RangeShare]:
    """Split a table of ranges into at most so many shares, none empty."""
    chunks = in_chunks(range(table.rows), num_tasks)
    return [RangeShare(table=table, first=chunk[0], stop=chunk[-1] + 1) for chunk in chunks]


def find_range_files(reader: ObjectReader, read_before: Iterable[str]) -> tuple[Ranges, list[str]]:
    """Find range files of the namespace, whatever names them.

    They are needed where every commit counts as active.

    Files are told apart by their content: metaranges and refs dumps are left out, and so is everything that is not
    a table. A file whose name is a table's id but which cannot be read as one stops the run.

    Args:
        reader: on the storage namespace.
        read_before: names of files below `_lakefs/` that need not be read: ranges and metaranges that were read
            already, and what an earlier run looked at (files there never change).

    Returns:
        The other ranges, and the names of the files that were looked at.

    Raises:
        FormatError: a damaged table.
    """
    have = set(read_before)
    files = reader.list_level(METADATA).objects
    names = [info.key for info in files]
    unread = [name for name in names if name.removeprefix(METADATA) not in have]
    tables = [name for name in unread if _is_table(reader, name)]
    ranges: Ranges = {}
    for name, data in reader.get_many(tables):
        envelope = read_envelope(data, name, None, None)
        if envelope.kind == RANGES and envelope.entity is None and envelope.records:
            ranges[name.removeprefix(METADATA)] = RangeFacts(envelope.records, b"", envelope.max_key)
    return ranges, [name.removeprefix(METADATA) for name in unread]


def _is_table(reader: ObjectReader, name: str) -> bool:
    if is_table_id(name.removeprefix(METADATA)):
        return True
    size = reader.stat(name).size
    return size >= FOOTER_SIZE and reader.get_range(name, size - len(MAGIC), len(MAGIC)) == MAGIC


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


_COLUMNS = ("address_type", "address_hash", "size")


@dataclass(frozen=True, slots=True)
class RangeHashes:
    """What the committed index keeps of a range.

    Attributes:
        range_id: its name.
        count: number of records, verified.
        outside: number of records whose address lies outside the namespace, and so has no hash.
        addresses: hashes of all keys of the namespace that its entries may mean, sorted and distinct.
        sizes: in bytes, as the entries state them, sorted and distinct.
    """

    range_id: str
    count: int
    outside: int
    addresses: Hashes
    sizes: Hashes


def decode(
    files: Iterable[tuple[str, bytes]], ranges: Ranges, namespace: str, own: bool = True
) -> Iterator[RangeHashes]:
    """Decode range files.

    Args:
        files: key relative to the namespace, and content; fastest in the order of their first keys.
        ranges: what the metaranges say of each.
        namespace: URI of the namespace whose keys are looked for.
        own: whether the ranges are those of its repository (`Keys`).

    Raises:
        FormatError: damaged, or not the range that its name and metarange promise.
    """
    expected = {
        METADATA + range_id: Expected(facts.count, facts.max_key) for range_id, facts in ranges.items()
    }
    # A file is needed twice when some of its addresses are not relative, so it is kept while it is decoded.
    latest: dict[str, bytes] = {}

    def remembering() -> Iterator[tuple[str, bytes]]:
        for key, data in files:
            latest.clear()
            latest[key] = data
            yield key, data

    for key, rows in decode_ranges(remembering(), _COLUMNS, expected):
        addresses, outside = rows["address_hash"].to_numpy(), 0
        if np.any(rows["address_type"].to_numpy() != AddressType.RELATIVE):
            addresses, outside = _resolved(latest[key], key, namespace, addresses, own)
        elif not own:
            addresses, outside = addresses[:0], rows.num_rows
        yield RangeHashes(
            key.removeprefix(METADATA),
            rows.num_rows,
            outside,
            unite([addresses]),
            unite([rows["size"].to_numpy().astype(np.uint64)]),
        )


def _resolved(data: bytes, key: str, namespace: str, hashes: Hashes, own: bool) -> tuple[Hashes, int]:
    """Replace hashes of addresses that are not relative by those of the keys they may mean."""
    rows = read_addresses(data, key)
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    keys, outside = _other_keys(rows.filter(pc.invert(relative)), namespace)
    if not own:
        return hash64(keys), outside + pc.sum(relative).as_py()
    return np.concatenate([hashes[relative.to_numpy(False)], hash64(keys)]), outside


def keys_of(data: bytes, key: str, namespace: str, own: bool = True) -> pa.Array:
    """Every key of the namespace that the entries of a range may mean.

    Args:
        data: the file.
        key: what to call it in errors.
        namespace: URI.
        own: whether the range is one of its repository (`Keys`).

    Raises:
        FormatError: damaged.
    """
    rows = read_addresses(data, key)
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    found, _ = _other_keys(rows.filter(pc.invert(relative)), namespace)
    return pa.concat_arrays([rows["address"].filter(relative), found]) if own else found


def _other_keys(rows: pa.RecordBatch, namespace: str) -> tuple[pa.Array, int]:
    """The keys that addresses which are not relative may mean, and how many of the addresses lie outside the
    namespace."""
    pairs = zip(rows["address"].to_pylist(), rows["address_type"].to_pylist(), strict=True)
    readings = [address_readings(address, kind, namespace) for address, kind in pairs]
    return pa.array([key for found in readings for key in found], pa.string()), readings.count(())


@dataclass(frozen=True, slots=True)
class HeadEntries:
    """Entries of a range as columns, in key order.

    Attributes:
        paths: raw bytes; a path need not be UTF-8.
        sizes: in bytes, as the entries state them.
    """

    paths: pa.BinaryArray
    sizes: Hashes


def entries_of(data: bytes, key: str, expected_count: int) -> HeadEntries:
    """Decode a range with its paths.

    Args:
        data: the file.
        key: what to call it in errors.
        expected_count: number of records that the metarange states.

    Raises:
        FormatError: damaged.
    """
    rows = read_addresses(data, key, ("key", "size"))
    if rows.num_rows != expected_count:
        raise FormatError(f"{key} has {rows.num_rows} records, its metarange says {expected_count}")
    return HeadEntries(rows["key"], rows["size"].to_numpy().astype(np.uint64))
