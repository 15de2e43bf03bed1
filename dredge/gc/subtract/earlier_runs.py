"""Unreferenced objects from other sources than a listing, and the check of optimized runs against clean runs.

an inventory instead of a listing · staged then · in a range that was active then and is not now, or of which single
paths were kept · due in the pending list · young in a slice without a new listing
    → not live → each once → in the store, and how old? (`ask_store`)

Neighbours are found by a listing of their folder, others by single lookups: the way with fewer requests.

missing → dropped · young → waits · old → candidate · refused by the store → held candidate
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.config import CLEAN
from dredge.gc.index.ranges import decode_keys
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import DATA, METADATA, Keys
from dredge.gc.pending.known import Gone, Known
from dredge.gc.referring import Referred
from dredge.gc.run import Run
from dredge.gc.slice_listing import LISTED, SliceListingOutput, slice_time
from dredge.gc.state import Base, base_of, open_base
from dredge.gc.subtract.candidates import Candidates, SubtractConfig, SubtractOutput, write_candidates
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo, from_json
from dredge.runs.pending.rows import due
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import Hashes, contains, read_hashes, shard_of, unite
from dredge.sets.live import LiveSet
from dredge.storage import ObjectInfo, ObjectReader, open_writer
from dredge.storage.listing_schema import STORAGE_CLASS
from dredge.storage.model import LOOKS_PER_PAGE, PAGE_ROWS, find_neighbours
from dredge.storage.parallel import STORE, ordered_map

_SHARD_BITS = 6
_ROWS_PER_TASK = 1000
# With so many refused objects in a folder, a policy probably forbids single lookups, and the folder is listed; fewer
# are held.
_REFUSED_MIN = 4
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class LookupConfig(Struct, frozen=True, kw_only=True):
    """The config of the lookup; a payload."""

    subtract: SubtractConfig
    found: list[PartInfo]  # rows of unreferenced addresses, with repetitions
    listed: list[PartInfo]  # candidates of the listing; they need no lookup
    cutoff: datetime  # only objects last modified strictly before this are candidates
    large: list[str]  # folders shared by several tasks


class LookedUp(Struct, frozen=True, kw_only=True):
    """The answers of the store; a payload."""

    candidates: Candidates = field(default_factory=Candidates)  # old objects, and refused ones
    young: list[PartInfo] = field(default_factory=list)  # rows of young objects
    asked_objects: int = 0
    gone_objects: int = 0
    young_objects: int = 0
    refused_objects: int = 0
    refused: str = ""  # the store's message about a refused object; "" without any
    inventory_objects: int = 0  # unreferenced objects of an inventory, existing or not
    inventory_bytes: int = 0  # their total size in the inventory

    @property
    def parts(self) -> list[PartInfo]:
        """All files."""
        return [*self.candidates.parts, *self.young]

    def __add__(self, other: LookedUp) -> LookedUp:
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__}
        return LookedUp(**{**sums, "refused": self.refused or other.refused})


def look_up(
    run: Run,
    runner: TaskRunner,
    config: SubtractConfig,
    found: list[PartInfo],
    listed: list[PartInfo],
    large: Iterable[str],
) -> LookedUp:
    """Look up unreferenced objects outside the listing, each once; several tasks share a large folder."""
    rows = sum(part.rows for part in found)
    # Shards of the addresses: by the hash of the folder, or of the address in a large folder.
    tasks = round_robin(range(1 << _SHARD_BITS), run.num_tasks(runner, 1 + rows // _ROWS_PER_TASK))
    shared = LookupConfig(
        subtract=config, found=found, listed=listed, cutoff=run.plan.cutoff, large=sorted(set(large))
    )
    results = run.spread(runner, SubtractOutput.STEP, look_up_shards, shared, tasks, "objects", rows)
    return sum(results, LookedUp())


@partition_function
def look_up_shards(run: WorkerRun, config: LookupConfig, numbers: list[int]) -> LookedUp:
    """Look up the objects of some shards, and write old objects as candidates."""
    folder, reader = run.folder, run.open_store()
    settings, shards = config.subtract.settings, _Shards(numbers, config.large)
    listed = [
        shards.of(folder.read_part(part, ["address", "hash"]))["hash"].to_numpy() for part in config.listed
    ]
    addresses = _once(folder, config.found, shards, unite(listed))
    answers = list(ask_store(reader, by_folder(addresses), settings.tuning.threads).values())
    there = [info for info in answers if isinstance(info, ObjectInfo)]
    refused = [info for info in answers if isinstance(info, Refused)]
    old = [info for info in there if info.last_modified < config.cutoff]
    young = [info for info in there if info.last_modified >= config.cutoff]
    rows_max, name = settings.tuning.candidate_rows, f"earlier-{run.task}"
    candidates = write_candidates(folder, config.subtract, _tables(old, rows_max), name)
    unknown = [ObjectInfo(item.key, 0, _EPOCH, None) for item in refused]
    tables = _tables(unknown, rows_max)
    candidates += write_candidates(folder, config.subtract, tables, f"{name}-undescribed", undescribed=True)
    files = [folder.write_table(SubtractOutput.STEP, 0, _table(young), f"young-{name}")] if young else []
    return LookedUp(
        candidates=candidates,
        young=files,
        asked_objects=len(addresses),
        gone_objects=answers.count(None),
        young_objects=len(young),
        refused_objects=len(refused),
        refused=refused[0].message if refused else "",
    )


def _once(folder: RunFolder, parts: Sequence[PartInfo], shards: _Shards, without: Hashes) -> list[str]:
    """The distinct addresses of some shards, without those of the listing."""
    seen: set[str] = set()
    for table in folder.read_parts(parts):
        rows = shards.of(table)
        rows = rows.filter(pa.array(~contains(without, rows["hash"].to_numpy())))
        seen.update(rows["address"].to_pylist())
    return sorted(seen)


class _Shards:
    """Selects rows by shard: a folder is in a single shard, for a single listing; a large folder is in all shards."""

    def __init__(self, numbers: Sequence[int], large: Sequence[str]) -> None:
        self._numbers = np.array(numbers, np.int64)
        self._large = pa.array(large, pa.string())

    def of(self, rows: pa.Table) -> pa.Table:
        """Select the rows in these shards."""
        if not rows.num_rows:
            return rows
        folders = folders_of(rows["address"])
        by_folder = shard_of(hash64(folders), _SHARD_BITS)
        by_address = shard_of(rows["hash"].to_numpy(), _SHARD_BITS)
        found = np.where(pc.is_in(folders, self._large).to_numpy(False), by_address, by_folder)
        return rows.filter(pa.array(np.isin(found, self._numbers)))


def folders_of(addresses: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The folder of each address, with its slash."""
    plain = addresses
    if isinstance(addresses, pa.ChunkedArray):
        plain = pa.concat_arrays(addresses.chunks) if addresses.num_chunks else pa.array([], pa.string())
    return pc.replace_substring_regex(plain, "[^/]*$", "", max_replacements=1)


