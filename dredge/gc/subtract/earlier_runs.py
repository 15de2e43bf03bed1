"""Unreferenced objects known from elsewhere than a listing, and the check of optimized runs against clean runs.

an inventory instead of a listing · staged then · in a range that was active then and is not now, or of which single
paths were kept · due in the pending list · young in a slice without a new listing
    → not live → each once → in the store, and how old? (`store_lookup`)
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError
from dredge.gc.config import CLEAN
from dredge.gc.index.ranges import decode_keys
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA, METADATA
from dredge.gc.pending.known import Gone, Known
from dredge.gc.referring import Referred
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput, slice_time
from dredge.gc.state import Base, base_of, open_base
from dredge.gc.subtract.candidates import SubtractConfig, SubtractOutput
from dredge.gc.subtract.store_lookup import LookedUp, folders_of, look_up
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json
from dredge.runs.pending.rows import due
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import Hashes, contains, read_hashes, unite
from dredge.sets.live import LiveSet
from dredge.storage import open_writer

log = logging.getLogger("dredge")

# Several tasks look up a folder with more addresses; lakeFS puts up to 50,000 objects into a slice.
_LARGE = 20_000
_EXAMPLES_MAX = 20
ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("hash", pa.uint64())])


def look_into(
    run: Run, runner: TaskRunner, record: StepRecord, config: SubtractConfig, known: Known
) -> LookedUp:
    """Find candidates outside the listing.

    Args:
        record: its parts are the candidates of the listing.
        known: the pending list before this run.
    """
    searched = _search_all(run, runner, record, config, known)
    found = [part for result in searched for part in result.parts]
    unnamed = LookedUp(
        inventory_objects=sum(result.rows for result in searched),
        inventory_bytes=sum(result.size_bytes for result in searched),
    )
    if not found:
        return unnamed
    large = (folder for result in searched for folder in result.large)
    looked_up = unnamed + look_up(run, runner, config, found, _candidates(record), large)
    if looked_up.refused_objects:
        record.warn(
            f"{looked_up.refused_objects:,} objects are held: the store refused to describe them ({looked_up.refused})."
            " None of them was deleted; later runs look them up again. Allow reading of these objects, or restore them"
            " from the archive"
        )
    return looked_up


def _candidates(record: StepRecord) -> list[PartInfo]:
    return [part for part in record.parts if part.name.startswith(f"{SubtractOutput.STEP}/part-")]


def _search_all(
    run: Run, runner: TaskRunner, record: StepRecord, config: SubtractConfig, known: Known
) -> list[SearchResult]:
    listing, here = record.input(SliceListingOutput), run.plan.run_uri
    sources = [_Sources("young", here, rows=listing.young)]
    if listing.from_inventory:
        # Objects may have been deleted or overwritten since the inventory: the store is asked.
        sources.append(_Sources("inventory", here, rows=listing.listed, sized=True))
    base = base_of(run)
    if base is not None:
        sources.append(_Sources("earlier", base.state.run_uri, rows=base.state.staged))
        due = Due(marked_at=run.plan.created_at, grace=known.grace, cutoff=run.plan.cutoff, gone=Gone.of(run))
        rows = known.find_due_parts(due.marked_at, due.cutoff)
        sources.append(_Sources("pending", run.state.uri, rows=rows, due=due))
        sources.append(_Sources("dropped", here, ranges=_let_go(run, base, record)))
    return [result for source in sources for result in _search(run, runner, record, config.live, source)]


def _let_go(run: Run, base: Base, record: StepRecord) -> list[str]:
    """Ranges active in the earlier run and not now, and ranges with single paths kept then: policies change."""
    tables = [
        run.folder.read_part(record.input(ListCommittedOutput).dropped, ["range_id"]),
        base.folder.read_part(base.state.path_ranges, ["range_id"]),
    ]
    return sorted({range_id for table in tables for range_id in table["range_id"].to_pylist()})


@dataclass(frozen=True, slots=True)
class _Sources:
    """Sources of addresses: files of rows, or ranges.

    Attributes:
        name: part of the names of the files that the search writes.
        uri: of the run folder with the rows.
        sized: the rows have sizes, for a total.
        due: selects rows of the pending list; None for other rows.
    """

    name: str
    uri: str
    rows: Sequence[PartInfo] = ()
    ranges: Sequence[str] = ()
    sized: bool = False
    due: Due | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Selects the rows of the pending list to look up (`dredge.runs.pending.rows.due`); a payload.

    Attributes:
        gone: deletions of the run that left the state; they need no lookup.
    """

    marked_at: datetime
    grace: timedelta
    cutoff: datetime
    gone: Gone

    def of(self, folder: RunFolder, part: PartInfo) -> pa.Array:
        """The selected addresses of a file of the list."""
        # Most files have no selected row, and addresses are the largest column: read last.
        columns = folder.read_part(part, ["last_modified", "status", "since"])
        wanted = due(columns, self.marked_at, self.grace, self.cutoff)
        if not wanted.any():
            return pa.array([], pa.string())
        rows = folder.read_part(part, ["address", "hash"]).filter(pa.array(wanted))
        return _addresses(rows.filter(pa.array(~self.gone.among(rows["hash"].to_numpy()))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """The config of a search, from `_Sources`; a payload."""

    run_uri: str
    live: LiveSet
    sized: bool
    due: Due | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTask:
    """Some files of rows, or ids of ranges; a payload."""

    name: str
    rows: list[PartInfo]
    ranges: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a task; a payload.

    Attributes:
        parts: rows of `ADDRESSES`.
        unread: warnings about unreadable ranges.
        rows: unreferenced objects of an inventory.
        size_bytes: their total size.
        large: folders with more than `_LARGE` addresses.
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
    """Write the addresses of some sources outside the live set."""
    source, reader = RunFolder(open_writer(config.run_uri), "an earlier run"), run.open_store()
    parts: list[PartInfo] = []
    unread: list[str] = []
    objects = size_bytes = 0
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
            objects += pc.sum(dead).as_py() or 0
            size_bytes += pc.sum(rows["size"].filter(dead)).as_py() or 0
    for range_id in task.ranges:
        key = METADATA + range_id
        try:
            write(decode_keys(reader.get(key), key, run.stores.store_uri))
        except DredgeError as error:
            unread.append(
                f"range {range_id} cannot be read ({error}). The next clean run finds the objects of this range"
            )
    large = sorted(folder for folder, count in in_folder.items() if count > _LARGE)
    return SearchResult(parts=parts, unread=unread, rows=objects, size_bytes=size_bytes, large=large)


def _addresses(rows: pa.Table) -> pa.Array:
    found = rows["address"].combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def find_drift(run: Run, record: StepRecord, known: Known) -> dict[str, Any] | None:
    """Find candidates of a clean run missed by optimized runs.

    An optimized run covers staged and committed objects of the run before, the pending list, and slices not yet
    covered or to be listed again. Other garbage can only be an object written into its slice after the margin; else
    the collector has a bug, and the run a warning.

    Args:
        record: of subtract, with its parts.
        known: the pending list before this run.

    Returns:
        Figures and a few addresses; None for optimized runs, and without a state or a pending list.
    """
    plan = run.plan
    if plan.mode != CLEAN or plan.state is None or known.pending is None:
        return None
    try:
        base = open_base(run, plan.state)
        seen = unite(list(_seen(run, base, record, known)))
    except DredgeError as error:
        record.warn(f"this clean run could not be compared with optimized runs: {error}")
        return None
    figures, samples = _missed(run, base, _candidates(record), seen)
    if figures["unexplained_objects"]:
        record.warn(
            f"{figures['unexplained_objects']:,} objects are garbage that the optimized runs since"
            f" {base.state.clean_run_id} missed although they were written in time, such as {samples[0]!r}. No live"
            " object was lost, but please report this."
        )
    return {
        **figures,
        "samples": samples,
        "since": base.state.clean_run_id,
        "runs": base.state.optimized_runs,
    }


def _missed(run: Run, base: Base, parts: list[PartInfo], seen: Hashes) -> tuple[dict[str, int], list[str]]:
    figures = {"objects": 0, "bytes": 0, "late_objects": 0, "unexplained_objects": 0}
    samples: list[str] = []
    margin = timedelta(hours=run.plan.config.slice_margin_hours)
    for rows in run.folder.read_parts(parts, ["address", "size", "last_modified", "hash"]):
        new = rows.filter(pa.array(~contains(seen, rows["hash"].to_numpy())))
        for row in new.to_pylist():
            opened = slice_time(row["address"].rpartition("/")[0])
            if opened is None or not base.state.covered.has(opened) or run.plan.again.has(opened):
                continue
            figures["objects"] += 1
            figures["bytes"] += row["size"]
            late = row["last_modified"] - opened > margin
            figures["late_objects" if late else "unexplained_objects"] += 1
            if len(samples) < _EXAMPLES_MAX:
                samples.append(row["address"])
    return figures, samples


def _seen(run: Run, base: Base, record: StepRecord, known: Known) -> Iterator[Hashes]:
    """Hashes of the addresses covered by an optimized run in any slice."""
    state = RunFolder(run.state, base.state.run_id)
    for part in known.parts:
        yield state.read_part(part, ["hash"])["hash"].to_numpy()
    for part in base.state.staged:
        addresses = base.folder.read_part(part, ["address"])["address"]
        yield hash64(addresses.combine_chunks())
    # When other repositories stop referring to objects, a clean run follows.
    summary = base.folder.read_summary(ListCommittedOutput.STEP)
    for item in [] if summary is None else ListCommittedOutput.of(summary).referring:
        for part in from_json(Referred, item).live.shards.values():
            yield read_hashes(base.folder, part)
    table = run.folder.read_part(record.input(ListCommittedOutput).ranges, ["range_id"])
    now = set(table["range_id"].to_pylist())
    by_path = base.folder.read_part(base.state.path_ranges, ["range_id"])["range_id"].to_pylist()
    for range_id in {*base.ranges(), *by_path} - now:
        key = METADATA + range_id
        try:
            yield np.unique(hash64(decode_keys(run.reader.get(key), key, run.plan.namespace)))
        except DredgeError as error:
            log.info("range %s is no longer active and cannot be read: %s", range_id, error)
