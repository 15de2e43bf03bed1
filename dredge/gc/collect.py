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

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError
from dredge.gc.context import Context
from dredge.gc.counted import Counted, read_counted, write_counted
from dredge.gc.decoding import RangeHashes, decode
from dredge.gc.hashes import Hashes, read_hashes, split, unite, write_hashes
from dredge.gc.index import CommittedIndex, IndexPart, read_part, write_part
from dredge.gc.ranges import METADATA, RangeFacts, Ranges, facts_of, table_of
from dredge.runs.folder import RunFolder
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json, TaskRunner, cut, deal
from dredge.storage import ObjectReader, ObjectWriter, open_reader, open_writer

log = logging.getLogger("dredge")

LIVE, HEADS, SIZES, EXPIRED = "live", "heads", "sizes", "expired"
"""Addresses of active ranges; contents of branch heads; their sizes; addresses of other ranges that the index
knows."""
COUNTS = "counts"
"""How many active ranges name each address."""
COUNTED = "counted"
"""Folder of counts, beside the committed index."""

_HEAD_ROLES = ("head", "new head")
_PART_VALUES = 2_000_000
_SINK_VALUES = 8_000_000
_TASK_VALUES = 50_000_000


@dataclass(slots=True)
class Roles:
    """What each range is to this run.

    Attributes:
        active: must stay, and are to be counted.
        expired: of commits that are not active any more; only read to say why an object is garbage.
        known: active, and counted by an earlier run.
        new_heads: those of the known ones that are in a branch's head now and were in none then; they are
            read for their contents.
        dropped: counted by an earlier run and not active any more.
    """

    active: Ranges
    expired: Ranges = field(default_factory=dict)
    known: Ranges = field(default_factory=dict)
    new_heads: Collection[str] = ()
    dropped: Ranges = field(default_factory=dict)

    def role(self, range_id: str) -> str:
        """`head`, `active`, `new head`, `known`, `dropped` or `expired`."""
        if range_id in self.active:
            return "head" if self.active[range_id].head else "active"
        if range_id in self.known:
            return "new head" if range_id in self.new_heads else "known"
        return "dropped" if range_id in self.dropped else "expired"

    @property
    def read(self) -> Ranges:
        """What has to be decoded or found in the index."""
        return self.active | {range_id: self.known[range_id] for range_id in self.new_heads}

    def table(self, index: CommittedIndex, new: Collection[str]) -> pa.Table:
        """Range ids with their roles, and the part of the index that counts for each; none for new ones."""
        ids = sorted({*self.active, *self.known, *self.dropped, *self.expired})
        known = [item in index.places and item not in new for item in ids]
        places = [index.places[item][0] if found else "" for item, found in zip(ids, known, strict=True)]
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
    context: Context,
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
        context: of the run.
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
    index = CommittedIndex.load(context.state, context.plan.namespace)
    wanted = roles.read
    new = {range_id: facts for range_id, facts in wanted.items() if not _is_known(index, range_id, facts)}
    used = sorted({index.places[range_id][0] for range_id in wanted if range_id not in new})
    # Only to explain: nothing depends on these, so a file that cannot be read is passed over.
    extra = {range_id: facts for range_id, facts in roles.expired.items() if range_id not in index.places}
    rows = sum(facts.count for facts in roles.active.values())
    bits = counted_bits
    if bits is None:
        bits = max(0, math.ceil(math.log2(max(1, rows) / context.plan.config.tuning.shard_values)))
    roles_part = context.folder.write_table(where, 0, roles.table(index, new), "roles")
    config = {"where": where, "bits": bits, "roles": roles_part.to_json()}
    partials: list[Json] = []
    counts = {"ranges_decoded": 0, "index_parts_read": len(used), "index_parts_rebuilt": 0, "outside_rows": 0}
    tasks = _tasks(context, runner, where, "new", new, [index.parts[name] for name in used], rows)
    tasks += _tasks(context, runner, where, "expired", extra, [], 0)
    tasks += _tasks(context, runner, where, "dropped", roles.dropped, [], 0)
    decoded: set[str] = set()
    while tasks:
        results = context.spread(runner, where, read_share, config, tasks, "rows", rows)
        index.add(f"{context.plan.run_id}-{where.replace('/', '-')}", _index_parts(results))
        partials.extend(partial for result in results for partial in result["partials"])
        counts["ranges_decoded"] += sum(len(item["ids"]) for result in results for item in result["written"])
        counts["outside_rows"] += sum(result["outside"] for result in results)
        decoded.update(range_id for result in results for range_id in result["taken_away"])
        damaged = {name for result in results for name in result["damaged"]}
        counts["index_parts_rebuilt"] += len(damaged)
        # What a damaged part should have held is decoded from the ranges themselves.
        lost = {name: facts for name, facts in wanted.items() if name in index.places}
        lost = {name: facts for name, facts in lost.items() if index.places[name][0] in damaged}
        tasks = _tasks(context, runner, where, "again", lost, [], 0)
    merge = {"bits": bits, "is_difference": counted_bits is not None, "keep_counts": keep_counts}
    merge["count_here"] = count_here
    parts, counted = _merge(context, runner, where, partials, staged, merge)
    counts.update(
        ranges=len(roles.active) + len(roles.known),
        range_rows=rows,
        live_addresses=sum(part.rows for part in parts if part.name.startswith(f"{where}/{LIVE}-")),
    )
    return Collected(parts, bits, counts, counted, set(roles.dropped) - decoded)


