"""From ranges to live sets: new ranges are decoded into the index, known ones read from it, and all hashes
united.

Two rounds of tasks. The first reads: each task takes some new ranges and some parts of the index, and writes
what it found as sorted files, cut into shards by the first bits of the hash. The second merges: each task
takes one shard. No task holds more than its share, and the driver holds names only.

With ranges that another run collected before, only the difference is collected: what new ranges add, and what
dropped ones take away, as counts.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dredge.gc.index.ranges import Ranges, table_of
from dredge.gc.index.store import CommittedIndex, IndexPart
from dredge.gc.list_committed.collect_tasks import COUNTS, LIVE, merge_shards, read_share
from dredge.gc.run import Run
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json, TaskRunner, in_chunks, round_robin

log = logging.getLogger("dredge")

_TASK_VALUES = 50_000_000


@dataclass(slots=True)
class Roles:
    """What each range is to this run.

    Attributes:
        active: must stay, and are to be counted.
        expired: of commits of the history that are not active any more; only read to say why an object is
            garbage.
        known: active, and counted by an earlier run.
        new_heads: those of the known ones that are in a branch's head now and were in none then; they are
            read for their sizes.
        dropped: counted by an earlier run and not active any more.
        let_go: those of the dropped ones that a commit of the history names.
    """

    active: Ranges
    expired: Ranges = field(default_factory=dict)
    known: Ranges = field(default_factory=dict)
    new_heads: Collection[str] = ()
    dropped: Ranges = field(default_factory=dict)
    let_go: Collection[str] = ()

    def role(self, range_id: str) -> str:
        """`head`, `active`, `new head`, `known`, `let go`, `dropped` or `expired`."""
        if range_id in self.active:
            return "head" if self.active[range_id].head else "active"
        if range_id in self.known:
            return "new head" if range_id in self.new_heads else "known"
        if range_id in self.dropped:
            return "let go" if range_id in self.let_go else "dropped"
        return "expired"

    @property
    def read(self) -> Ranges:
        """What has to be decoded or found in the index."""
        return self.active | {range_id: self.known[range_id] for range_id in self.new_heads}

    def table(self, index: CommittedIndex, new: Collection[str]) -> pa.Table:
        """Range ids with their roles, and the part of the index that counts for each; none for new ones."""
        ids = sorted({*self.active, *self.known, *self.dropped, *self.expired})
        places = ["" if item in new else index.part_of(item) or "" for item in ids]
        roles = [self.role(item) for item in ids]
        return pa.table({"range_id": pa.array(ids, pa.string()), "role": roles, "place": places})


@dataclass(slots=True)
class Collected:
    """What collecting gave.

    Attributes:
        parts: files of the result, named `<where>/<kind>-<shard>.u64`.
        bits: 2**bits shards.
        counts: figures for the summary.
        counted: files of counts, in the folder of lease and index, or in the run's own.
        undropped: dropped ranges that cannot be read any more. They were not taken away and still count.
    """

    parts: list[PartInfo]
    bits: int
    counts: dict[str, int]
    counted: list[PartInfo] = field(default_factory=list)
    undropped: set[str] = field(default_factory=set)


def collect(
    run: Run,
    runner: TaskRunner,
    where: str,
    roles: Roles,
    staged: Sequence[PartInfo],
    counted_bits: int | None = None,
    keep_counts: bool = False,
    count_here: bool = False,
) -> Collected:
    """Make sure that the index knows every range, and unite what the active ones and staging name.

    Args:
        run: of the run.
        runner: spreads the work.
        where: step folder.
        roles: the ranges.
        staged: files of hashes that are live as well.
        counted_bits: what is collected is a difference to a counted set of so many shards; the live set is
            then only what is staged.
        keep_counts: write counts that a later run can build on.
        count_here: write counts for this run alone, into its own folder.

    Raises:
        RefusedError: a range is missing.
        FormatError: a range is damaged, or not what its metarange says.
    """
    index = CommittedIndex.load(run.state, run.plan.namespace)
    wanted = roles.read
    new = {item: facts for item, facts in wanted.items() if index.part_of(item, facts.count) is None}
    used = sorted(index.group(wanted.keys() - new.keys())[0])
    # Only to explain: nothing depends on these, so a file that cannot be read is passed over.
    expired = {item: facts for item, facts in roles.expired.items() if item not in roles.dropped}
    explaining, unexplained = index.group(expired)
    extra = {item: expired[item] for item in unexplained}
    rows = sum(facts.count for facts in roles.active.values())
    bits = counted_bits
    if bits is None:
        bits = max(0, math.ceil(math.log2(max(1, rows) / run.plan.config.tuning.shard_values)))
    roles_part = run.folder.write_table(where, 0, roles.table(index, new), "roles")
    config = {"where": where, "bits": bits, "roles": roles_part.to_json()}
    partials: list[Json] = []
    counts = {"ranges_decoded": 0, "index_parts_read": len(used), "index_parts_rebuilt": 0, "outside_rows": 0}
    tasks = _tasks(run, runner, where, "new", new, [index.parts[name] for name in used], rows)
    explaining_parts = [index.parts[name] for name in explaining if name not in used]
    tasks += _tasks(run, runner, where, "expired", extra, explaining_parts, 0)
    tasks += _tasks(run, runner, where, "dropped", roles.dropped, [], 0)
    decoded: set[str] = set()
    while tasks:
        results = run.spread_json(runner, where, read_share, config, tasks, "rows", rows)
        index.add(f"{run.folder.label}-{where.replace('/', '-')}", _index_parts(results))
        partials.extend(partial for result in results for partial in result["partials"])
        counts["ranges_decoded"] += sum(len(item["ids"]) for result in results for item in result["written"])
        counts["outside_rows"] += sum(result["outside"] for result in results)
        decoded.update(range_id for result in results for range_id in result["taken_away"])
        damaged = {name for result in results for name in result["damaged"]}
        counts["index_parts_rebuilt"] += len(damaged)
        # What a damaged part should have held is decoded from the ranges themselves.
        lost = {item: facts for item, facts in wanted.items() if index.part_of(item) in damaged}
        tasks = _tasks(run, runner, where, "again", lost, [], 0)
        lost = {item: facts for item, facts in expired.items() if index.part_of(item) in damaged}
        tasks += _tasks(run, runner, where, "expired-again", lost, [], 0)
    merge = {"bits": bits, "is_difference": counted_bits is not None, "keep_counts": keep_counts}
    merge["count_here"] = count_here
    parts, counted = _merge(run, runner, where, partials, staged, merge)
    counts.update(
        ranges=len(roles.active) + len(roles.known),
        range_rows=rows,
        live_addresses=sum(part.rows for part in parts if part.name.startswith(f"{where}/{LIVE}-")),
    )
    return Collected(parts, bits, counts, counted, set(roles.dropped) - decoded)


def _tasks(
    run: Run,
    runner: TaskRunner,
    where: str,
    turn: str,
    ranges: Ranges,
    parts: list[IndexPart],
    rows: int,
) -> list[Json]:
    if not ranges and not parts:
        return []
    todo = run.folder.write_table(where, 0, table_of(ranges), f"todo-{turn}")
    count = max(run.num_tasks(runner, len(ranges) + len(parts)), math.ceil(rows / _TASK_VALUES))
    # Neighbours stay together for new ranges (they share blocks); parts of the index are dealt out.
    shares = in_chunks(range(len(ranges)), count)
    hands = round_robin([part.to_json() for part in parts], count)
    return [
        {
            "name": f"{turn}-{number:05d}",
            "todo": todo.to_json(),
            "first": shares[number][0] if number < len(shares) else 0,
            "stop": shares[number][-1] + 1 if number < len(shares) else 0,
            "parts": hands[number] if number < len(hands) else [],
            "lenient": turn in ("expired", "expired-again", "dropped"),
            "dropped": turn == "dropped",
        }
        for number in range(max(len(shares), len(hands)))
    ]


def _index_parts(results: Iterable[Json]) -> Iterator[tuple[IndexPart, list[str], list[int]]]:
    for result in results:
        for written in result["written"]:
            yield IndexPart.from_json(written["part"]), written["ids"], written["counts"]


def _merge(
    run: Run,
    runner: TaskRunner,
    where: str,
    partials: Sequence[Json],
    staged: Sequence[PartInfo],
    config: Json,
) -> tuple[list[PartInfo], list[PartInfo]]:
    groups: dict[tuple[str, int], list[Json]] = defaultdict(list)
    for partial in partials:
        groups[(partial["kind"], partial["shard"])].append(partial["part"])
    if staged:
        for shard in range(1 << config["bits"]):
            groups[(COUNTS, shard)] += []
    whole = [part.to_json() for part in staged]
    merges = [
        {"kind": kind, "shard": shard, "parts": parts, "whole": whole if kind == COUNTS else []}
        for (kind, shard), parts in sorted(groups.items())
    ]
    hands = round_robin(merges, run.num_tasks(runner, len(merges)))
    tasks = [{"merges": hand} for hand in hands]
    results = run.spread_json(
        runner, where, merge_shards, {"where": where, **config}, tasks, "shards", len(merges)
    )
    found = [PartInfo.from_json(part) for result in results for part in result["parts"]]
    counted = [PartInfo.from_json(part) for result in results for part in result["counted"]]
    return sorted(found, key=lambda part: part.name), sorted(counted, key=lambda part: part.name)
