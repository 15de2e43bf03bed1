"""Objects that an earlier run or an inventory knew of, and which nothing may name any more.

    in the inventory, where there is one instead of a listing ·
    staged then · named by a range that was active then and is not now, or of which single paths were kept ·
    due in the pending list · young in a slice that will not be listed again
        → not live → each once → is it in the store, and how old is it? (`store_lookup`)

The store is asked for the few that are left at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError
from dredge.gc.index.ranges import decode_keys
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA, METADATA
from dredge.gc.pending.known import Gone, Known
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.state import Base, base_of
from dredge.gc.subtract.classify import SubtractConfig
from dredge.gc.subtract.output import SubtractOutput
from dredge.gc.subtract.store_lookup import LookedUp, folders_of, look_up
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.pending.rows import due
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.live import LiveSet
from dredge.storage import open_writer

_LARGE = 20_000
"""So many addresses of one folder are looked up by several tasks; lakeFS puts up to 50,000 objects into a slice."""
ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("hash", pa.uint64())])


def look_into(
    run: Run, runner: TaskRunner, record: StepRecord, config: SubtractConfig, known: Known
) -> LookedUp:
    """Find candidates among the objects that are known from elsewhere than the listing.

    Args:
        run: this run.
        runner: spreads the work.
        record: of the subtract step; its parts are the candidates found by listing.
        config: of the step.
        known: the pending list of the runs before.
    """
    searched = _search_all(run, runner, record, config, known)
    found = [part for result in searched for part in result.parts]
    unnamed = LookedUp(
        inventory_objects=sum(result.rows for result in searched),
        inventory_bytes=sum(result.size_bytes for result in searched),
    )
    if not found:
        return unnamed
    listed = [part for part in record.parts if part.name.startswith(f"{SubtractOutput.STEP}/part-")]
    large = (folder for result in searched for folder in result.large)
    looked_up = unnamed + look_up(run, runner, config, found, listed, large)
    if looked_up.refused_objects:
        record.warn(
            f"{looked_up.refused_objects:,} objects are held back: the store refused to describe them"
            f" ({looked_up.refused}). Nothing of them was deleted; later runs ask again. Allow reading of these"
            " objects, or bring them back from an archive"
        )
    return looked_up


def _search_all(
    run: Run, runner: TaskRunner, record: StepRecord, config: SubtractConfig, known: Known
) -> list[SearchResult]:
    """Rows of addresses that an earlier run or an inventory knew of and that are not live."""
    listing, here = record.input(SliceListingOutput), run.plan.run_uri
    searches = [_search(run, runner, record, config.live, _Sources("young", here, rows=listing.young))]
    if listing.from_inventory:
        # It says what was there: what has been deleted or written anew since, only the store can tell.
        found = _Sources("inventory", here, rows=listing.listed, sized=True)
        searches.append(_search(run, runner, record, config.live, found))
    base = base_of(run)
    if base is not None:
        staged = _Sources("earlier", base.state.run_uri, rows=base.state.staged)
        searches.append(_search(run, runner, record, config.live, staged))
        # What that run deleted needs no look.
        due = Due(marked_at=run.plan.created_at, grace=known.grace, cutoff=run.plan.cutoff, gone=Gone.of(run))
        pending = _Sources("pending", run.state.uri, rows=known.parts, due=due)
        searches.append(_search(run, runner, record, config.live, pending))
        ranges = _let_go(run, base, record)
        searches.append(
            _search(run, runner, record, config.live, _Sources("dropped", run.plan.run_uri, ranges=ranges))
        )
    return [result for results in searches for result in results]


def _let_go(run: Run, base: Base, record: StepRecord) -> list[str]:
    """Ranges that were active in the earlier run and are not now, and those of which it kept single paths:
    another policy may keep other ones."""
    tables = [
        run.folder.read_part(record.input(ListCommittedOutput).dropped, ["range_id"]),
        base.folder.read_part(base.state.path_ranges, ["range_id"]),
    ]
    return sorted({range_id for table in tables for range_id in table["range_id"].to_pylist()})


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where addresses are named: files of rows, or ranges.

    Attributes:
        name: of the files that the search writes.
        uri: of the run folder that has the rows.
        rows: files with a column `address`.
        ranges: ids.
        sized: whether the rows have sizes that are added up.
        due: which rows of the pending list count; None where the rows are none.
    """

    name: str
    uri: str
    rows: Sequence[PartInfo] = ()
    ranges: Sequence[str] = ()
    sized: bool = False
    due: Due | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Which rows of the pending list a run looks for; a payload. See `dredge.runs.pending.rows.due`.

    Attributes:
        marked_at: when the run was planned.
        grace: how long an object waits.
        cutoff: an object that was modified later is young.
        gone: what the run that left the state deleted; it needs no look.
    """

    marked_at: datetime
    grace: timedelta
    cutoff: datetime
    gone: Gone

    def of(self, folder: RunFolder, part: PartInfo) -> pa.Array:
        """The addresses of a file of the list that count. Of most files none does, and names are what is long."""
        telling = folder.read_part(part, ["last_modified", "status", "since"])
        wanted = due(telling, self.marked_at, self.grace, self.cutoff)
        if not wanted.any():
            return pa.array([], pa.string())
        rows = folder.read_part(part, ["address", "hash"]).filter(pa.array(wanted))
        return _addresses(rows.filter(pa.array(~self.gone.among(rows["hash"].to_numpy()))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """What all tasks of a search need; a payload.

    Attributes:
        run_uri: the run folder of files with rows.
        live: hashes of every address that is live.
        sized: whether rows have sizes that are added up.
        due: which rows of the pending list count; None where the rows are none.
    """

    run_uri: str
    live: LiveSet
    sized: bool
    due: Due | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTask:
    """Some sources; a payload.

    Attributes:
        name: of the files that the task writes.
        rows: files with a column `address`.
        ranges: ids of ranges of this repository.
    """

    name: str
    rows: list[PartInfo]
    ranges: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a task found; a payload.

    Attributes:
        parts: rows of `ADDRESSES`.
        unread: sentences about ranges that could not be read.
        rows: objects of an inventory that are not live.
        size_bytes: their sizes together.
        large: folders with more addresses than one task should look up.
    """

    parts: list[PartInfo]
    unread: list[str]
    rows: int = 0
    size_bytes: int = 0
    large: list[str] = field(default_factory=list)