def _is_known(index: CommittedIndex, range_id: str, facts: RangeFacts) -> bool:
    place = index.places.get(range_id)
    return place is not None and place[1] == facts.count


def _tasks(
    context: Context,
    runner: TaskRunner,
    where: str,
    turn: str,
    ranges: Ranges,
    parts: list[IndexPart],
    rows: int,
) -> list[Json]:
    if not ranges and not parts:
        return []
    todo = context.folder.write_table(where, 0, table_of(ranges), f"todo-{turn}")
    count = max(context.hands(runner, len(ranges) + len(parts)), math.ceil(rows / _TASK_VALUES))
    # Neighbours stay together for new ranges (they share blocks); parts of the index are dealt out.
    shares = cut(range(len(ranges)), count)
    hands = deal([part.to_json() for part in parts], count)
    return [
        {
            "name": f"{turn}-{number:05d}",
            "todo": todo.to_json(),
            "first": shares[number][0] if number < len(shares) else 0,
            "stop": shares[number][-1] + 1 if number < len(shares) else 0,
            "parts": hands[number] if number < len(hands) else [],
            "lenient": turn in ("expired", "dropped"),
            "dropped": turn == "dropped",
        }
        for number in range(max(len(shares), len(hands)))
    ]


def _index_parts(results: Iterable[Json]) -> Iterator[tuple[IndexPart, list[str], list[int]]]:
    for result in results:
        for written in result["written"]:
            yield IndexPart.from_json(written["part"]), written["ids"], written["counts"]


def read_share(config: Json, task: Json) -> Json:
    """Decode some ranges and read some parts of the index. A partition function.

    Args:
        config: doors, `where`, `bits`, `roles`, `progress`.
        task: `name`; `todo`, `first` and `stop`: rows of a table of ranges; `parts` of the index.

    Returns:
        `partials` (kind, shard, file), `written` (new parts of the index), `damaged` (names of parts not to
        be trusted), `outside` (records of active ranges that lie outside the namespace), `taken_away`
        (dropped ranges that were read).
    """
    folder = RunFolder(open_writer(config["run_uri"]), config["run_id"])
    state = open_writer(config["state_uri"])
    progress = Progress(folder, config["progress"], task["name"])
    known = _Known.read(folder, config["roles"])
    roles = known.roles
    sinks = {kind: _Sink() for kind in (HEADS, SIZES, EXPIRED)}
    sums = _Sums()
    outside = 0
    written, damaged, taken_away = [], [], []
    for part, ranges in _decoded(config, task, folder, state):
        ids, counts = [item.range_id for item in ranges], [item.count for item in ranges]
        if part is None:
            taken_away.extend(ids)
        else:
            written.append({"part": part.to_json(), "ids": ids, "counts": counts})
        outside += _sort(sinks, sums, roles, ranges)
        progress.add(sum(counts))
    for part in (IndexPart.from_json(value) for value in task["parts"]):
        try:
            ranges = read_part(state, part, lambda range_id: roles.get(range_id) in _HEAD_ROLES)
        except FormatError:
            damaged.append(part.name)
            continue
        outside += _sort(sinks, sums, roles, known.counting(part.name, ranges))
        progress.add(sum(item.count for item in ranges))
    prefix = f"{config['where']}/partial/{task['name']}"
    partials = [
        {"kind": kind, "shard": shard, "part": part.to_json()}
        for kind, sink in sinks.items()
        for shard, part in sink.write(folder, f"{prefix}-{kind}", config["bits"])
    ]
    partials += [
        {"kind": COUNTS, "shard": shard, "part": part.to_json()}
        for shard, part in sums.write(folder, f"{prefix}-{COUNTS}", config["bits"])
    ]
    return {
        "partials": partials,
        "written": written,
        "damaged": damaged,
        "outside": outside,
        "taken_away": taken_away,
    }


