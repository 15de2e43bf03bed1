"""The choice of slices, one task of their listing, and the files of the step.

    data/<slice>/<object>          a slice: its name is a descending xid, made when the slice was opened
    data/!ab/c/<slice>/<object>    extra levels of another edition; any depth
    data/<object>                  an object without a slice

Each folder directly below `data/` is one item, listed recursively in any layout. A large item is cut by key
range, without assumptions about its names.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import FormatError, RefusedError
from dredge.gc.namespaces import DATA, METADATA, left_folder, left_prefixes
from dredge.gc.run import Plan
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import Detail, NamedParts, PartInfo, StepOutput
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.storage import ObjectReader
from dredge.storage.listing_schema import LISTING_SCHEMA_WITH_CLASS, STORAGE_CLASS
from dredge.storage.parallel import InFlight, map_ahead
from dredge.xid import descending_time

# Keys are cut at these characters. A cut is exact for all other characters, too.
_CUTS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
# The servers that name slices have clocks of their own.
_YOUNG_MARGIN = timedelta(hours=1)

LISTED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),  # key relative to the storage namespace, raw
        pa.field("size", pa.int64(), nullable=False),  # in bytes
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),  # by the store's clock
        pa.field("etag", pa.string()),
        pa.field("hash", pa.uint64(), nullable=False),  # `dredge.hashing.hash64` of the address
        pa.field("storage_class", pa.string()),  # null for the standard class
    ]
)
# Names of the step's files begin with these.
OLD, YOUNG = "part", "young"


class SliceListingOutput(StepOutput):
    """The objects of the store below `data/`."""

    STEP = "slice_listing"

    # Rows (`LISTED`) of objects older than the cutoff, and of younger ones in slices that no later run lists again.
    listed = NamedParts(f"{OLD}-")
    young = NamedParts(f"{YOUNG}-")
    # Name of the newest slice; "" without slices.
    first_slice: Detail[str] = Detail("first_slice")
    # Folders below `data/` with files of another repository, existing or deleted.
    foreign_folders: Detail[list[str]] = Detail("foreign_folders")

    @property
    def from_inventory(self) -> bool:
        """Whether the rows are from an inventory, not from a listing of the store."""
        return "inventory" in self.summary.details

    @property
    def foreign_prefixes(self) -> set[str]:
        """Prefixes kept of these folders."""
        return {
            prefix for folder in self.foreign_folders for prefix in left_prefixes(folder, _is_own(folder))
        }

    @property
    def unlisted_text(self) -> str:
        """A note about unlisted slices, which are too young; "" without such slices."""
        return unlisted_text(self.counts["young_slices"], self.counts["slices"])


def _is_own(folder: str) -> bool:
    above = folder.rstrip("/").rpartition("/")[0]
    return folder == DATA or (f"{above}/" == DATA and slice_time(folder) is not None)


def unlisted_text(young_slices: int, slices: int) -> str:
    """A note about unlisted slices, which are too young; "" without such slices."""
    if not young_slices:
        return ""
    return (
        f"{young_slices:,} of {slices:,} slices were not listed, because all their objects are too young to be"
        " deleted. These objects are not counted here, neither as live nor as young."
    )


type Kind = Literal["tree", "level", "outside"]


class Item(Struct, frozen=True):
    """A piece of the listing."""

    prefix: str  # of every key
    start_after: str = ""  # only greater keys; "" for all
    stop_before: str = ""  # only smaller keys; "" for all
    # "tree" (all below the prefix), "level" (objects directly below it) or "outside" (only counted)
    kind: Kind = "tree"
    capped: bool = True  # whether a long listing may stop, and leave the rest to other tasks


# The namespace except `data/` and `_lakefs/`.
OUTSIDE = (
    Item("", "", METADATA, "outside"),
    Item("", METADATA + "\U0010ffff", DATA, "outside"),
    Item("", DATA + "\U0010ffff", "", "outside"),
)


def slice_time(folder: str) -> datetime | None:
    """The time when a slice was opened, by its key; None for any other folder."""
    try:
        return descending_time(folder.rstrip("/").rpartition("/")[2])
    except FormatError:
        return None


def is_young(folder: str, cutoff: datetime, now: datetime) -> bool:
    """Whether a slice was opened so late that all its objects are younger than the cutoff.

    A name near the cutoff, or with a time after `now` (the store's time), is no proof.
    """
    opened = slice_time(folder)
    return opened is not None and cutoff + _YOUNG_MARGIN <= opened <= now + _YOUNG_MARGIN


# Reasons to list a slice (the first two) or to skip it.
_NEW, _AGAIN, _YOUNG, _COVERED, _OTHER = "new", "again", "young", "covered", "other"


def choose_slices(plan: Plan, folders: Iterable[str]) -> tuple[list[str], Counter[str]]:
    """Choose the slices to list among the folders directly below `data/`; count all by reason.

    A slice is only skipped if its name proves that it has no candidates: all objects are "young", "covered" by earlier
    runs, or it is of an "other" window. Slices listed "again" have restored objects.
    """
    why = {folder: _why(plan, folder) for folder in folders}
    return [folder for folder in why if why[folder] in (_NEW, _AGAIN)], Counter(why.values())


def _why(plan: Plan, folder: str) -> str:
    opened, (begin, end) = slice_time(folder), plan.window
    if opened is None:
        return _NEW
    if is_young(folder, plan.cutoff, plan.created_at):
        return _YOUNG
    if begin <= opened < end and not plan.covered.has(opened):
        return _NEW
    if plan.again.has(opened):
        return _AGAIN
    return _COVERED if plan.covered.has(opened) else _OTHER


def cut_rest(item: Item, first_key: str, last_key: str) -> list[Item]:
    """Cut the rest of an item, after the last listed key, into ranges that cover it exactly.

    The rest is cut at the first character at which the listed keys differ, and at the character before.
    """
    pairs = enumerate(zip(first_key, last_key, strict=False))
    differ = next(
        (place for place, (one, other) in pairs if one != other), min(len(first_key), len(last_key))
    )
    cuts = {
        last_key[:place] + character
        for place in (differ - 1, differ)
        if len(item.prefix) <= place < len(last_key)
        for character in _CUTS
    }
    inside = sorted(
        cut for cut in cuts if cut > last_key and (not item.stop_before or cut < item.stop_before)
    )
    ranges = []
    for cut in inside:
        # `start_after` excludes its own key, so the range before a cut includes the cut.
        ranges.append(replace(item, start_after=last_key, stop_before=cut + "\0"))
        last_key = cut
    return [*ranges, replace(item, start_after=last_key)]


# Objects outside `data/` are only counted for a warning; beyond this number the exact count does not matter.
_OUTSIDE_MAX = 1_000_000
_SHOWS_REPOSITORY = f"/{METADATA}|/dummy$"


class ListConfig(Struct, frozen=True, kw_only=True):
    """The parameters of all tasks."""

    cutoff: datetime  # objects modified strictly before this become rows of old objects
    # slices opened before this are not listed again, so their young objects become rows as well
    covers_until: datetime
    rows_max: int  # objects of one item before its rest is left to other tasks
    part_rows: int  # rows of a file
    threads: int  # items listed at once by a task, at first


class ListTask(Struct, frozen=True, kw_only=True):
    """A task; its name is in the names of its files, and no other task of the step has it."""

    name: str
    items: list[Item]


class ListResult(Struct, frozen=True, kw_only=True):
    """The result of a task."""

    parts: list[PartInfo]  # files of old objects, then files of young ones
    counts: dict[str, int]  # figures by name
    foreign: list[str]  # folders below `data/` with files of another repository (`namespaces.left_folder`)
    rest: list[Item] = field(default_factory=list)  # the rest of long items, cut into ranges
    slices: list[str] = field(
        default_factory=list
    )  # of an inventory: folders directly below `data/` with objects


@partition_function
def list_items(run: WorkerRun, config: ListConfig, task: ListTask) -> ListResult:
    """List items and write their objects as parts. Raises RefusedError: an object without a usable time."""
    old = PartSink(run.folder, f"{OLD}-{task.name}", config.part_rows)
    young = PartSink(run.folder, f"{YOUNG}-{task.name}", config.part_rows)
    counts: Counter[str] = Counter()
    rest: list[Item] = []
    foreign: set[str] = set()
    reader, flight = run.open_store(), InFlight(config.threads)
    # In the order of the items, so a repeated task writes the same parts.
    for listed in map_ahead(lambda item: _list_item(reader, item, config), task.items, Listed.nbytes, flight):
        run.progress.add(listed.counts["old_objects"] + listed.counts["young_objects"])
        counts.update(listed.counts)
        rest.extend(listed.rest)
        foreign |= listed.foreign
        old.add(listed.old)
        young.add(listed.young)
    parts = [*old.finish(), *young.finish()]
    return ListResult(parts=parts, counts=dict(counts), rest=rest, foreign=sorted(foreign))


class Listed(Struct):
    """The rows and figures of one item, and its rest."""

    old: list[pa.Table] = field(default_factory=list)
    young: list[pa.Table] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rest: list[Item] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)

    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(table.nbytes for table in (*self.old, *self.young))


def _list_item(reader: ObjectReader, item: Item, config: ListConfig) -> Listed:
    listed = Listed()
    if item.kind == "outside":
        for batch in reader.list(item.prefix, item.start_after, item.stop_before):
            count_outside(batch, listed.counts)
            if sum(listed.counts[name] for name in ("root_objects", "elsewhere_objects")) >= _OUTSIDE_MAX:
                break
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
    """Raise RefusedError for an object without a usable time."""
    times = batch["last_modified"]
    # Not at module level: the first value of Arrow's in a process imports pandas, for half a second.
    epoch = pa.scalar(0, pa.timestamp("us", tz="UTC"))
    useless = pc.or_kleene(pc.is_null(times), pc.less_equal(times, epoch))
    if pc.any(useless).as_py():
        key = batch["key"].filter(useless)[0].as_py()
        raise RefusedError(
            f"the store gives no time for {key!r}. An object of unknown age can be neither kept nor deleted safely."
            " Nothing was deleted. Check the store: a listing must have Last-Modified."
        )


def note_foreign(batch: pa.RecordBatch, listed: Listed) -> None:
    """Record folders with keys of another repository."""
    inner = pc.match_substring_regex(batch["key"], _SHOWS_REPOSITORY)
    if pc.any(inner).as_py():
        listed.foreign |= set(map(left_folder, batch["key"].filter(inner).to_pylist()))
        listed.counts["foreign_metadata"] += pc.sum(inner).as_py()


def sort_by_age(batch: pa.RecordBatch, cutoff: datetime, listed: Listed, will_be_covered: bool) -> None:
    """Count objects by age; keep the rows of old objects, and of young objects in slices not listed again."""
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


def count_outside(batch: pa.RecordBatch, counts: Counter[str]) -> None:
    """Count objects directly in the namespace root, and objects in folders outside `data/` and `_lakefs/`."""
    nested = pc.match_substring(batch["key"], "/")
    root = batch.filter(pc.invert(pc.or_(nested, pc.equal(batch["key"], "dummy"))))
    counts["root_objects"] += root.num_rows
    counts["root_bytes"] += pc.sum(root["size"]).as_py() or 0
    counts["elsewhere_objects"] += pc.sum(nested).as_py() or 0


class PartSink:
    """Collects rows of `LISTED` and writes them in order, as parts of at least `part_rows` rows but for the last."""

    def __init__(self, folder: RunFolder, name: str, part_rows: int) -> None:
        self._folder = folder
        self._name = name
        self._parts: list[PartInfo] = []
        self._part_rows = part_rows
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, tables: list[pa.Table]) -> None:
        """Add rows."""
        for table in tables:
            self._tables.append(table)
            self._rows += table.num_rows
            if self._rows >= self._part_rows:
                self._flush()

    def finish(self) -> list[PartInfo]:
        """Write the rest; return all parts."""
        if self._rows:
            self._flush()
        return self._parts

    def _flush(self) -> None:
        table = pa.concat_tables(self._tables)
        self._parts.append(
            self._folder.write_table(SliceListingOutput.STEP, len(self._parts), table, self._name)
        )
        self._tables, self._rows = [], 0