class Refused(Struct, frozen=True):
    """An object that the store refuses to describe."""

    key: str
    message: str


# None: there is no such object.
type Answer = ObjectInfo | Refused | None


def ask_store(
    reader: ObjectReader, groups: Sequence[Sequence[str]], threads: int, refused_min: int = _REFUSED_MIN
) -> dict[str, Answer]:
    """Look up distinct objects in the store, in groups of neighbours in a folder, each in byte order; return an answer
    for each. If the store refuses to describe `refused_min` objects of a folder, the folder is listed."""
    answers: dict[str, Answer] = {}
    if reader.is_remote:
        close = [names for names in groups if len(names) >= LOOKS_PER_PAGE]
        answers = _listed(partial(_list, reader), close, threads)
    rest = [name for names in groups for name in names if name not in answers]
    answers.update(
        zip(
            rest,
            ordered_map(partial(_stat, reader), rest, STORE if reader.is_remote else threads),
            strict=True,
        )
    )
    refused = by_folder([address for address in rest if isinstance(answers[address], Refused)])
    many = [names for names in refused if len(names) >= refused_min]
    answers.update(_listed(partial(_list_anyway, reader), many, threads))
    return answers


def _listed(
    list_folder: Callable[[Sequence[str]], Mapping[str, Answer]],
    folders: Sequence[Sequence[str]],
    threads: int,
) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for found in ordered_map(list_folder, folders, threads):
        answers.update(found)
    return answers


def by_folder(addresses: Iterable[str]) -> list[list[str]]:
    """Group objects by their folder."""
    folders: dict[str, list[str]] = {}
    for address in addresses:
        folders.setdefault(address.rpartition("/")[0], []).append(address)
    return list(folders.values())


def _list_anyway(reader: ObjectReader, names: Sequence[str]) -> dict[str, Answer]:
    """Look up objects by listing their folder at any cost; no answers if the listing fails too."""
    try:
        return _list(reader, names, looks_per_page=0)
    except (ConfigError, UnavailableError):
        return {}


