"""Slice listing: what the store holds under `data/`, written in full before anything else is read.

Every object older than the cutoff becomes a row; younger ones are only counted, unless their slice will not be
listed again. Nothing is taken from names: an object's age is the store's Last-Modified, and its address is its
key as the store words it. Only which slices an optimized run leaves out is told from their names, and a name
that tells nothing is never left out.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import RefusedError
from dredge.gc.config import CLEAN
from dredge.gc.namespaces import DATA
from dredge.gc.plan import Plan
from dredge.gc.run import Run
from dredge.gc.slice_listing.slices import OUTSIDE, Item, cut_rest, is_young, slice_time
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner, round_robin
from dredge.storage import ObjectReader, open_reader

log = logging.getLogger("dredge")

STEP = "slice_listing"
PART, YOUNG = "part", "young"
"""Names of files: old objects; young ones whose slice will not be listed again."""
SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string()),
        pa.field("hash", pa.uint64(), nullable=False),
    ]
)
"""`address` is the key relative to the storage namespace, raw; `hash` is `dredge.hashing.hash64` of it."""

_SAMPLES = 5
_OUTSIDE_MAX = 1_000_000
_EPOCH = pa.scalar(0, pa.timestamp("us", tz="UTC"))


def slice_listing(run: Run, runner: TaskRunner) -> StepSummary:
    """List `data/`, all slices at once, and write every object older than the cutoff.

    An optimized run lists the slices of its window that no run has covered.

    Raises:
        RefusedError: an object without a usable time.
    """
    return run.step_by_name(STEP, [], lambda record: _list(run, runner, record))


def _list(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    plan, tuning = run.plan, run.plan.config.tuning
    level = run.reader.list_level(DATA)
    chosen = choose_slices(plan, level.folders)
    items = [Item(folder) for folder in chosen.listed]
    if level.objects:
        items.append(Item(DATA, kind="level"))
    record.counts.update(
        slices=len(level.folders),
        young_slices=chosen.young,
        covered_slices=chosen.covered,
        other_slices=chosen.other,
    )
    if text := unlisted_text(record.counts):
        log.info("run %s: %s", plan.run_id, text)
    if plan.mode == CLEAN:
        items.extend(OUTSIDE)
    config = {
        "cutoff": plan.cutoff.isoformat(),
        "covers_until": plan.covers_until.isoformat(),
        "rows_max": tuning.listing_rows_max,
        "part_rows": tuning.part_rows,
        "threads": tuning.threads,
    }
    totals: Counter[str] = Counter()
    foreign = ""
    for turn in range(tuning.listing_rounds_max + 1):
        hands = round_robin([item.to_json() for item in items], run.num_tasks(runner, len(items)))
        tasks = [{"name": f"r{turn}-{index:05d}", "items": hand} for index, hand in enumerate(hands)]
        results = run.spread_json(runner, STEP, list_items, config, tasks, "objects")
        for result in results:
            totals.update(result["counts"])
            record.parts.extend(PartInfo.from_json(part) for part in result["parts"])
            foreign = foreign or result["foreign"]
        rest = [Item(**item) for result in results for item in result["rest"]]
        items = (
            [replace(item, capped=False) for item in rest] if turn + 1 == tuning.listing_rounds_max else rest
        )
        if not items:
            break
    record.counts.update({name: totals[name] for name in _COUNTS})
    record.details["rounds"] = turn + 1
    record.details["first_slice"] = level.folders[0].removeprefix(DATA).rstrip("/") if level.folders else ""
    record.details["foreign_metadata"] = foreign
    _explain_outside(record)


def unlisted_text(counts: Mapping[str, int]) -> str:
    """Say which slices were left out for being too young, so that nobody misses their objects in the figures.

    Args:
        counts: of the step.

    Returns:
        Two sentences; "" when none was left out.
    """
    if not counts["young_slices"]:
        return ""
    return (
        f"{counts['young_slices']:,} of {counts['slices']:,} slices were not listed, because nothing in them is old"
        " enough to go. So their objects are not counted here, neither as live nor as young."
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which slices a run lists.

    Attributes:
        listed: folders.
        young: how many nothing old can be in.
        covered: how many an earlier run was done with.
        other: how many lie outside the window.
    """

    listed: list[str]
    young: int
    covered: int
    other: int


