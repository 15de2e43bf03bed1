"""The first round of collecting: the roles of ranges, and tasks that write their hashes by role, in shards.

active range    → counts +1           its addresses are live
in a head       → sizes               of the entries, to find identical content
dropped range   → counts -1
expired range   → expired             its addresses give the reason why an object is garbage
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError
from dredge.gc.index.ranges import RangeHashes, Ranges, RangeShare, decode, get_files
from dredge.gc.index.store import CommittedIndex, IndexPart, NewPart, batches, read_part, write_part
from dredge.gc.list_committed.tables import COUNTS, EXPIRED, SIZES
from dredge.gc.namespaces import Keys
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.hashes import Counted, Hashes, split, write_counted, write_hashes
from dredge.storage import ObjectReader

log = logging.getLogger("dredge")

HEAD, ACTIVE = "head", "active"
COUNTED_NEW_HEAD, COUNTED = "counted, new head", "counted"
DROPPED_EXPIRED, DROPPED = "dropped, expired", "dropped"

# Roles of ranges with wanted sizes, added to the counts, subtracted from the counts, and giving reasons.
IN_HEADS = (HEAD, COUNTED_NEW_HEAD)
TO_ADD = (HEAD, ACTIVE)
TO_SUBTRACT = (DROPPED_EXPIRED, DROPPED)
TO_EXPLAIN = (DROPPED_EXPIRED, EXPIRED)

_BUFFER_VALUES = 8_000_000
type Purpose = Literal["index", "explain", "subtract"]


@dataclass(slots=True)
class Roles:
    """The role of each range in a run."""

    active: Ranges  # active ranges not counted by an earlier run
    expired: Ranges = field(default_factory=dict)  # ranges of expired commits, read only for reasons
    counted: Ranges = field(default_factory=dict)  # active ranges counted by an earlier run
    # ids of counted ranges that are in a branch head now and were in none then; read for their sizes
    new_heads: Collection[str] = ()
    # ranges counted by an earlier run that are not active any more
    dropped: Ranges = field(default_factory=dict)
    dropped_expired: Collection[str] = ()  # ids of dropped ranges of expired commits

    @classmethod
    def since(cls, then: Ranges, now: Ranges) -> Roles:
        """The roles in an optimized run, from the active ranges of the run before and of now."""
        counted = {range_id: facts for range_id, facts in now.items() if range_id in then}
        return cls(
            active={range_id: facts for range_id, facts in now.items() if range_id not in then},
            counted=counted,
            new_heads={
                range_id for range_id, facts in counted.items() if facts.head and not then[range_id].head
            },
            dropped={range_id: facts for range_id, facts in then.items() if range_id not in now},
        )

    @property
    def to_read(self) -> Ranges:
        """The ranges to decode or to find in the index."""
        return self.active | {range_id: self.counted[range_id] for range_id in self.new_heads}

    def table(self, index: CommittedIndex, new: Collection[str]) -> pa.Table:
        """Rows for `_RoleTable`: range id, role, and the part of the index that counts; "" for ranges decoded now."""
        ids = sorted({*self.active, *self.counted, *self.dropped, *self.expired})
        parts = ["" if item in new else index.part_of(item) or "" for item in ids]
        roles = [self._role(item) for item in ids]
        return pa.table({"range_id": pa.array(ids, pa.string()), "role": roles, "part": parts})

    def _role(self, range_id: str) -> str:
        if range_id in self.active:
            return HEAD if self.active[range_id].head else ACTIVE
        if range_id in self.counted:
            return COUNTED_NEW_HEAD if range_id in self.new_heads else COUNTED
        if range_id in self.dropped:
            return DROPPED_EXPIRED if range_id in self.dropped_expired else DROPPED
        return EXPIRED


class _RoleTable:
    def __init__(self, table: pa.Table) -> None:
        ids, roles, parts = (table[name].to_pylist() for name in ("range_id", "role", "part"))
        self.roles: dict[str, str] = dict(zip(ids, roles, strict=True))
        self._parts: dict[str, str] = dict(zip(ids, parts, strict=True))

    def counting(self, part: str, ranges: Iterable[RangeHashes]) -> Iterator[RangeHashes]:
        """Yield the ranges of a part of the index, if it counts for them, without dropped ranges (they have own
        tasks)."""
        for item in ranges:
            if self._parts.get(item.range_id) == part and self.roles[item.range_id] not in TO_SUBTRACT:
                yield item

    def in_head(self, range_id: str) -> bool:
        return self.roles.get(range_id) in IN_HEADS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """The parameters of all tasks."""

    where: str  # folder of the files, in the run folder
    bits: int  # results are cut into 2**bits shards
    roles: PartInfo  # rows of `Roles.table`
    keys: Keys  # the keys to find in the entries


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """A task."""

    name: str  # begins the names of its files
    ranges: RangeShare | None  # to decode
    parts: list[IndexPart]  # of the index, to read
    # "index" adds the ranges to the index; "explain" does, too, but skips an unreadable range, which only
    # gives reasons; "subtract" skips it as well, and writes no part, because the index had one before
    purpose: Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A file of one shard; its kind is `SIZES`, `EXPIRED` or `COUNTS`."""

    kind: str
    shard: int
    part: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """The result of a task."""

    shards: list[Shard]
    written: list[NewPart]  # new parts of the index
    damaged: list[str]  # names of damaged parts of the index
    outside: int  # records outside the namespace, of ranges to add less those of ranges to subtract
    named: int  # addresses, each once a range, counted the same way
    subtracted: list[str]  # ids of the dropped ranges that were read


