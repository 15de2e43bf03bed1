"""Looks up unreferenced objects in the store: existence and age.

Neighbours are found by a listing of their folder, others by single lookups: the way with fewer requests.

missing → dropped · young → waits · old → candidate · refused by the store → held candidate
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.run import Run
from dredge.gc.slice_listing import LISTED
from dredge.gc.subtract.candidates import Candidates, SubtractConfig, SubtractOutput, write_candidates
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import Hashes, contains, shard_of, unite
from dredge.storage import ObjectInfo, ObjectReader
from dredge.storage.listing_schema import STORAGE_CLASS
from dredge.storage.model import LOOKS_PER_PAGE, LOOKUPS_A_THREAD, PAGE_ROWS, find_neighbours
from dredge.storage.parallel import ordered_map

_SHARD_BITS = 6
_ROWS_PER_TASK = 1000
# So many refused objects of a folder are taken for a policy without single lookups, and the folder is listed; fewer are
# held.
_REFUSED_MIN = 4
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupConfig:
    """The config of the lookup; a payload."""

    subtract: SubtractConfig
    found: list[PartInfo]  # rows of unreferenced addresses, with repetitions
    listed: list[PartInfo]  # candidates of the listing; they need no lookup
    cutoff: datetime  # only objects last modified strictly before this are candidates
    large: list[str]  # folders shared by several tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
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
        sums = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
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


@dataclass(frozen=True, slots=True)
class Refused:
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
    at_once = threads * LOOKUPS_A_THREAD if reader.is_remote else threads
    answers.update(zip(rest, ordered_map(partial(_stat, reader), rest, at_once), strict=True))
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
            f"the store gives no time for {address!r}, so its age is unknown. Nothing was deleted."
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