def _list(
    reader: ObjectReader, names: Sequence[str], looks_per_page: int = LOOKS_PER_PAGE
) -> dict[str, Answer]:
    """Look up objects by listing their folder, while its pages cost less than single lookups."""
    settled: dict[str, Answer] = {}
    prefix = names[0].rpartition("/")[0] + "/"
    try:
        for stretch in find_neighbours(reader, prefix, names):
            settled.update(dict.fromkeys(stretch.names))
            settled.update((row["key"], _info(row)) for row in stretch.found.to_pylist())
            if len(stretch.names) * PAGE_ROWS < stretch.listed * looks_per_page:
                break
    except FormatError:
        return {}  # this store cannot list the folder exactly; single lookups may work
    return settled


def _info(row: dict[str, Any]) -> ObjectInfo:
    modified = _checked(row["key"], row["last_modified"])
    return ObjectInfo(row["key"], row["size"], modified, row["etag"], row.get(STORAGE_CLASS))


def _stat(reader: ObjectReader, address: str) -> Answer:
    try:
        info = reader.stat(address)
    except NotFoundError:
        return None
    except (ConfigError, UnavailableError) as error:
        # Access to this object is denied, or it is encrypted with a key that only its owner has.
        return Refused(address, str(error))
    _checked(address, info.last_modified)
    return info


def _checked(address: str, last_modified: datetime | None) -> datetime:
    if last_modified is None or last_modified <= _EPOCH:
        raise RefusedError(
            f"the store returned no Last-Modified for {address!r}, so its age is unknown. Nothing was deleted."
        )
    return last_modified.astimezone(UTC)


def _tables(infos: Sequence[ObjectInfo], rows_max: int) -> Iterator[pa.Table]:
    for first in range(0, len(infos), rows_max):
        yield _table(infos[first : first + rows_max])


def _table(infos: Sequence[ObjectInfo]) -> pa.Table:
    addresses = pa.array([info.key for info in infos], pa.string())
    columns = [
        addresses,
        pa.array([info.size for info in infos], pa.int64()),
        pa.array([info.last_modified for info in infos], pa.timestamp("us", tz="UTC")),
        pa.array([info.etag for info in infos], pa.string()),
        pa.array(hash64(addresses)),
        pa.array([info.storage_class for info in infos], pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=LISTED)


log = logging.getLogger("dredge")

# Several tasks look up a folder with more addresses; lakeFS puts up to 50,000 objects into a slice.
_LARGE = 20_000
_EXAMPLES_MAX = 20
ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("hash", pa.uint64())])


def look_into(
    run: Run, runner: TaskRunner, record: StepRecord, config: SubtractConfig, known: Known
) -> LookedUp:
    """Find candidates outside the listing; the parts of the record are those of the listing."""
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
            f"{looked_up.refused_objects:,} objects are held: the store refused to describe them"
            f" ({looked_up.refused}). None of them was deleted; later runs look them up again. Allow the collector to"
            " read them, or restore them from the archive"
        )
    return looked_up


def _candidates(record: StepRecord) -> list[PartInfo]:
    return [part for part in record.parts if part.name.startswith(f"{SubtractOutput.STEP}/part-")]


def _search_all(
    run: Run, runner: TaskRunner, record: StepRecord, config: SubtractConfig, known: Known
) -> list[SearchResult]:
    listing, here, live = record.input(SliceListingOutput), run.plan.run_uri, config.live
    young = SearchConfig(name="young", run_uri=here, live=live)
    sources: list[tuple[SearchConfig, Sequence[Source]]] = [(young, listing.young)]
    if listing.from_inventory:
        # Objects may have been deleted or overwritten since the inventory: the store is asked.
        sources.append((replace(young, name="inventory", sized=True), listing.listed))
    base = base_of(run)
    if base is not None:
        sources.append((replace(young, name="earlier", run_uri=base.state.run_uri), base.state.staged))
        due = Due(marked_at=run.plan.created_at, grace=known.grace, cutoff=run.plan.cutoff, gone=Gone.of(run))
        rows = known.find_due_parts(due.marked_at, due.cutoff)
        sources.append((replace(young, name="pending", run_uri=run.state.uri, due=due), rows))
        sources.append((replace(young, name="dropped"), _let_go(run.folder, base, record)))
    return [result for source in sources for result in _search(run, runner, record, *source)]


def _let_go(folder: RunFolder, base: Base, record: StepRecord) -> list[str]:
    """Ranges active in the earlier run and not now, and ranges with single paths kept then: policies change."""
    tables = [
        folder.read_part(record.input(ListCommittedOutput).dropped, ["range_id"]),
        base.folder.read_part(base.state.path_ranges, ["range_id"]),
    ]
    return sorted({range_id for table in tables for range_id in table["range_id"].to_pylist()})


