"""From ranges to live sets, in two rounds of tasks.

In the first round (`read_ranges`), each task decodes new ranges and reads parts of the index, and writes their
hashes as sorted files, cut into shards by the first bits of the hash. In the second (`merge_shards`), each task merges
some shards. The driver only knows the names of files.

In an optimized run, only the difference is collected: counts of +1 for addresses of new ranges, -1 for dropped ranges.

The role of a range decides what the first round writes:

    active range    → counts +1           its addresses are live
    in a head       → sizes               of the entries, to find identical content
    dropped range   → counts -1
    expired range   → expired             its addresses give the reason why an object is garbage
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Literal

import pyarrow as pa
from msgspec import Struct, field, structs

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError
from dredge.gc.index.ranges import (
    PATHS,
    Extra,
    RangeHashes,
    Ranges,
    RangeShare,
    decode,
    get_files,
    ranges_table,
    share_ranges,
)
from dredge.gc.index.store import CommittedIndex, IndexPart, NewPart, batches, read_part, write_part
from dredge.gc.list_committed.tables import COUNTED, COUNTS, EXPIRED, LIVE, SIZES
from dredge.gc.namespaces import Keys
from dredge.gc.run import Run
from dredge.runs.folder import RunFolder
from dredge.runs.parts import cache_parts
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import (
    Counted,
    Hashes,
    read_counted,
    read_hashes,
    split,
    unite,
    write_counted,
    write_hashes,
)
from dredge.sets.live import ShardedSet
from dredge.storage import ObjectReader, open_writer

log = logging.getLogger("dredge")

HEAD, ACTIVE = "head", "active"
COUNTED_NEW_HEAD, COUNTED_RANGE = "counted, new head", "counted"
DROPPED_EXPIRED, DROPPED = "dropped, expired", "dropped"

# Roles of ranges with wanted sizes, added to the counts, subtracted from the counts, and giving reasons.
IN_HEADS = (HEAD, COUNTED_NEW_HEAD)
TO_ADD = (HEAD, ACTIVE)
TO_SUBTRACT = (DROPPED_EXPIRED, DROPPED)
TO_EXPLAIN = (DROPPED_EXPIRED, EXPIRED)

_BUFFER_VALUES = 2_000_000
type Purpose = Literal["index", "explain", "subtract"]


class Roles(Struct):
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
            return COUNTED_NEW_HEAD if range_id in self.new_heads else COUNTED_RANGE
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


class ReadConfig(Struct, frozen=True, kw_only=True):
    """The parameters of all tasks."""

    where: str  # folder of the files, in the run folder
    bits: int  # results are cut into 2**bits shards
    roles: PartInfo  # rows of `Roles.table`
    keys: Keys  # the keys to find in the entries


class ReadTask(Struct, frozen=True, kw_only=True):
    """A task."""

    name: str  # begins the names of its files
    ranges: RangeShare | None  # to decode
    parts: list[IndexPart]  # of the index, to read
    # "index" adds the ranges to the index; "explain" does, too, but skips an unreadable range, which only
    # gives reasons; "subtract" skips it as well, and writes no part, because the index had one before
    purpose: Purpose


class Shard(Struct, frozen=True, kw_only=True):
    """A file of one shard; its kind is `SIZES`, `EXPIRED` or `COUNTS`."""

    kind: str
    shard: int
    part: PartInfo


class ReadResult(Struct, frozen=True, kw_only=True):
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
    files, left = get_files(reader, list(ranges), lenient=True), True
    while left:
        try:
            yield from decode(files, ranges, keys)  # continues after an unreadable one
            left = False
        except DredgeError as error:
            log.info("a range of an expired commit cannot be read: %s", error)


class _Sorter:
    """Collects the hashes of ranges by their roles. `named`: addresses, each once a range, counted the same way."""

    def __init__(self, roles: dict[str, str]) -> None:
        # records outside the namespace, of ranges to add less those of ranges to subtract
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
        """Write a file for each shard with values."""
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
    """Unites hashes in bounded memory."""

    def __init__(self) -> None:
        self._pieces: list[Hashes] = []
        self._waiting = 0

    def add(self, values: Hashes) -> None:
        self._pieces.append(values)
        self._waiting += len(values)
        if self._waiting > max(_BUFFER_VALUES, len(self._pieces[0]) // 2):
            self.values()

    def values(self) -> Hashes:
        self._pieces, self._waiting = [unite(self._pieces)], 0
        return self._pieces[0]


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


class Collected(Struct):
    """The sets of a collection."""

    bits: int  # there are 2**bits shards
    # files by kind (`LIVE`, `SIZES`, `EXPIRED`)
    sets: dict[str, list[PartInfo]] = field(default_factory=dict)
    # files of counts, beside the committed index
    counted: list[PartInfo] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)  # figures for the summary
    # ids of unreadable dropped ranges. They were not subtracted and still count
    undropped: set[str] = field(default_factory=set)

    @property
    def parts(self) -> list[PartInfo]:
        """All files of sets."""
        return sorted((part for parts in self.sets.values() for part in parts), key=lambda part: part.name)

    def set_of(self, kind: str) -> ShardedSet:
        """The set of a kind."""
        return ShardedSet.of(self.sets.get(kind, ()), self.bits)

    @property
    def live(self) -> ShardedSet:
        """The live addresses; for a difference only the staged addresses."""
        return self.set_of(LIVE)


def collect_ranges(
    run: Run,
    runner: TaskRunner,
    where: str,
    roles: Roles,
    staged: Sequence[PartInfo],
    counted_bits: int | None = None,
    keep_counts: bool = False,
    index: CommittedIndex | None = None,
) -> Collected:
    """Add new ranges to the index, and unite the addresses of active ranges and staging.

    With `counted_bits` only the difference to reference counts of so many bits is collected. Counts are written for
    later runs with `keep_counts`.
    """
    rows = sum(facts.count for facts in roles.active.values())
    bits = counted_bits
    if bits is None:
        bits = max(0, math.ceil(math.log2(max(1, rows) / run.plan.config.tuning.shard_values)))
    reading = _Reading(run, runner, where, bits, index)
    config = MergeConfig(
        where=where,
        bits=bits,
        is_difference=counted_bits is not None,
        keep_counts=keep_counts,
    )
    found = Collected(bits)
    with cache_parts(run.state.uri):  # ends after all parts beside the lease are written
        reading.read(roles, rows)
        _merge(run, runner, config, reading.shards, staged, found)
    found.undropped = set(roles.dropped) - reading.subtracted
    for name, data in reading.manifests.items():
        run.folder.start(name, partial(run.state.put, name, data))
    names = ("ranges_decoded", "index_parts_read", "index_parts_rebuilt", "outside_rows", "named_addresses")
    found.counts = {name: reading.counts[name] for name in names} | {
        "ranges": len(roles.active) + len(roles.counted),
        "range_rows": rows,
        "live_addresses": found.live.values,
    }
    return found


def collect_paths(run: Run, runner: TaskRunner, where: str, extras: Sequence[Extra]) -> list[Collected]:
    """Collect the addresses kept by rules about paths. Each set of patterns has an index of its own:

    <namespace>/_lakefs/retention/gc/dredge/paths/<digest of the patterns>/index/…
    """
    found = []
    for number, extra in enumerate(extras):
        if extra.kept.paths and extra.ranges:
            digest = hashlib.sha256(json.dumps(extra.kept.paths).encode()).hexdigest()[:32]
            state = open_writer(f"{run.state.uri.rstrip('/')}/{PATHS}/{digest}", run.options)
            view = replace(run, state=state, _keys=structs.replace(run.keys, paths=extra.kept.paths))
            found.append(
                collect_ranges(view, runner, f"{where}/{PATHS}-{number:02d}", Roles(extra.ranges), ())
            )
    return found


class _Reading:
    """The first round."""

    def __init__(
        self, run: Run, runner: TaskRunner, where: str, bits: int, index: CommittedIndex | None
    ) -> None:
        self.shards: list[Shard] = []
        self.counts: Counter[str] = Counter()
        self.subtracted: set[str] = set()  # ids of the dropped ranges that were read
        # manifests by name, to be written after the parts
        self.manifests: dict[str, bytes] = {}
        self._run = run
        self._runner = runner
        self._where = where
        self._bits = bits
        self._index = index

    def read(self, roles: Roles, rows: int) -> None:
        """Read all ranges; `rows` is the number of records of the active ranges."""
        if not (roles.to_read or roles.expired or roles.dropped):
            return
        index = self._index or CommittedIndex.load(self._run.state, self._run.keys.namespace)
        wanted = roles.to_read
        new = {item: facts for item, facts in wanted.items() if index.part_of(item, facts.count) is None}
        used = sorted(index.group(wanted.keys() - new.keys())[0])
        # Expired ranges only give reasons, so an unreadable file is skipped.
        expired = {item: facts for item, facts in roles.expired.items() if item not in roles.dropped}
        explaining, unexplained = index.group(expired)
        config = ReadConfig(
            where=self._where,
            bits=self._bits,
            roles=self._run.folder.write_table(self._where, 0, roles.table(index, new), "roles"),
            keys=self._run.keys,
        )
        self.counts["index_parts_read"] = len(used)
        others = [index.parts[name] for name in explaining if name not in used]
        tasks = [
            *self._tasks("new", "index", new, [index.parts[name] for name in used], rows),
            *self._tasks("expired", "explain", {item: expired[item] for item in unexplained}, others),
            *self._tasks("dropped", "subtract", roles.dropped),
        ]
        while tasks:
            damaged = self._spread(index, config, tasks, rows)
            # The ranges of a damaged part are decoded from their own files.
            lost = {item: facts for item, facts in wanted.items() if index.part_of(item) in damaged}
            tasks = self._tasks("again", "index", lost)
            lost = {item: facts for item, facts in expired.items() if index.part_of(item) in damaged}
            tasks += self._tasks("expired-again", "explain", lost)

    def _spread(
        self, index: CommittedIndex, config: ReadConfig, tasks: list[ReadTask], rows: int
    ) -> set[str]:
        results = self._run.spread(self._runner, self._where, read_ranges, config, tasks, "rows", rows)
        written = [part for result in results for part in result.written]
        label = f"{self._run.folder.label}-{self._where.replace('/', '-')}"
        index.add(label, written, self.manifests.__setitem__)
        damaged = {name for result in results for name in result.damaged}
        for result in results:
            self.shards.extend(result.shards)
            self.subtracted.update(result.subtracted)
        self.counts["ranges_decoded"] += sum(len(part.ids) for part in written)
        self.counts["outside_rows"] += sum(result.outside for result in results)
        self.counts["named_addresses"] += sum(result.named for result in results)
        self.counts["index_parts_rebuilt"] += len(damaged)
        return damaged

    def _tasks(
        self, name: str, purpose: Purpose, ranges: Ranges, parts: Sequence[IndexPart] = (), rows: int = 0
    ) -> list[ReadTask]:
        if not ranges and not parts:
            return []
        table = self._run.folder.write_table(self._where, 0, ranges_table(ranges), f"todo-{name}")
        rows = max(rows, sum(facts.count for facts in ranges.values()))
        num_tasks = self._run.num_tasks_of(self._runner, len(ranges) + len(parts), rows)
        # Neighbouring ranges stay together, because they share blocks; parts of the index are spread.
        shares = zip_longest(share_ranges(table, num_tasks), round_robin(parts, num_tasks))
        return [
            ReadTask(name=f"{name}-{number:05d}", ranges=chunk, parts=share or [], purpose=purpose)
            for number, (chunk, share) in enumerate(shares)
        ]


class MergeConfig(Struct, frozen=True, kw_only=True):
    """The parameters of all merge tasks."""

    where: str  # folder of the files, in the run folder
    bits: int  # there are 2**bits shards
    is_difference: bool  # counts are a layer on those of an earlier run, so they give no live set
    keep_counts: bool  # write counts for later runs, beside the committed index


class Merge(Struct, frozen=True, kw_only=True):
    """Files to merge."""

    kind: str
    shard: int
    parts: list[PartInfo]  # files of the shard
    whole: list[PartInfo]  # files of all shards


class MergeResult(Struct, frozen=True, kw_only=True):
    """The files of a task: sets by kind, in the run folder, and counts."""

    sets: dict[str, list[PartInfo]]
    counted: list[PartInfo]


def _merge(
    run: Run,
    runner: TaskRunner,
    config: MergeConfig,
    shards: Iterable[Shard],
    staged: Sequence[PartInfo],
    found: Collected,
) -> None:
    groups: dict[tuple[str, int], list[PartInfo]] = defaultdict(list)
    for item in shards:
        groups[item.kind, item.shard].append(item.part)
    if staged:
        for shard in range(1 << config.bits):
            groups[COUNTS, shard] += []
    merges = [
        Merge(kind=kind, shard=shard, parts=parts, whole=list(staged) if kind == COUNTS else [])
        for (kind, shard), parts in sorted(groups.items())
    ]
    tasks = run.shares(runner, merges)
    for result in run.spread(runner, config.where, merge_shards, config, tasks, "shards", len(merges)):
        found.counted.extend(result.counted)
        for kind, parts in result.sets.items():
            found.sets.setdefault(kind, []).extend(parts)
    found.counted.sort(key=lambda part: part.name)


@partition_function
def merge_shards(run: WorkerRun, config: MergeConfig, merges: list[Merge]) -> MergeResult:
    """Merge the files of some shards."""
    sets: dict[str, list[PartInfo]] = {}
    counted: list[PartInfo] = []
    for merge in merges:
        kind = merge.kind
        if kind == COUNTS:
            kind, found = LIVE, _merge_counts(run, config, merge, counted)
        else:
            found = unite([read_hashes(run.folder, part) for part in merge.parts])
        name = f"{config.where}/{kind}-{merge.shard:04d}.u64"
        sets.setdefault(kind, []).append(write_hashes(run.folder, name, found))
    return MergeResult(sets=sets, counted=counted)


def _merge_counts(run: WorkerRun, config: MergeConfig, merge: Merge, counted: list[PartInfo]) -> Hashes:
    """Add counts up, and write them as configured; return the live hashes."""
    total = Counted.sum([read_counted(run.folder, part) for part in merge.parts])
    if len(total.hashes) and config.keep_counts:
        state = RunFolder(run.open_state(), run.stores.run_id)
        label = f"{run.folder.label}-{config.where.replace('/', '-')}"
        counted.append(write_counted(state, f"{COUNTED}/{label}-{merge.shard:04d}.counts", total))
    live = [] if config.is_difference else [total.hashes[total.counts > 0]]
    for part in merge.whole:
        live.append(split(read_hashes(run.folder, part), config.bits)[merge.shard])
    return unite(live)