@partition_function
def read_ranges(run: WorkerRun, config: ReadConfig, task: ReadTask) -> ReadResult:
    """Decode ranges, read parts of the index, and write their hashes."""
    state = run.open_state()
    table = _RoleTable(run.folder.read_part(config.roles))
    sorter = _Sorter(table.roles)
    written: list[NewPart] = []
    damaged: list[str] = []
    subtracted: list[str] = []
    ranges = task.ranges.read(run.folder) if task.ranges else {}
    name = f"{run.folder.label}-{config.where.replace('/', '-')}-{task.name}"
    for batch in batches(_decode(run, ranges, config.keys, lenient=task.purpose != "index")):
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


def _decode(run: WorkerRun, ranges: Ranges, keys: Keys, lenient: bool) -> Iterator[RangeHashes]:
    reader = run.open_store()
    if lenient:
        yield from _decode_leniently(reader, ranges, keys)
        return
    try:
        yield from decode(get_files(reader, list(ranges)), ranges, keys)
    except NotFoundError as error:
        raise RefusedError(
            f"a range of an active commit is missing: {error}. Its live objects are unknown."
            " Nothing was deleted. Restore the file (from a backup or an older version of the bucket; `dredge gc"
            " metadata --note` restores files deleted by `metadata = delete`), then start"
            " a new run. If it belongs to a lost commit only (`dredge gc lost` lists those), give the commit up by"
            " `dredge gc forget-lost`."
        ) from None


def _decode_leniently(reader: ObjectReader, ranges: Ranges, keys: Keys) -> Iterator[RangeHashes]:
    for key, data in get_files(reader, list(ranges), lenient=True):
        try:
            yield from list(decode([(key, data)], ranges, keys))
        except DredgeError as error:
            log.info("%s, a range of an expired commit, cannot be read: %s", key, error)


class _Sorter:
    """Collects the hashes of ranges by their roles.

    Attributes:
        named: addresses, each once a range, counted the same way.
    """

    def __init__(self, roles: dict[str, str]) -> None:
        # records outside the namespace, of ranges to add less those of ranges to subtract
        self.outside = self.named = 0
        self._roles = roles
        self._sets = {SIZES: _CountBuffer(), EXPIRED: _CountBuffer()}
        self._counts = _CountBuffer()

    def add(self, ranges: Iterable[RangeHashes]) -> None:
        for item in ranges:
            role = self._roles[item.range_id]
            if role in TO_EXPLAIN:
                self._sets[EXPIRED].add(item.addresses, 1)
            if role in TO_SUBTRACT:
                self.outside -= item.outside
                self.named -= len(item.addresses)
                self._counts.add(item.addresses, -1)
            if role in TO_ADD:
                self.outside += item.outside
                self.named += len(item.addresses)
                self._counts.add(item.addresses, 1)
            if role in IN_HEADS:
                self._sets[SIZES].add(item.sizes, 1)

    def write(self, folder: RunFolder, name: str, bits: int) -> Iterator[Shard]:
        """Write a file for each shard with values."""
        for kind, buffer in self._sets.items():
            for shard, values in enumerate(split(buffer.values().hashes, bits)):
                if len(values):
                    part = write_hashes(folder, f"{name}-{kind}-{shard:04d}.u64", values)
                    yield Shard(kind=kind, shard=shard, part=part)
        for shard, counted in enumerate(self._counts.values().split(bits)):
            if len(counted.hashes):
                part = write_counted(folder, f"{name}-{COUNTS}-{shard:04d}.counts", counted)
                yield Shard(kind=COUNTS, shard=shard, part=part)


class _CountBuffer:
    """Counts the ranges of each hash in bounded memory: counts are added up from time to time."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[Hashes]] = {1: [], -1: []}
        self._length = 0
        self._summed = Counted()

    def add(self, values: Hashes, sign: int) -> None:
        self._pieces[sign].append(values)
        self._length += len(values)
        if self._length > max(_BUFFER_VALUES, len(self._summed.hashes) // 2):
            self.values()

    def values(self) -> Counted:
        found = [Counted.of(pieces, sign) for sign, pieces in self._pieces.items()]
        self._summed = Counted.sum([self._summed, *found])
        self._pieces, self._length = {1: [], -1: []}, 0
        return self._summed