def _search(
    run: Run, runner: TaskRunner, record: StepRecord, live: LiveSet, sources: _Sources
) -> list[SearchResult]:
    count = len(sources.rows) + len(sources.ranges)
    rows = round_robin(sources.rows, run.num_tasks(runner, len(sources.rows)))
    ranges = round_robin(sources.ranges, run.num_tasks(runner, len(sources.ranges)))
    shares: list[tuple[list[PartInfo], list[str]]] = [
        *((share, list[str]()) for share in rows),
        *((list[PartInfo](), share) for share in ranges),
    ]
    tasks = [
        SearchTask(name=f"{sources.name}-{index:05d}", rows=files, ranges=ids)
        for index, (files, ids) in enumerate(shares)
    ]
    config = SearchConfig(run_uri=sources.uri, live=live, sized=sources.sized, due=sources.due)
    results = run.spread(runner, SubtractOutput.STEP, search_sources, config, tasks, "files", count)
    for result in results:
        for text in result.unread:
            record.warn(text)
    return results


@partition_function
def search_sources(run: WorkerRun, config: SearchConfig, task: SearchTask) -> SearchResult:
    """Write the addresses of some sources that are not live."""
    source, reader = RunFolder(open_writer(config.run_uri), "an earlier run"), run.open_store()
    parts: list[PartInfo] = []
    unread: list[str] = []
    total = [0, 0]
    in_folder: Counter[str] = Counter()

    def write(addresses: pa.Array) -> pa.Array:
        addresses = addresses.filter(pc.starts_with(addresses, DATA))
        hashes = hash64(addresses)
        (live,) = config.live.find([hashes])
        dead = pa.array(~live)
        rows = pa.Table.from_arrays([addresses.filter(dead), pa.array(hashes).filter(dead)], schema=ADDRESSES)
        if rows.num_rows:
            for group in pc.value_counts(folders_of(rows["address"])).to_pylist():
                in_folder[group["values"]] += group["counts"]
            index = len(parts)
            parts.append(run.folder.write_table(SubtractOutput.STEP, index, rows, f"earlier-{task.name}"))
        return dead

    for part in task.rows:
        if config.due is not None:
            addresses = config.due.of(source, part)
            if len(addresses):
                write(addresses)
            continue
        rows = source.read_part(part, ["address", *(["size"] if config.sized else [])])
        dead = write(_addresses(rows))
        if config.sized:
            total[0] += pc.sum(dead).as_py() or 0
            total[1] += pc.sum(rows["size"].filter(dead)).as_py() or 0
    for range_id in task.ranges:
        key = METADATA + range_id
        try:
            addresses = decode_keys(reader.get(key), key, run.stores.store_uri)
        except DredgeError as error:
            unread.append(
                f"what range {range_id} named is left to the next clean run: it cannot be read ({error})"
            )
            continue
        write(addresses)
    large = sorted(folder for folder, count in in_folder.items() if count > _LARGE)
    return SearchResult(parts=parts, unread=unread, rows=total[0], size_bytes=total[1], large=large)


def _addresses(rows: pa.Table) -> pa.Array:
    found = rows["address"].combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