@dataclass(frozen=True, slots=True)
class _Known:
    """What a task knows of ranges."""

    roles: dict[str, str]
    places: dict[str, str]

    @classmethod
    def read(cls, folder: RunFolder, part: Json) -> _Known:
        table = folder.read_part(PartInfo.from_json(part))
        ids = table["range_id"].to_pylist()
        roles, places = table["role"].to_pylist(), table["place"].to_pylist()
        return cls(dict(zip(ids, roles, strict=True)), dict(zip(ids, places, strict=True)))

    def counting(self, part: str, ranges: Iterable[RangeHashes]) -> Iterator[RangeHashes]:
        """Those ranges of a part of the index that no other part counts for, and dropped ones not at all:
        those are read by themselves."""
        for item in ranges:
            if self.places.get(item.range_id, part) == part and self.roles.get(item.range_id) != "dropped":
                yield item


def _decoded(
    config: Json, task: Json, folder: RunFolder, state: ObjectWriter
) -> Iterator[tuple[IndexPart | None, list[RangeHashes]]]:
    """Decode a task's ranges, writing a part of the index whenever there is enough for one; none of dropped
    ranges, which it had when they were new."""
    if task["first"] == task["stop"]:
        return
    todo = folder.read_part(PartInfo.from_json(task["todo"])).slice(
        task["first"], task["stop"] - task["first"]
    )
    facts = dict(facts_of(todo))
    read = _decode_leniently if task["lenient"] else _decode
    name = f"{config['run_id']}-{config['where'].replace('/', '-')}-{task['name']}"
    batch: list[RangeHashes] = []
    values = number = 0
    if task["dropped"]:
        for item in read(open_reader(config["namespace"]), facts, config["namespace"]):
            yield None, [item]
        return
    for item in read(open_reader(config["namespace"]), facts, config["namespace"]):
        batch.append(item)
        values += len(item.addresses) + len(item.contents)
        if values >= _PART_VALUES:
            yield write_part(state, f"{name}-{number:04d}", batch), batch
            batch, values, number = [], 0, number + 1
    if batch:
        yield write_part(state, f"{name}-{number:04d}", batch), batch


def _decode(reader: ObjectReader, facts: Ranges, namespace: str) -> Iterator[RangeHashes]:
    files = reader.get_many([METADATA + range_id for range_id in facts])
    try:
        yield from decode(files, facts, namespace)
    except NotFoundError as error:
        raise RefusedError(
            f"a range of an active commit is missing: {error}. Its objects cannot be told from garbage."
            " Nothing was deleted. Restore the file (a backup, an older version of the bucket), then start"
            " a new run."
        ) from None


def _decode_leniently(reader: ObjectReader, facts: Ranges, namespace: str) -> Iterator[RangeHashes]:
    for range_id in facts:
        key = METADATA + range_id
        try:
            yield from list(decode([(key, reader.get(key))], facts, namespace))
        except DredgeError as error:
            log.info("range %s of an expired commit cannot be read: %s", range_id, error)


def _sort(sinks: dict[str, _Sink], sums: _Sums, roles: dict[str, str], ranges: Iterable[RangeHashes]) -> int:
    """Put ranges where their role wants them; gives the active records that lie outside the namespace."""
    outside = 0
    for item in ranges:
        role = roles.get(item.range_id, "expired")
        if role in ("expired", "dropped"):
            sinks[EXPIRED].add(item.addresses)
        if role == "dropped":
            sums.take_away(item.addresses)
        if role in ("active", "head"):
            outside += item.outside
            sums.add(item.addresses)
        if role in _HEAD_ROLES:
            sinks[HEADS].add(item.contents)
            sinks[SIZES].add(item.sizes)
    return outside


