"""What is kept beyond the server's answer, as sets of commits.

Commits that a tag, our own walk or a rule of the policy keeps are active like all others. Of the commits that a rule
about paths names, only the entries with a matching path are kept (`path_rules`).

Rules about paths: of ranges that nothing else keeps, the entries whose path matches.

Those ranges are decoded once for each set of patterns, into an index of its own:

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
    read_metaranges,
    share_ranges,
    table_of,
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

PATHS = "paths"
"""Folder of what is read for rules about paths: in the folder of a step, and beside the committed index."""
_TASK_VALUES = 20_000_000


@dataclass(frozen=True, slots=True)
class KeptSet:
    """Commits that something besides the server keeps.

    Attributes:
        name: for the report; unique.
        why: half a sentence for the report.
        commits: ids; some of them may be kept by others, or by the server, as well.
        paths: only entries whose path matches one of these patterns; () is every entry.
    """

    name: str
    why: str
    commits: frozenset[str]
    paths: tuple[str, ...] = ()


@dataclass(slots=True)
class Extra:
    """What a kept set has that the server's answer does not.

    Attributes:
        kept: the set, without the commits of the server's answer.
        ranges: of its commits, without those of the server's answer; of a set about paths only those that may have
            a matching one.
        files: hashes of the addresses in these ranges that the set keeps.
    """

    kept: KeptSet
    ranges: Ranges
    files: list[PartInfo] = field(default_factory=list)


def find_extra(
    run: Run,
    runner: TaskRunner,
    where: str,
    kept: Iterable[KeptSet],
    metarange_of: Callable[[str], str],
    named: Metaranges,
    without: Collection[str],
) -> list[Extra]:
    """Find the ranges that kept sets have and the server's answer has not.

    Args:
        run: the run.
        runner: spreads the reading of metaranges.
        where: folder of the step, in the run folder.
        kept: the sets, without the commits of the server's answer.
        metarange_of: gives the metarange id of a commit; "" is the content without entries.
        named: metaranges that were read already.
        without: ids of the ranges of the server's answer.

    Raises:
        RefusedError: a metarange that a rule about paths needs is missing.
    """
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
    """How many tasks some ranges need, so that each stays within its memory."""
    return math.ceil(sum(facts.count for facts in ranges.values()) / _TASK_VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathConfig:
    """What all tasks need.

    Attributes:
        where: folder of the files, in the run folder.
        paths: patterns.
        index_uri: URI of the index of these patterns.
        wanted: rows of the ranges that count; parts of the index may have others.
    """

    where: str
    paths: list[str]
    index_uri: str
    wanted: PartInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTask:
    """One task.

    Attributes:
        name: makes the names of its files.
        ranges: to decode.
        parts: of the index of these patterns, to read.
    """

    name: str
    ranges: RangeShare | None
    parts: list[IndexPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathResult:
    """What a task found.

    Attributes:
        hashes: a file; what is in it is live.
        written: new parts of the index.
        damaged: names of parts that cannot be trusted.
    """

    hashes: PartInfo
    written: list[NewPart]
    damaged: list[str]


def collect_paths(run: Run, runner: TaskRunner, where: str, extras: Sequence[Extra]) -> list[PartInfo]:
    """Read what rules about paths keep.

    Args:
        run: the run.
        runner: spreads the decoding.
        where: folder of the step, in the run folder.
        extras: of all sets; those about paths get their files.

    Returns:
        Files of hashes; what is in them is live.

    Raises:
        RefusedError: a range is missing.
        FormatError: a range is damaged.
    """
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
    wanted = run.folder.write_table(where, 0, table_of(extra.ranges), "wanted")
    config = PathConfig(where=where, paths=list(extra.kept.paths), index_uri=uri, wanted=wanted)
    files: list[PartInfo] = []
    todo = {item: facts for item, facts in extra.ranges.items() if item not in places}
    parts = [index.parts[name] for name in sorted(set(places.values()))]
    turn = 0
    while todo or parts:
        tasks = _tasks(run, runner, where, turn, todo, parts)
        results = run.spread(runner, where, read_paths, config, tasks, "ranges", len(extra.ranges))
        label = f"{run.folder.label}-{where.replace('/', '-')}-{turn}"
        index.add(label, (part for result in results for part in result.written))
        files.extend(result.hashes for result in results)
        # What a damaged part should have had is decoded from the ranges themselves.
        damaged = {name for result in results for name in result.damaged}
        todo = {item: extra.ranges[item] for item, part in places.items() if part in damaged}
        parts, turn = [], turn + 1
    return files


def _tasks(
    run: Run, runner: TaskRunner, where: str, turn: int, todo: Ranges, parts: Sequence[IndexPart]
) -> list[PathTask]:
    table = run.folder.write_table(where, turn, table_of(todo), "todo")
    num_tasks = max(run.num_tasks(runner, len(todo) + len(parts)), num_tasks_for(todo))
    shares = zip_longest(share_ranges(table, num_tasks), round_robin(parts, num_tasks))
    return [
        PathTask(name=f"{turn}-{number:05d}", ranges=ranges, parts=share or [])
        for number, (ranges, share) in enumerate(shares)
    ]


@partition_function
def read_paths(run: WorkerRun, config: PathConfig, task: PathTask) -> PathResult:
    """Find the entries of some ranges whose path matches."""
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
            f"a range that the retention policy keeps paths of is missing: {error}. Nothing was deleted. Restore the"
            " file, or take the rule out of the policy."
        ) from None


def addresses_below(
    data: bytes, name: str, facts: RangeFacts, pattern: re.Pattern[str], namespace: str
) -> Hashes:
    """Hash every key that an entry with a matching path may mean.

    Args:
        data: a range file.
        name: what to call it in errors.
        facts: what its metarange says.
        pattern: for whole paths.
        namespace: URI.

    Raises:
        FormatError: damaged, or another range.
    """
    expected = Expected(facts.count, facts.max_key)
    rows = read_addresses(data, name, ("key", "address", "address_type"), expected)
    # In a path that is not UTF-8, each odd byte is matched as one character.
    paths = (path.decode("utf-8", "surrogateescape") for path in rows["key"].to_pylist())
    rows = rows.filter(pa.array([pattern.fullmatch(path) is not None for path in paths], pa.bool_()))
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    others = rows.filter(pc.invert(relative))
    keys = [
        key
        for address, kind in zip(
            others["address"].to_pylist(), others["address_type"].to_pylist(), strict=True
        )
        for key in address_readings(address, kind, namespace)
    ]
    hashes = [hash64(rows["address"].filter(relative)), hash64(pa.array(keys, pa.string()))]
    return np.concatenate(hashes)