def choose_slices(plan: Plan, folders: Iterable[str]) -> Chosen:
    """Choose the slices a run lists: all but those whose name proves that there is nothing to find.

    Args:
        plan: of the run.
        folders: directly below `data/`.
    """
    begin, end = plan.window
    listed: list[str] = []
    young = covered = other = 0
    for folder in folders:
        opened = slice_time(folder)
        if is_young(folder, plan.cutoff, plan.created_at):
            young += 1
        elif opened is not None and plan.covered.has(opened):
            covered += 1
        elif opened is not None and not begin <= opened < end:
            other += 1
        else:
            listed.append(folder)
    return Chosen(listed, young, covered, other)


_COUNTS = (
    "old_objects",
    "old_bytes",
    "young_objects",
    "young_bytes",
    "root_objects",
    "root_bytes",
    "elsewhere_objects",
    "foreign_metadata",
    "unnamed_objects",
)


def _explain_outside(record: StepRecord) -> None:
    if record.counts["root_objects"]:
        record.warn(
            f"{record.counts['root_objects']:,} objects lie directly in the namespace root (the layout of"
            " lakeFS before 0.84); they are left alone"
        )
    if record.counts["unnamed_objects"]:
        record.warn(
            f"{record.counts['unnamed_objects']:,} objects have names that no key can express; they are"
            " left alone"
        )