class _Sink:
    """Collects values in bounded memory: distinct ones only, from time to time."""

    def __init__(self) -> None:
        self._pieces: list[Hashes] = []
        self._values = 0

    def add(self, values: Hashes) -> None:
        self._pieces.append(values)
        self._values += len(values)
        if self._values > _SINK_VALUES and len(self._pieces) > 1:
            self._pieces = [unite(self._pieces)]
            self._values = len(self._pieces[0]) // 2  # grow by as much again before the next time

    def write(self, folder: RunFolder, name: str, bits: int) -> Iterator[tuple[int, PartInfo]]:
        for shard, values in enumerate(split(unite(self._pieces), bits)):
            if len(values):
                yield shard, write_hashes(folder, f"{name}-{shard:04d}.u64", values)


class _Sums:
    """Counts in how many ranges each hash is, in bounded memory."""

    def __init__(self) -> None:
        self._signed: dict[int, list[Hashes]] = {1: [], -1: []}
        self._values = 0
        self._summed = Counted()

    def add(self, values: Hashes) -> None:
        self._take(values, 1)

    def take_away(self, values: Hashes) -> None:
        self._take(values, -1)

    def write(self, folder: RunFolder, name: str, bits: int) -> Iterator[tuple[int, PartInfo]]:
        self._sum_up()
        for shard, counted in enumerate(self._summed.split(bits)):
            if len(counted.hashes):
                yield shard, write_counted(folder, f"{name}-{shard:04d}.counts", counted)

    def _take(self, values: Hashes, sign: int) -> None:
        self._signed[sign].append(values)
        self._values += len(values)
        if self._values > max(_SINK_VALUES, len(self._summed.hashes) // 2):
            self._sum_up()

    def _sum_up(self) -> None:
        found = [Counted.of(pieces, sign) for sign, pieces in self._signed.items()]
        self._summed = Counted.sum([self._summed, *found])
        self._signed, self._values = {1: [], -1: []}, 0


def _merge(
    context: Context,
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
    hands = deal(merges, context.hands(runner, len(merges)))
    tasks = [{"merges": hand} for hand in hands]
    results = context.spread(
        runner, where, merge_shards, {"where": where, **config}, tasks, "shards", len(merges)
    )
    found = [PartInfo.from_json(part) for result in results for part in result["parts"]]
    counted = [PartInfo.from_json(part) for result in results for part in result["counted"]]
    return sorted(found, key=lambda part: part.name), sorted(counted, key=lambda part: part.name)


def merge_shards(config: Json, task: Json) -> Json:
    """Merge the files of some shards. A partition function.

    Args:
        config: doors, `where`, `bits`, `is_difference` (counts are no live set by themselves),
            `keep_counts`, `count_here`.
        task: `merges`: kind, shard, `parts` of that shard, and `whole` files of which only the shard counts.

    Returns:
        `parts` in the run folder, and `counted` in the folder of lease and index, or in the run folder.
    """
    folder = RunFolder(open_writer(config["run_uri"]), config["run_id"])
    state = RunFolder(open_writer(config["state_uri"]), config["run_id"])
    parts, counted = [], []
    for merge in task["merges"]:
        files = [PartInfo.from_json(part) for part in merge["parts"]]
        if merge["kind"] != COUNTS:
            name = f"{config['where']}/{merge['kind']}-{merge['shard']:04d}.u64"
            united = unite([read_hashes(folder, part) for part in files])
            parts.append(write_hashes(folder, name, united).to_json())
            continue
        total = Counted.sum([read_counted(folder, part) for part in files])
        if config["count_here"] and len(total.hashes):
            name = f"{config['where']}/{COUNTS}-{merge['shard']:04d}.counts"
            counted.append(write_counted(folder, name, total).to_json())
        elif config["keep_counts"] and len(total.hashes):
            name = f"{COUNTED}/{config['run_id']}-{config['where'].replace('/', '-')}-{merge['shard']:04d}.counts"
            counted.append(write_counted(state, name, total).to_json())
        live = [] if config["is_difference"] else [total.hashes[total.counts > 0]]
        for part in merge["whole"]:
            live.append(split(read_hashes(folder, PartInfo.from_json(part)), config["bits"])[merge["shard"]])
        name = f"{config['where']}/{LIVE}-{merge['shard']:04d}.u64"
        parts.append(write_hashes(folder, name, unite(live)).to_json())
    return {"parts": parts, "counted": counted}
