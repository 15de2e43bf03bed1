"""Compares a long listing with a large live set shard by shard, so that no task reads more of the live set than its
share.

    cut        each task cuts the hashes of some parts of the listing into shards, by their first bits
    compare    each task takes some shards: what was listed there, and what lives there; it writes what is not live
    classify   (`step`) the rows with such hashes are taken from the listing

Where every task may as well read the whole live set, that is one round instead of three (`is_worth_it`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dredge.errors import FormatError
from dredge.gc.run import Run
from dredge.gc.subtract.output import SubtractOutput
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import read_hashes, split, unite, write_hashes
from dredge.sets.live import LiveSet, ShardedSet

_FOLDER = f"{SubtractOutput.STEP}/shards"


def is_worth_it(live: LiveSet, listed_rows: int, num_tasks: int, values_min: int) -> bool:
    """Whether comparing shard by shard reads and writes so much less that two more rounds pay.

    Args:
        live: what every task would have to read.
        listed_rows: rows of the listing; their hashes are read, written and read again.
        num_tasks: tasks that share the listing.
        values_min: hashes that two rounds of tasks cost.
    """
    return live.bits > 0 and (num_tasks - 1) * live.values > 3 * listed_rows + values_min


def find_dead(run: Run, runner: TaskRunner, live: LiveSet, listed: Sequence[PartInfo]) -> ShardedSet:
    """Find the hashes of the listing that are not live.

    Args:
        run: this run.
        runner: spreads the tasks.
        live: hashes of every address that is live.
        listed: parts of the listing.

    Raises:
        FormatError: not everything that was listed was compared.
    """
    shards: dict[int, list[PartInfo]] = defaultdict(list)
    for cut in _cut(run, runner, live.bits, listed):
        for shard, part in cut.shards.items():
            shards[shard].append(part)
    todo = [ShardTodo(shard=shard, listed=parts) for shard, parts in sorted(shards.items())]
    tasks = [CompareTask(shards=share) for share in round_robin(todo, run.num_tasks(runner, len(todo)))]
    total = sum(part.rows for parts in shards.values() for part in parts)
    config = CompareConfig(live=live)
    results = run.spread(runner, SubtractOutput.STEP, compare_shards, config, tasks, "hashes", total)
    compared = sum(result.values for result in results)
    if compared != total:
        raise FormatError(f"{compared} hashes were compared, {total} were listed. Nothing was deleted.")
    return ShardedSet.of([part for result in results for part in result.dead], live.bits)


def _cut(run: Run, runner: TaskRunner, bits: int, listed: Sequence[PartInfo]) -> list[CutResult]:
    shares = round_robin(listed, run.num_tasks(runner, len(listed)))
    tasks = [CutTask(name=f"{index:05d}", listed=share) for index, share in enumerate(shares)]
    rows = sum(part.rows for part in listed)
    found = run.spread(runner, SubtractOutput.STEP, cut_parts, CutConfig(bits=bits), tasks, "objects", rows)
    cut = sum(result.rows for result in found)
    if cut != rows:
        raise FormatError(f"{cut} rows were compared, {rows} were listed. Nothing was deleted.")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CutConfig:
    """What all tasks need; a payload.

    Attributes:
        bits: there are 2**bits shards.
    """

    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTask:
    """Some parts of the listing; a payload.

    Attributes:
        name: of the files that the task writes.
        listed: rows of objects.
    """

    name: str
    listed: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResult:
    """What a task wrote; a payload.

    Attributes:
        rows: that it read.
        shards: sorted distinct hashes of these, a file for each shard that has any.
    """

    rows: int
    shards: dict[int, PartInfo]


@partition_function
def cut_parts(run: WorkerRun, config: CutConfig, task: CutTask) -> CutResult:
    """Cut the hashes of some parts of the listing into shards."""
    hashes = [run.folder.read_part(part, ["hash"])["hash"].to_numpy() for part in task.listed]
    shards = {
        shard: write_hashes(run.folder, f"{_FOLDER}/listed-{task.name}-{shard:04d}.u64", values)
        for shard, values in enumerate(split(unite(hashes), config.bits))
        if len(values)
    }
    return CutResult(rows=sum(map(len, hashes)), shards=shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareConfig:
    """What all tasks need; a payload.

    Attributes:
        live: hashes of every address that is live.
    """

    live: LiveSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTodo:
    """A shard of what was listed; a payload.

    Attributes:
        shard: its number.
        listed: files of hashes.
    """

    shard: int
    listed: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTask:
    """Some shards; a payload.

    Attributes:
        shards: of what was listed.
    """

    shards: list[ShardTodo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult:
    """What a task found; a payload.

    Attributes:
        values: hashes that it read.
        dead: those of them that are not live, a file for each shard.
    """

    values: int
    dead: list[PartInfo]


@partition_function
def compare_shards(run: WorkerRun, config: CompareConfig, task: CompareTask) -> CompareResult:
    """Write the hashes of some shards that are not live."""
    values = 0
    dead: list[PartInfo] = []
    for todo in task.shards:
        listed = [read_hashes(run.folder, part) for part in todo.listed]
        wanted = unite(listed)
        (live,) = config.live.find([wanted], its_shards_only=True)
        dead.append(write_hashes(run.folder, f"{_FOLDER}/dead-{todo.shard:04d}.u64", wanted[~live]))
        values += sum(map(len, listed))
        run.progress.add(sum(map(len, listed)))
    return CompareResult(values=values, dead=dead)