class Due(Struct, frozen=True, kw_only=True):
    """Selects the rows of the pending list to look up (`dredge.runs.pending.rows.due`); a payload."""

    marked_at: datetime
    grace: timedelta
    cutoff: datetime
    gone: Gone  # deletions of the run that left the state; they need no lookup

    def of(self, folder: RunFolder, part: PartInfo) -> pa.Array:
        """The selected addresses of a file of the list."""
        # Most files have no selected row, and addresses are the largest column: read last.
        columns = folder.read_part(part, ["last_modified", "status", "since"])
        wanted = due(columns, self.marked_at, self.grace, self.cutoff)
        if not wanted.any():
            return pa.array([], pa.string())
        rows = folder.read_part(part, ["address", "hash"]).filter(pa.array(wanted))
        return _addresses(rows.filter(pa.array(~self.gone.among(rows["hash"].to_numpy()))))


class SearchConfig(Struct, frozen=True, kw_only=True):
    """The config of a search; a payload."""

    name: str  # part of the names of the files that the search writes
    run_uri: str  # of the run folder with the rows
    live: LiveSet
    sized: bool = False  # the rows have sizes, for a total
    due: Due | None = None  # selects rows of the pending list; None for other rows


# A file of rows, or the id of a range.
type Source = PartInfo | str


class SearchResult(Struct, frozen=True, kw_only=True):
    """The result of a task; a payload."""

    parts: list[PartInfo]  # rows of `ADDRESSES`
    unread: list[str]  # warnings about unreadable ranges
    rows: int = 0  # unreferenced objects of an inventory
    size_bytes: int = 0  # their total size
    large: list[str] = field(default_factory=list)  # folders with more than `_LARGE` addresses


def _search(
    run: Run, runner: TaskRunner, record: StepRecord, config: SearchConfig, sources: Sequence[Source]
) -> list[SearchResult]:
    tasks = run.shares(runner, sources)
    results = run.spread(runner, SubtractOutput.STEP, search_sources, config, tasks, "files", len(sources))
    for result in results:
        for text in result.unread:
            record.warn(text)
    return results


@partition_function
def search_sources(run: WorkerRun, config: SearchConfig, sources: list[PartInfo | str]) -> SearchResult:
    """Read the addresses in some sources, and write those that are not live."""
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
            parts.append(
                run.folder.write_table(SubtractOutput.STEP, index, rows, f"earlier-{config.name}-{run.task}")
            )
        return dead

    for item in sources:
        if isinstance(item, str):
            key = METADATA + item
            try:
                write(decode_keys(reader.get(key), key, Keys(namespace=run.stores.store_uri)))
            except DredgeError as error:
                unread.append(
                    f"range {item} cannot be read ({error}). The next clean run finds the objects of this range"
                )
            continue
        if config.due is not None:
            addresses = config.due.of(source, item)
            if len(addresses):
                write(addresses)
            continue
        rows = source.read_part(item, ["address", *(["size"] if config.sized else [])])
        dead = write(_addresses(rows))
        if config.sized:
            objects += pc.sum(dead).as_py() or 0
            size_bytes += pc.sum(rows["size"].filter(dead)).as_py() or 0
    large = sorted(folder for folder, count in in_folder.items() if count > _LARGE)
    return SearchResult(parts=parts, unread=unread, rows=objects, size_bytes=size_bytes, large=large)


def _addresses(rows: pa.Table) -> pa.Array:
    found = rows["address"].combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def find_drift(run: Run, record: StepRecord, known: Known) -> dict[str, Any] | None:
    """Find candidates of a clean run missed by optimized runs; None for optimized runs, and without a state or a
    list.

    An optimized run covers staged and committed objects of the run before, the pending list, and slices not yet
    covered or to be listed again. Other garbage can only be an object written into its slice after the margin; else
    the collector has a bug, and the run a warning.
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
    committed = base.folder.read_output(ListCommittedOutput)
    for item in [] if committed is None else committed.referring:
        for part in from_json(Referred, item).live.shards.values():
            yield read_hashes(base.folder, part)
    table = run.folder.read_part(record.input(ListCommittedOutput).ranges, ["range_id"])
    now = set(table["range_id"].to_pylist())
    by_path = base.folder.read_part(base.state.path_ranges, ["range_id"])["range_id"].to_pylist()
    for range_id in {*base.ranges(), *by_path} - now:
        key = METADATA + range_id
        try:
            yield np.unique(hash64(decode_keys(run.reader.get(key), key, run.keys)))
        except DredgeError as error:
            log.info("range %s is no longer active and cannot be read: %s", range_id, error)
