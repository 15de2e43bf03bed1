"""From ranges to live sets, in two rounds of tasks.

In the first round (`read_ranges`), each task decodes new ranges and reads parts of the index, and writes their
hashes as sorted files, cut into shards by the first bits of the hash. In the second (`merge_shards`), each task merges
some shards. The driver only knows the names of files.

In an optimized run, only the difference is collected: counts of +1 for addresses of new ranges, -1 for dropped ranges.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from dredge.gc.index.ranges import Ranges, ranges_table, share_ranges
from dredge.gc.index.store import CommittedIndex, IndexPart
from dredge.gc.list_committed.read_ranges import Purpose, ReadConfig, ReadTask, Roles, Shard, read_ranges
from dredge.gc.list_committed.tables import COUNTED, COUNTS, LIVE
from dredge.gc.retention.kept_sets import PATHS, Extra
from dredge.gc.run import Run
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
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
from dredge.storage import open_writer

_TASK_VALUES = 50_000_000


@dataclass(slots=True)
class Collected:
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
    reading.read(roles, rows)
    config = MergeConfig(
        where=where,
        bits=bits,
        is_difference=counted_bits is not None,
        keep_counts=keep_counts,
    )
    found = Collected(bits, undropped=set(roles.dropped) - reading.subtracted)
    _merge(run, runner, config, reading.shards, staged, found)
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
            view = replace(run, state=state, _keys=replace(run.keys, paths=extra.kept.paths))
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
        index.add(f"{self._run.folder.label}-{self._where.replace('/', '-')}", written)
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
        num_tasks = self._run.num_tasks(self._runner, len(ranges) + len(parts))
        num_tasks = max(num_tasks, math.ceil(rows / _TASK_VALUES))
        # Neighbouring ranges stay together, because they share blocks; parts of the index are spread.
        shares = zip_longest(share_ranges(table, num_tasks), round_robin(parts, num_tasks))
        return [
            ReadTask(name=f"{name}-{number:05d}", ranges=chunk, parts=share or [], purpose=purpose)
            for number, (chunk, share) in enumerate(shares)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConfig:
    """The parameters of all merge tasks."""

    where: str  # folder of the files, in the run folder
    bits: int  # there are 2**bits shards
    is_difference: bool  # counts are a layer on those of an earlier run, so they give no live set
    keep_counts: bool  # write counts for later runs, beside the committed index


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Files to merge."""

    kind: str
    shard: int
    parts: list[PartInfo]  # files of the shard
    whole: list[PartInfo]  # files of all shards


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
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
    tasks = round_robin(merges, run.num_tasks(runner, len(merges)))
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
