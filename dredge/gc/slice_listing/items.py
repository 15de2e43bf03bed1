"""One task of the listing: some items are listed, several at once, and their objects written as rows."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import RefusedError
from dredge.gc.namespaces import METADATA, left_folder
from dredge.gc.slice_listing.slices import LISTED, OLD, YOUNG, Item, SliceListingOutput, cut_rest, slice_time
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.storage import ObjectReader
from dredge.storage.model import LISTING_SCHEMA_WITH_CLASS, STORAGE_CLASS

_OUTSIDE_MAX = 1_000_000
_SHOWS_REPOSITORY = f"/{METADATA}|/dummy$"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfig:
    """What all tasks need.

    Attributes:
        cutoff: objects modified strictly before this become rows of old objects.
        covers_until: slices opened before this are not listed again, so their young objects become rows as well.
        rows_max: objects of one item after which the rest of it is left to other tasks.
        part_rows: rows after which a file is written.
        threads: items that a task lists at once.
    """

    cutoff: datetime
    covers_until: datetime
    rows_max: int
    part_rows: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTask:
    """One task.

    Attributes:
        name: distinguishes its files from those of all other tasks of the step.
        items: what to list.
    """

    name: str
    items: list[Item]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """What a task listed.

    Attributes:
        parts: files of old objects, then files of young ones.
        counts: figures by name.
        rest: what is left of long items, cut into ranges.
        foreign: folders below `data/` that show another repository (`namespaces.left_folder`).
    """

    parts: list[PartInfo]
    counts: dict[str, int]
    rest: list[Item]
    foreign: list[str]


@partition_function
def list_items(run: WorkerRun, config: ListConfig, task: ListTask) -> ListResult:
    """List some items and write their objects as parts.

    Raises:
        RefusedError: an object without a usable time.
    """
    old = PartSink(run.folder, f"{OLD}-{task.name}", config.part_rows)
    young = PartSink(run.folder, f"{YOUNG}-{task.name}", config.part_rows)
    counts: Counter[str] = Counter()
    rest: list[Item] = []
    foreign: set[str] = set()
    for listed in _in_order(run.open_store(), task.items, config):
        run.progress.add(listed.counts["old_objects"] + listed.counts["young_objects"])
        counts.update(listed.counts)
        rest.extend(listed.rest)
        foreign |= listed.foreign
        old.add(listed.old)
        young.add(listed.young)
    parts = [*old.finish(), *young.finish()]
    return ListResult(parts=parts, counts=dict(counts), rest=rest, foreign=sorted(foreign))


@dataclass(slots=True)
class Listed:
    """What one item gave: tables of rows, figures, and what is left of it."""

    old: list[pa.Table] = field(default_factory=list)
    young: list[pa.Table] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rest: list[Item] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)


def _in_order(reader: ObjectReader, items: list[Item], config: ListConfig) -> Iterator[Listed]:
    """List several items at once, and give what they hold in the order of the items, so that a repeated task writes
    the same parts."""
    with ThreadPoolExecutor(config.threads, thread_name_prefix="list") as pool:
        waiting: deque[Future[Listed]] = deque()
        for item in items:
            waiting.append(pool.submit(_list_item, reader, item, config))
            if len(waiting) > config.threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _list_item(reader: ObjectReader, item: Item, config: ListConfig) -> Listed:
    listed = Listed()
    if item.kind == "outside":
        _count_outside(reader, item, listed.counts)
        return listed
    opened = slice_time(item.prefix)
    will_be_covered = opened is not None and opened < config.covers_until
    rows, first_key = 0, ""
    for batch in _batches(reader, item, listed.counts):
        check_times(batch)
        note_foreign(batch, listed)
        sort_by_age(batch, config.cutoff, listed, will_be_covered)
        first_key = first_key or batch["key"][0].as_py()
        rows += batch.num_rows
        if item.capped and item.kind == "tree" and rows >= config.rows_max:
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
            pa.array([info.storage_class for info in found], pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA_WITH_CLASS)


def check_times(batch: pa.RecordBatch) -> None:
    """Refuse a batch in which an object has no usable time."""
    times = batch["last_modified"]
    # Not at module level: the first value of Arrow's in a process imports pandas, for half a second.
    epoch = pa.scalar(0, pa.timestamp("us", tz="UTC"))
    useless = pc.or_kleene(pc.is_null(times), pc.less_equal(times, epoch))
    if pc.any(useless).as_py():
        key = batch["key"].filter(useless)[0].as_py()
        raise RefusedError(
            f"the store gives no time for {key!r}. An object of unknown age can be neither kept nor deleted safely."
            " Nothing was deleted. Look at the store: a listing must carry Last-Modified."
        )


def note_foreign(batch: pa.RecordBatch, listed: Listed) -> None:
    """Note folders in which keys show another repository."""
    inner = pc.match_substring_regex(batch["key"], _SHOWS_REPOSITORY)
    if pc.any(inner).as_py():
        listed.foreign |= set(map(left_folder, batch["key"].filter(inner).to_pylist()))
        listed.counts["foreign_metadata"] += pc.sum(inner).as_py()


def sort_by_age(batch: pa.RecordBatch, cutoff: datetime, listed: Listed, will_be_covered: bool) -> None:
    """Count objects by age; keep the rows of old ones, and of young ones in slices that are not listed again."""
    is_old = pc.less(batch["last_modified"], pa.scalar(cutoff, pa.timestamp("us", tz="UTC")))
    old = batch.filter(is_old)
    size_all, size_old = pc.sum(batch["size"]).as_py(), pc.sum(old["size"]).as_py() or 0
    listed.counts["old_objects"] += old.num_rows
    listed.counts["old_bytes"] += size_old
    listed.counts["young_objects"] += batch.num_rows - old.num_rows
    listed.counts["young_bytes"] += size_all - size_old
    if old.num_rows:
        listed.old.append(_rows(old))
    if will_be_covered and old.num_rows < batch.num_rows:
        listed.young.append(_rows(batch.filter(pc.invert(is_old))))


def _rows(batch: pa.RecordBatch) -> pa.Table:
    columns = [batch["key"], batch["size"], batch["last_modified"], batch["etag"]]
    columns.append(pa.array(hash64(batch["key"])))
    known = STORAGE_CLASS in batch.schema.names
    columns.append(batch[STORAGE_CLASS] if known else pa.nulls(batch.num_rows, pa.string()))
    return pa.Table.from_arrays(columns, schema=LISTED)


def _count_outside(reader: ObjectReader, item: Item, counts: Counter[str]) -> None:
    """Count objects in the namespace root, and objects in folders that are not the collector's business."""
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


class PartSink:
    """Collects rows and writes them as parts of bounded size, in order.

    Args:
        folder: the run folder.
        name: of the parts.
        part_rows: rows after which a part is written.
    """

    def __init__(self, folder: RunFolder, name: str, part_rows: int) -> None:
        self._folder = folder
        self._name = name
        self._parts: list[PartInfo] = []
        self._part_rows = part_rows
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, tables: list[pa.Table]) -> None:
        """Take rows in; those of `LISTED`."""
        for table in tables:
            self._tables.append(table)
            self._rows += table.num_rows
            if self._rows >= self._part_rows:
                self._flush()

    def finish(self) -> list[PartInfo]:
        """Write what is left; gives all parts."""
        if self._rows:
            self._flush()
        return self._parts

    def _flush(self) -> None:
        table = pa.concat_tables(self._tables)
        self._parts.append(
            self._folder.write_table(SliceListingOutput.STEP, len(self._parts), table, self._name)
        )
        self._tables, self._rows = [], 0
