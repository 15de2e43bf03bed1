"""The second round of collecting: tasks merge what those of the first found, shard by shard.

From ranges to live sets: new ranges are decoded into the index, others read from it, and all hashes united.

Two rounds of tasks. In the first (`read_ranges`), each task takes some new ranges and some parts of the index, and
writes what they name as sorted files, cut into shards by the first bits of the hash. In the second (`merge_shards`),
each task takes some shards. No task reads more than its share, and the driver knows only the names of files.

In a run that builds on an earlier one, only the difference is collected: what new ranges add and what dropped ones
subtract, as counts.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from dredge.gc.index.ranges import Ranges, share_ranges, table_of
from dredge.gc.index.store import CommittedIndex, IndexPart
from dredge.gc.list_committed.read_ranges import Purpose, ReadConfig, ReadTask, Roles, Shard, read_ranges
from dredge.gc.list_committed.tables import COUNTED, COUNTS, LIVE
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConfig:
    """What all tasks need.

    Attributes:
        where: folder of the files, in the run folder.
        bits: there are 2**bits shards.
        is_difference: counts are a layer on an earlier run's, and by themselves say nothing of what is live.
        keep_counts: write counts that a later run can build on, beside the committed index.
        count_here: write counts for this run alone, into its own folder.
    """

    where: str
    bits: int
    is_difference: bool
    keep_counts: bool
    count_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What is to be merged into one file.

    Attributes:
        kind: of the files.
        shard: its number.
        parts: files of that shard.
        whole: files of which only that shard counts.
    """

    kind: str
    shard: int
    parts: list[PartInfo]
    whole: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """One task."""

    merges: list[Merge]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What a task wrote.

    Attributes:
        sets: files by kind, in the run folder.
        counted: files of counts, beside the committed index or in the run folder.
    """

    sets: dict[str, list[PartInfo]]
    counted: list[PartInfo]


@partition_function
def merge_shards(run: WorkerRun, config: MergeConfig, task: MergeTask) -> MergeResult:
    """Merge the files of some shards."""
    sets: dict[str, list[PartInfo]] = {}
    counted: list[PartInfo] = []
    for merge in task.merges:
        kind = merge.kind
        if kind == COUNTS:
            kind, found = LIVE, _merge_counts(run, config, merge, counted)
        else:
            found = unite([read_hashes(run.folder, part) for part in merge.parts])
        name = f"{config.where}/{kind}-{merge.shard:04d}.u64"
        sets.setdefault(kind, []).append(write_hashes(run.folder, name, found))
    return MergeResult(sets=sets, counted=counted)


def _merge_counts(run: WorkerRun, config: MergeConfig, merge: Merge, counted: list[PartInfo]) -> Hashes:
    """Sum counts up, and write them where they are wanted; gives the hashes that are live."""
    total = Counted.sum([read_counted(run.folder, part) for part in merge.parts])
    counted.extend(_write_counts(run, config, merge.shard, total))
    live = [] if config.is_difference else [total.hashes[total.counts > 0]]
    for part in merge.whole:
        live.append(split(read_hashes(run.folder, part), config.bits)[merge.shard])
    return unite(live)


def _write_counts(run: WorkerRun, config: MergeConfig, shard: int, total: Counted) -> Iterable[PartInfo]:
    if not len(total.hashes):
        return
    if config.count_here:
        yield write_counted(run.folder, f"{config.where}/{COUNTS}-{shard:04d}.counts", total)
    elif config.keep_counts:
        state = RunFolder(run.open_state(), run.stores.run_id)
        label = f"{run.folder.label}-{config.where.replace('/', '-')}"
        yield write_counted(state, f"{COUNTED}/{label}-{shard:04d}.counts", total)


_TASK_VALUES = 50_000_000


@dataclass(slots=True)
class Collected:
    """What collecting gave.

    Attributes:
        bits: there are 2**bits shards.
        sets: files by kind (`LIVE`, `SIZES`, `EXPIRED`).
        counted: files of counts, beside the committed index or in the run folder.
        counts: figures for the summary.
        undropped: ids of dropped ranges that cannot be read any more. They were not subtracted and still count.
    """

    bits: int
    sets: dict[str, list[PartInfo]] = field(default_factory=dict)
    counted: list[PartInfo] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
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
        """What is live; where a difference was collected, only what is staged."""
        return self.set_of(LIVE)


def collect_ranges(
    run: Run,
    runner: TaskRunner,
    where: str,
    roles: Roles,
    staged: Sequence[PartInfo],
    counted_bits: int | None = None,
    keep_counts: bool = False,
    count_here: bool = False,
) -> Collected:
    """Make sure that the index has every range, and unite what the active ones and staging name.

    Args:
        run: the run.
        runner: spreads the work.
        where: folder of the files, in the run folder.
        roles: the ranges.
        staged: files of hashes that are live as well.
        counted_bits: collect a difference to reference counts of so many bits; the live set is then only what is
            staged. None collects everything.
        keep_counts: write counts that a later run can build on.
        count_here: write counts for this run alone, into its own folder.

    Raises:
        RefusedError: a range is missing.
        FormatError: a range is damaged, or not what its metarange says.
    """
    rows = sum(facts.count for facts in roles.active.values())
    bits = counted_bits
    if bits is None:
        bits = max(0, math.ceil(math.log2(max(1, rows) / run.plan.config.tuning.shard_values)))
    reading = _Reading(run, runner, where, bits)
    reading.read(roles, rows)
    config = MergeConfig(
        where=where,
        bits=bits,
        is_difference=counted_bits is not None,
        keep_counts=keep_counts,
        count_here=count_here,
    )
    found = Collected(bits, undropped=set(roles.dropped) - reading.subtracted)
    _merge(run, runner, config, reading.shards, staged, found)
    found.counts = {
        "ranges_decoded": reading.counts["ranges_decoded"],
        "index_parts_read": reading.counts["index_parts_read"],
        "index_parts_rebuilt": reading.counts["index_parts_rebuilt"],
        "outside_rows": reading.counts["outside_rows"],
        "named_addresses": reading.counts["named_addresses"],
        "ranges": len(roles.active) + len(roles.counted),
        "range_rows": rows,
        "live_addresses": found.live.values,
    }
    return found


class _Reading:
    """The first round.

    Attributes:
        shards: files that tasks wrote.
        counts: figures.
        subtracted: ids of the dropped ranges that were read.
    """

    def __init__(self, run: Run, runner: TaskRunner, where: str, bits: int) -> None:
        self.shards: list[Shard] = []
        self.counts: Counter[str] = Counter()
        self.subtracted: set[str] = set()
        self._run = run
        self._runner = runner
        self._where = where
        self._bits = bits

    def read(self, roles: Roles, rows: int) -> None:
        """Read all ranges that have a role to play.

        Args:
            roles: the ranges.
            rows: records of the active ones.
        """
        if not (roles.to_read or roles.expired or roles.dropped):
            return
        index = CommittedIndex.load(self._run.state, self._run.keys.namespace)
        wanted = roles.to_read
        new = {item: facts for item, facts in wanted.items() if index.part_of(item, facts.count) is None}
        used = sorted(index.group(wanted.keys() - new.keys())[0])
        # Only to explain: nothing depends on these, so a file that cannot be read is passed over.
        expired = {item: facts for item, facts in roles.expired.items() if item not in roles.dropped}
        explaining, unexplained = index.group(expired)
        config = ReadConfig(
            where=self._where,
            bits=self._bits,
            roles=self._run.folder.write_table(self._where, 0, roles.table(index, new), "roles"),
            keys=self._run.keys,
        )
        self.counts["index_parts_read"] = len(used)
        tasks = [
            *self._tasks("new", "index", new, [index.parts[name] for name in used], rows),
            *self._tasks(
                "expired",
                "explain",
                {item: expired[item] for item in unexplained},
                [index.parts[name] for name in explaining if name not in used],
            ),
            *self._tasks("dropped", "subtract", roles.dropped),
        ]
        while tasks:
            damaged = self._spread(index, config, tasks, rows)
            # What a damaged part should have had is decoded from the ranges themselves.
            lost = {item: facts for item, facts in wanted.items() if index.part_of(item) in damaged}
            tasks = self._tasks("again", "index", lost)
            lost = {item: facts for item, facts in expired.items() if index.part_of(item) in damaged}
            tasks += self._tasks("expired-again", "explain", lost)

    def _spread(
        self, index: CommittedIndex, config: ReadConfig, tasks: list[ReadTask], rows: int
    ) -> set[str]:
        """Let tasks read, and record what they wrote; gives the names of damaged parts of the index."""
        results = self._run.spread(self._runner, self._where, read_ranges, config, tasks, "rows", rows)
        label = f"{self._run.folder.label}-{self._where.replace('/', '-')}"
        written = [part for result in results for part in result.written]
        index.add(label, written)
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
        self,
        name: str,
        purpose: Purpose,
        ranges: Ranges,
        parts: Sequence[IndexPart] = (),
        rows: int = 0,
    ) -> list[ReadTask]:
        if not ranges and not parts:
            return []
        table = self._run.folder.write_table(self._where, 0, table_of(ranges), f"todo-{name}")
        num_tasks = self._run.num_tasks(self._runner, len(ranges) + len(parts))
        num_tasks = max(num_tasks, math.ceil(rows / _TASK_VALUES))
        # Neighbouring ranges stay together, because they share blocks; parts of the index are spread.
        shares = zip_longest(share_ranges(table, num_tasks), round_robin(parts, num_tasks))
        return [
            ReadTask(name=f"{name}-{number:05d}", ranges=chunk, parts=share or [], purpose=purpose)
            for number, (chunk, share) in enumerate(shares)
        ]


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
    tasks = [MergeTask(merges=share) for share in round_robin(merges, run.num_tasks(runner, len(merges)))]
    for result in run.spread(runner, config.where, merge_shards, config, tasks, "shards", len(merges)):
        found.counted.extend(result.counted)
        for kind, parts in result.sets.items():
            found.sets.setdefault(kind, []).extend(parts)
    found.counted.sort(key=lambda part: part.name)
