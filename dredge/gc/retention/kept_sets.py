"""Commits kept beyond the server's answer, with their ranges; and the entries kept by rules about paths.

Commits kept by a tag, by our own walk or by a rule of the policy are active like all others. Of the commits of a rule
about paths, only the entries with a matching path are kept. Their ranges are decoded once for each set of patterns,
into a separate index:

    <namespace>/_lakefs/retention/gc/dredge/paths/<digest of the patterns>/index/…
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.index.ranges import (
    Metaranges,
    RangeFacts,
    RangeHashes,
    Ranges,
    RangeShare,
    ranges_table,
    read_metaranges,
    share_ranges,
)
from dredge.gc.index.store import CommittedIndex, IndexPart, NewPart, read_part, write_part
from dredge.gc.namespaces import METADATA
from dredge.gc.retention.policy import compile_glob, may_match
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.sstable.columns import Expected, read_addresses
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import NONE, Hashes, unite, write_hashes
from dredge.storage import open_writer

# Folder for rules about paths: in the folder of a step, and beside the committed index.
PATHS = "paths"
_TASK_VALUES = 20_000_000


@dataclass(frozen=True, slots=True)
class KeptSet:
    """Commits kept beyond the server's answer."""

    name: str  # unique, for the report
    why: str  # half a sentence for the report
    commits: frozenset[str]  # ids; the server or other sets may keep them as well
    # only entries with a path that matches one of these patterns; () for every entry
    paths: tuple[str, ...] = ()


@dataclass(slots=True)
class Extra:
    """The ranges of a kept set beyond the server's answer."""

    kept: KeptSet  # the set, without the commits of the server's answer
    ranges: Ranges  # of a set about paths only those with possible matches
    files: list[PartInfo] = field(default_factory=list)  # hashes of the kept addresses in these ranges


def find_extra(
    run: Run,
    runner: TaskRunner,
    where: str,
    kept: Iterable[KeptSet],
    metarange_of: Callable[[str], str],
    named: Metaranges,
    without: Collection[str],
) -> list[Extra]:
    """Find the ranges of kept sets beyond those of the server's answer (`without`)."""
    extras = []
    for found in kept:
        wanted = {metarange_of(commit) for commit in found.commits} - {""}
        unread = wanted - named.named.keys()
        ranges = named.select(wanted - unread)
        if unread:
            ranges |= read_metaranges(run, runner, f"{where}/{PATHS}", unread).select(unread)
        extra = {item: facts for item, facts in ranges.items() if item not in without}
        if found.paths:
            extra = {
                item: facts
                for item, facts in extra.items()
                if may_match(found.paths, facts.min_key, facts.max_key)
            }
        extras.append(Extra(found, extra))
    return extras


