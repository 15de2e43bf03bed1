"""What each range is to a run: to be counted, counted by an earlier run, dropped since, or only expired.

The first round of collecting: tasks decode ranges or read them from the index, and write what they name, in shards.

active range    → counts +1           its addresses are live
in a head       → sizes               of the entries, which tell what may be identical content
dropped range   → counts -1
expired range   → expired             its addresses say why an object is garbage
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError
from dredge.gc.index.ranges import RangeHashes, Ranges, RangeShare, decode
from dredge.gc.index.store import CommittedIndex, IndexPart, NewPart, read_part, write_part
from dredge.gc.list_committed.tables import COUNTS, EXPIRED, SIZES
from dredge.gc.namespaces import METADATA, Keys
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.hashes import Counted, Hashes, split, unite, write_counted, write_hashes
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

HEAD, ACTIVE = "head", "active"
COUNTED_NEW_HEAD, COUNTED = "counted, new head", "counted"
DROPPED_EXPIRED, DROPPED = "dropped, expired", "dropped"

IN_HEADS = (HEAD, COUNTED_NEW_HEAD)
"""Roles of ranges whose sizes are wanted."""
TO_ADD = (HEAD, ACTIVE)
"""Roles of ranges that are added to the reference counts."""
TO_SUBTRACT = (DROPPED_EXPIRED, DROPPED)
"""Roles of ranges that are subtracted from the reference counts."""
TO_EXPLAIN = (DROPPED_EXPIRED, EXPIRED)
"""Roles of ranges that say why an object is garbage."""


@dataclass(slots=True)
class Roles:
    """What each range is to this run.

    Attributes:
        active: ranges that are active, and that no earlier run has counted.
        expired: ranges of commits of the history that are not active any more; only read to say why an object is
            garbage.
        counted: ranges that are active, and that an earlier run has counted.
        new_heads: ids of those of the counted ones that are in a branch's head now and were in none then; they are
            read for their sizes.
        dropped: ranges that an earlier run has counted, and that are not active any more.
        dropped_expired: ids of those of the dropped ones that a commit of the history names.
    """

    active: Ranges
    expired: Ranges = field(default_factory=dict)
    counted: Ranges = field(default_factory=dict)
    new_heads: Collection[str] = ()
    dropped: Ranges = field(default_factory=dict)
    dropped_expired: Collection[str] = ()

    @classmethod
    def since(cls, then: Ranges, now: Ranges) -> Roles:
        """The roles in a run that builds on an earlier one.

        Args:
            then: the ranges that were active in the earlier run.
            now: the active ones.
        """
        counted = {range_id: facts for range_id, facts in now.items() if range_id in then}
        return cls(
            active={range_id: facts for range_id, facts in now.items() if range_id not in then},
            counted=counted,
            new_heads={
                range_id for range_id, facts in counted.items() if facts.head and not then[range_id].head
            },
            dropped={range_id: facts for range_id, facts in then.items() if range_id not in now},
        )

    def role(self, range_id: str) -> str:
        """One of the roles that are named in this module."""
        if range_id in self.active:
            return HEAD if self.active[range_id].head else ACTIVE
        if range_id in self.counted:
            return COUNTED_NEW_HEAD if range_id in self.new_heads else COUNTED
        if range_id in self.dropped:
            return DROPPED_EXPIRED if range_id in self.dropped_expired else DROPPED
        return EXPIRED

    @property
    def to_read(self) -> Ranges:
        """The ranges that must be decoded or found in the index."""
        return self.active | {range_id: self.counted[range_id] for range_id in self.new_heads}

    def table(self, index: CommittedIndex, new: Collection[str]) -> pa.Table:
        """Rows for `RoleTable`: range ids, roles, and the part of the index that counts for each range.

        Args:
            index: the committed index.
            new: ids of the ranges that are decoded now, so that no part of the index counts for them.
        """
        ids = sorted({*self.active, *self.counted, *self.dropped, *self.expired})
        parts = ["" if item in new else index.part_of(item) or "" for item in ids]
        roles = [self.role(item) for item in ids]
        return pa.table({"range_id": pa.array(ids, pa.string()), "role": roles, "part": parts})


@dataclass(frozen=True, slots=True)
class RoleTable:
    """Roles, as a task looks them up.

    Attributes:
        roles: by range id.
        parts: name of the part of the index that counts, by range id; "" where none does.
    """

    roles: dict[str, str]
    parts: dict[str, str]

    @classmethod
    def read(cls, folder: RunFolder, part: PartInfo) -> RoleTable:
        """Read the rows that `Roles.table` made."""
        table = folder.read_part(part)
        ids, roles, parts = (table[name].to_pylist() for name in ("range_id", "role", "part"))
        return cls(dict(zip(ids, roles, strict=True)), dict(zip(ids, parts, strict=True)))

    def counting(self, part: str, ranges: Iterable[RangeHashes]) -> Iterator[RangeHashes]:
        """The ranges in a part of the index for which no other part counts; never dropped ones, which tasks of their
        own decode."""
        for item in ranges:
            if self.parts.get(item.range_id) == part and self.roles[item.range_id] not in TO_SUBTRACT:
                yield item

    def in_head(self, range_id: str) -> bool:
        """Whether the sizes of a range are wanted."""
        return self.roles.get(range_id) in IN_HEADS


_PART_VALUES = 2_000_000
_BUFFER_VALUES = 8_000_000
_AT_ONCE = 16

type Purpose = Literal["index", "explain", "subtract"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """What all tasks need.

    Attributes:
        where: folder of the files, in the run folder.
        bits: results are cut into 2**bits shards.
        roles: rows for `RoleTable`.
        keys: that are looked for in the entries.
    """

    where: str
    bits: int
    roles: PartInfo
    keys: Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """One task.

    Attributes:
        name: makes the names of its files.
        ranges: to decode.
        parts: of the index, to read.
        purpose: of decoding: "index" puts the ranges into the index; "explain" does, too, but passes over a range
            that cannot be read, because nothing depends on it; "subtract" passes over such ranges as well, and writes
            nothing, because the index had them when they were new.
    """

    name: str
    ranges: RangeShare | None
    parts: list[IndexPart]
    purpose: Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A file of one shard of what a task found.

    Attributes:
        kind: `SIZES`, `EXPIRED` or `COUNTS`.
        shard: its number.
        part: the file.
    """

    kind: str
    shard: int
    part: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What a task found.

    Attributes:
        shards: files.
        written: new parts of the index.
        damaged: names of parts of the index that cannot be trusted.
        outside: number of records outside the namespace, of ranges to add less those of ranges to subtract.
        named: the same of the addresses that they name, each once a range.
        subtracted: ids of the dropped ranges that were read.
    """

    shards: list[Shard]
    written: list[NewPart]
    damaged: list[str]
    outside: int
    named: int
    subtracted: list[str]


@partition_function
def read_ranges(run: WorkerRun, config: ReadConfig, task: ReadTask) -> ReadResult:
    """Decode some ranges, read some parts of the index, and write what they name."""
    state = run.open_state()
    table = RoleTable.read(run.folder, config.roles)
    sorter = _Sorter(table.roles)
    written: list[NewPart] = []
    damaged: list[str] = []
    subtracted: list[str] = []
    ranges = task.ranges.read(run.folder) if task.ranges else {}
    name = f"{run.folder.label}-{config.where.replace('/', '-')}-{task.name}"
    for batch in _batches(_decode(run, ranges, config.keys, lenient=task.purpose != "index")):
        if task.purpose == "subtract":
            subtracted.extend(item.range_id for item in batch)
        else:
            written.append(write_part(state, f"{name}-{len(written):04d}", batch))
        sorter.add(batch)
        run.progress.add(sum(item.count for item in batch))
    for part in task.parts:
        try:
            batch = read_part(state, part, table.in_head)
        except FormatError:
            damaged.append(part.name)
            continue
        sorter.add(table.counting(part.name, batch))
        run.progress.add(sum(item.count for item in batch))
    return ReadResult(
        shards=list(sorter.write(run.folder, f"{config.where}/partial/{task.name}", config.bits)),
        written=written,
        damaged=damaged,
        outside=sorter.outside,
        named=sorter.named,
        subtracted=subtracted,
    )


def _batches(ranges: Iterable[RangeHashes]) -> Iterator[list[RangeHashes]]:
    """Ranges in lists that are long enough for a part of the index each."""
    batch: list[RangeHashes] = []
    values = 0
    for item in ranges:
        batch.append(item)
        values += len(item.addresses) + len(item.sizes)
        if values >= _PART_VALUES:
            yield batch
            batch, values = [], 0
    if batch:
        yield batch


def _decode(run: WorkerRun, ranges: Ranges, keys: Keys, lenient: bool) -> Iterator[RangeHashes]:
    reader = run.open_store()
    if lenient:
        yield from _decode_leniently(reader, ranges, keys)
        return
    files = reader.get_many([METADATA + range_id for range_id in ranges])
    try:
        yield from decode(files, ranges, keys.namespace, keys.own)
    except NotFoundError as error:
        raise RefusedError(
            f"a range of an active commit is missing: {error}. Its objects cannot be told from garbage."
            " Nothing was deleted. Restore the file (a backup, an older version of the bucket; what"
            " `metadata = delete` let go, `dredge gc metadata --note` puts back), then start"
            " a new run. If only a lost commit names it (`dredge gc lost` lists those), `dredge gc forget-lost` gives"
            " the commit up."
        ) from None


def _decode_leniently(reader: ObjectReader, ranges: Ranges, keys: Keys) -> Iterator[RangeHashes]:
    def read(range_id: str) -> tuple[str, bytes | DredgeError]:
        try:
            return range_id, reader.get(METADATA + range_id)
        except DredgeError as error:
            return range_id, error

    for range_id, found in ordered_map(read, list(ranges), _AT_ONCE):
        try:
            if isinstance(found, DredgeError):
                raise found
            yield from list(decode([(METADATA + range_id, found)], ranges, keys.namespace, keys.own))
        except DredgeError as error:
            log.info("range %s of an expired commit cannot be read: %s", range_id, error)


class _Sorter:
    """Puts what ranges name where their roles want it.

    Args:
        roles: by range id.

    Attributes:
        outside: number of records outside the namespace, of ranges to add less those of ranges to subtract.
        named: the same of the addresses that they name, each once a range.
    """

    def __init__(self, roles: dict[str, str]) -> None:
        self.outside = self.named = 0
        self._roles = roles
        self._sets = {SIZES: _SetBuffer(), EXPIRED: _SetBuffer()}
        self._counts = _CountBuffer()

    def add(self, ranges: Iterable[RangeHashes]) -> None:
        for item in ranges:
            role = self._roles[item.range_id]
            if role in TO_EXPLAIN:
                self._sets[EXPIRED].add(item.addresses)
            if role in TO_SUBTRACT:
                self.outside -= item.outside
                self.named -= len(item.addresses)
                self._counts.add(item.addresses, -1)
            if role in TO_ADD:
                self.outside += item.outside
                self.named += len(item.addresses)
                self._counts.add(item.addresses, 1)
            if role in IN_HEADS:
                self._sets[SIZES].add(item.sizes)

    def write(self, folder: RunFolder, name: str, bits: int) -> Iterator[Shard]:
        """Write what was found, a file for each shard that is not empty."""
        for kind, buffer in self._sets.items():
            for shard, values in enumerate(split(buffer.values(), bits)):
                if len(values):
                    part = write_hashes(folder, f"{name}-{kind}-{shard:04d}.u64", values)
                    yield Shard(kind=kind, shard=shard, part=part)
        for shard, counted in enumerate(self._counts.values().split(bits)):
            if len(counted.hashes):
                part = write_counted(folder, f"{name}-{COUNTS}-{shard:04d}.counts", counted)
                yield Shard(kind=COUNTS, shard=shard, part=part)


class _SetBuffer:
    """Collects values in bounded memory: from time to time they are made distinct."""

    def __init__(self) -> None:
        self._pieces: list[Hashes] = []
        self._length = 0

    def add(self, values: Hashes) -> None:
        self._pieces.append(values)
        self._length += len(values)
        if self._length > _BUFFER_VALUES and len(self._pieces) > 1:
            self._pieces = [unite(self._pieces)]
            self._length = len(self._pieces[0]) // 2  # grow by as much again before the next time

    def values(self) -> Hashes:
        return unite(self._pieces)


class _CountBuffer:
    """Counts in how many ranges each hash is, in bounded memory: from time to time counts are summed up."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[Hashes]] = {1: [], -1: []}
        self._length = 0
        self._summed = Counted()

    def add(self, values: Hashes, sign: int) -> None:
        self._pieces[sign].append(values)
        self._length += len(values)
        if self._length > max(_BUFFER_VALUES, len(self._summed.hashes) // 2):
            self._sum_up()

    def values(self) -> Counted:
        self._sum_up()
        return self._summed

    def _sum_up(self) -> None:
        found = [Counted.of(pieces, sign) for sign, pieces in self._pieces.items()]
        self._summed = Counted.sum([self._summed, *found])
        self._pieces, self._length = {1: [], -1: []}, 0
