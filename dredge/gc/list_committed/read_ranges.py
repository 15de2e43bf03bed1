"""The first round of collecting: tasks decode ranges or read them from the index, and write what they name, in shards.

active range    → counts +1           its addresses are live
in a head       → sizes               of the entries, which tell what may be identical content
dropped range   → counts -1
expired range   → expired             its addresses say why an object is garbage
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError
from dredge.gc.index.decoding import RangeHashes, decode
from dredge.gc.index.ranges import Ranges, RangeShare
from dredge.gc.index.store import IndexPart, NewPart, read_part, write_part
from dredge.gc.list_committed.output import COUNTS, EXPIRED, SIZES
from dredge.gc.list_committed.roles import IN_HEADS, TO_ADD, TO_EXPLAIN, TO_SUBTRACT, RoleTable
from dredge.gc.namespaces import METADATA, Keys
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.hashes import Counted, Hashes, split, unite, write_counted, write_hashes
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

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