def num_tasks_for(ranges: Ranges) -> int:
    """The number of tasks for ranges, so that each task stays within its memory."""
    return math.ceil(sum(facts.count for facts in ranges.values()) / _TASK_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathConfig:
    """The parameters of all tasks."""

    where: str  # folder of the files, in the run folder
    paths: list[str]  # patterns
    index_uri: str  # URI of the index of these patterns
    wanted: PartInfo  # rows of the ranges that count; parts of the index may have others


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTask:
    """A task."""

    name: str  # begins the names of its files
    ranges: RangeShare | None  # to decode
    parts: list[IndexPart]  # of the index of these patterns, to read


@dataclass(frozen=True, slots=True, kw_only=True)
class PathResult:
    """The result of a task."""

    hashes: PartInfo  # file of live addresses
    written: list[NewPart]  # new parts of the index
    damaged: list[str]  # names of damaged parts


def collect_paths(run: Run, runner: TaskRunner, where: str, extras: Sequence[Extra]) -> list[PartInfo]:
    """Read the addresses kept by rules about paths, into the files of their sets; return all files of hashes, all
    live."""
    for number, extra in enumerate(extras):
        if extra.kept.paths and extra.ranges:
            extra.files = _collect_paths(run, runner, f"{where}/{PATHS}-{number:02d}", extra)
    return [part for extra in extras if extra.kept.paths for part in extra.files]


def _collect_paths(run: Run, runner: TaskRunner, where: str, extra: Extra) -> list[PartInfo]:
    digest = hashlib.sha256(json.dumps(extra.kept.paths).encode()).hexdigest()[:32]
    uri = f"{run.state.uri.rstrip('/')}/{PATHS}/{digest}"
    index = CommittedIndex.load(open_writer(uri, run.options), run.plan.namespace)
    places = {
        item: part
        for item, facts in extra.ranges.items()
        if (part := index.part_of(item, facts.count)) is not None
    }
    wanted = run.folder.write_table(where, 0, ranges_table(extra.ranges), "wanted")
    config = PathConfig(where=where, paths=list(extra.kept.paths), index_uri=uri, wanted=wanted)
    files: list[PartInfo] = []
    todo = {item: facts for item, facts in extra.ranges.items() if item not in places}
    parts = [index.parts[name] for name in sorted(set(places.values()))]
    turn = 0
    while todo or parts:
        table = run.folder.write_table(where, turn, ranges_table(todo), "todo")
        num_tasks = max(run.num_tasks(runner, len(todo) + len(parts)), num_tasks_for(todo))
        shares = zip_longest(share_ranges(table, num_tasks), round_robin(parts, num_tasks))
        tasks = [
            PathTask(name=f"{turn}-{number:05d}", ranges=ranges, parts=share or [])
            for number, (ranges, share) in enumerate(shares)
        ]
        results = run.spread(runner, where, read_paths, config, tasks, "ranges", len(extra.ranges))
        label = f"{run.folder.label}-{where.replace('/', '-')}-{turn}"
        index.add(label, (part for result in results for part in result.written))
        files.extend(result.hashes for result in results)
        # The ranges of a damaged part are decoded from their own files.
        damaged = {name for result in results for name in result.damaged}
        todo = {item: extra.ranges[item] for item, part in places.items() if part in damaged}
        parts, turn = [], turn + 1
    return files


@partition_function
def read_paths(run: WorkerRun, config: PathConfig, task: PathTask) -> PathResult:
    """Find the entries of ranges with a matching path."""
    index = open_writer(config.index_uri)
    wanted = set(run.folder.read_part(config.wanted, ["range_id"])["range_id"].to_pylist())
    found: list[Hashes] = []
    written: list[NewPart] = []
    damaged: list[str] = []
    fresh = list(_matching(run, config, task.ranges.read(run.folder) if task.ranges else {}))
    if fresh:
        name = f"{run.folder.label}-{config.where.replace('/', '-')}-{task.name}"
        written.append(write_part(index, name, fresh))
        found.extend(item.addresses for item in fresh)
    for part in task.parts:
        try:
            ranges = read_part(index, part, lambda _: False)
        except FormatError:
            damaged.append(part.name)
            continue
        found.extend(item.addresses for item in ranges if item.range_id in wanted)
        run.progress.add(len(ranges))
    hashes = write_hashes(run.folder, f"{config.where}/{task.name}.u64", unite(found))
    return PathResult(hashes=hashes, written=written, damaged=damaged)


def _matching(run: WorkerRun, config: PathConfig, ranges: Ranges) -> Iterator[RangeHashes]:
    pattern = re.compile("|".join(f"(?:{compile_glob(glob).pattern})" for glob in config.paths), re.DOTALL)
    try:
        for key, data in run.open_store().get_many([METADATA + item for item in ranges]):
            facts = ranges[key.removeprefix(METADATA)]
            addresses = addresses_below(data, key, facts, pattern, run.stores.store_uri)
            yield RangeHashes(key.removeprefix(METADATA), facts.count, 0, unite([addresses]), NONE)
            run.progress.add(1)
    except NotFoundError as error:
        raise RefusedError(
            f"a range with paths kept by the retention policy is missing: {error}. Nothing was deleted. Restore the"
            " file, or remove the rule from the policy."
        ) from None


def addresses_below(
    data: bytes, name: str, facts: RangeFacts, pattern: re.Pattern[str], namespace: str
) -> Hashes:
    """Hash every possible key of the entries of a range whose whole path matches."""
    expected = Expected(facts.count, facts.max_key)
    rows = read_addresses(data, name, ("key", "address", "address_type"), expected)
    # In a path that is not UTF-8, each odd byte is matched as one character.
    paths = (path.decode("utf-8", "surrogateescape") for path in rows["key"].to_pylist())
    rows = rows.filter(pa.array([pattern.fullmatch(path) is not None for path in paths], pa.bool_()))
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    others = rows.filter(pc.invert(relative))
    pairs = zip(others["address"].to_pylist(), others["address_type"].to_pylist(), strict=True)
    keys = [key for address, kind in pairs for key in address_readings(address, kind, namespace)]
    hashes = [hash64(rows["address"].filter(relative)), hash64(pa.array(keys, pa.string()))]
    return np.concatenate(hashes)