def list_items(config: Json, task: Json) -> Json:
    """List some items and write their old objects as parts. A partition function.

    Args:
        config: doors, `cutoff`, `covers_until`, `rows_max`, `part_rows`, `threads`, `progress`.
        task: `name` and `items`.

    Returns:
        `parts`, `counts`, `rest` (what of long items is still to be listed, cut into ranges), `foreign` (a
        key below `data/` that belongs to another repository's metadata, or "").

    Raises:
        RefusedError: an object without a usable time.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"])
    reader = open_reader(config["namespace"])
    cutoff = datetime.fromisoformat(config["cutoff"])
    sink = _PartSink(folder, PART, task["name"], config["part_rows"])
    young_sink = _PartSink(folder, YOUNG, task["name"], config["part_rows"])
    counts: Counter[str] = Counter()
    rest: list[Item] = []
    foreign = ""
    for listed in _in_order(reader, [Item(**item) for item in task["items"]], cutoff, config):
        progress.add(listed.counts["old_objects"] + listed.counts["young_objects"])
        counts.update(listed.counts)
        rest.extend(listed.rest)
        foreign = foreign or listed.foreign
        sink.add(listed.tables)
        young_sink.add(listed.young)
    sink.flush()
    young_sink.flush()
    return {
        "parts": [part.to_json() for part in (*sink.parts, *young_sink.parts)],
        "counts": dict(counts),
        "rest": [item.to_json() for item in rest],
        "foreign": foreign,
    }


@dataclass(slots=True)
class _Listed:
    """What one item gave."""

    tables: list[pa.Table] = field(default_factory=list)
    young: list[pa.Table] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rest: list[Item] = field(default_factory=list)
    foreign: str = ""


def _in_order(reader: ObjectReader, items: list[Item], cutoff: datetime, config: Json) -> Iterator[_Listed]:
    """List several items at once, but hand them on in order, so that a repeated task writes the same
    parts."""
    threads: int = config["threads"]
    with ThreadPoolExecutor(threads, thread_name_prefix="list") as pool:
        waiting: deque[Future[_Listed]] = deque()
        for item in items:
            waiting.append(pool.submit(_list_item, reader, item, cutoff, config))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _list_item(reader: ObjectReader, item: Item, cutoff: datetime, config: Json) -> _Listed:
    listed = _Listed()
    if item.kind == "outside":
        _count_outside(reader, item, listed.counts)
        return listed
    opened = slice_time(item.prefix)
    done_with = opened is not None and opened < datetime.fromisoformat(config["covers_until"])
    rows, first_key = 0, ""
    for batch in _batches(reader, item, listed.counts):
        _take(batch, cutoff, listed, done_with)
        first_key = first_key or batch["key"][0].as_py()
        rows += batch.num_rows
        if item.capped and item.kind == "tree" and rows >= config["rows_max"]:
            listed.rest = cut_rest(item, first_key, batch["key"][-1].as_py())
            break
    return listed


def _batches(reader: ObjectReader, item: Item, counts: Counter[str]) -> Iterator[pa.RecordBatch]:
    def unnamed(_: str) -> None:
        counts["unnamed_objects"] += 1

    if item.kind == "tree":
        yield from reader.list(item.prefix, item.start_after, item.stop_before, unnamed)
        return
    found = reader.list_level(item.prefix).objects
    if found:
        columns = [
            pa.array([info.key for info in found], pa.string()),
            pa.array([info.size for info in found], pa.int64()),
            pa.array([info.last_modified for info in found], pa.timestamp("us", tz="UTC")),
            pa.array([info.etag for info in found], pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, ["key", "size", "last_modified", "etag"])


def _take(batch: pa.RecordBatch, cutoff: datetime, listed: _Listed, done_with: bool) -> None:
    times = batch["last_modified"]
    useless = pc.or_kleene(pc.is_null(times), pc.less_equal(times, _EPOCH))
    if pc.any(useless).as_py():
        key = batch["key"].filter(useless)[0].as_py()
        raise RefusedError(
            f"the store gives no time for {key!r}. Without its age nothing can be told about an object."
            " Nothing was deleted. Look at the store: a listing must carry Last-Modified."
        )
    inner = pc.match_substring(batch["key"], "/_lakefs/")
    if pc.any(inner).as_py():
        listed.foreign = listed.foreign or batch["key"].filter(inner)[0].as_py()
        listed.counts["foreign_metadata"] += pc.sum(inner).as_py()
    old = pc.less(times, pa.scalar(cutoff, pa.timestamp("us", tz="UTC")))
    kept = batch.filter(old)
    size_all, size_old = pc.sum(batch["size"]).as_py(), pc.sum(kept["size"]).as_py() or 0
    listed.counts["old_objects"] += kept.num_rows
    listed.counts["old_bytes"] += size_old
    listed.counts["young_objects"] += batch.num_rows - kept.num_rows
    listed.counts["young_bytes"] += size_all - size_old
    if kept.num_rows:
        listed.tables.append(_rows(kept))
    if done_with and kept.num_rows < batch.num_rows:
        listed.young.append(_rows(batch.filter(pc.invert(old))))


def _rows(batch: pa.RecordBatch) -> pa.Table:
    columns = [batch["key"], batch["size"], batch["last_modified"], batch["etag"]]
    columns.append(pa.array(hash64(batch["key"])))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _count_outside(reader: ObjectReader, item: Item, counts: Counter[str]) -> None:
    """Count objects in the namespace root, and objects in folders that are nobody's business here."""
    seen = 0
    for batch in reader.list(item.prefix, item.start_after, item.stop_before):
        nested = pc.match_substring(batch["key"], "/")
        marker = pc.equal(batch["key"], "dummy")
        root = pc.invert(pc.or_(nested, marker))
        counts["root_objects"] += pc.sum(root).as_py()
        counts["root_bytes"] += pc.sum(batch["size"].filter(root)).as_py() or 0
        counts["elsewhere_objects"] += pc.sum(nested).as_py()
        seen += batch.num_rows
        if seen >= _OUTSIDE_MAX:
            break


class _PartSink:
    """Collects rows and writes them as parts of bounded size, in order."""

    def __init__(self, folder: RunFolder, kind: str, name: str, part_rows: int) -> None:
        self.parts: list[PartInfo] = []
        self._folder = folder
        self._name = f"{kind}-{name}"
        self._part_rows = part_rows
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, tables: list[pa.Table]) -> None:
        for table in tables:
            self._tables.append(table)
            self._rows += table.num_rows
            if self._rows >= self._part_rows:
                self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        table = pa.concat_tables(self._tables)
        self.parts.append(self._folder.write_table(STEP, len(self.parts), table, self._name))
        self._tables, self._rows = [], 0
