"""Figures of each kept set, for the report.

    ranges     ranges of the set's commits beyond the server's answer
    objects    listed objects in these ranges, without staged objects and those of other active ranges
    only …     objects kept by no other set

No deletion depends on these figures. Ranges missing from the index make them too small.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.index.ranges import Ranges
from dredge.gc.index.store import CommittedIndex, IndexPart, read_part
from dredge.gc.retention.kept_sets import Extra, num_tasks_for
from dredge.gc.run import Run
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, partition_function, round_robin
from dredge.sets.hashes import (
    Counted,
    Hashes,
    contains,
    read_counted,
    read_hashes,
    unite,
    write_counted,
    write_hashes,
)
from dredge.sets.live import CountedSet
from dredge.storage import open_writer

log = logging.getLogger("dredge")

_FIGURES = ("objects", "bytes", "only_objects", "only_bytes")


def count_kept(
    run: Run,
    runner: TaskRunner,
    where: str,
    extras: Sequence[Extra],
    listed: Sequence[PartInfo],
    staged: Sequence[PartInfo],
    counted: CountedSet,
    counted_uri: str,
) -> list[dict[str, Any]]:
    """Count the listed objects of each kept set beyond the server's answer; return its name, why, commits, ranges and
    `_FIGURES`. `counted`, with its folder, has the number of active ranges that name each address."""
    extra_counts = _read_extra(run, runner, where, extras)
    totals: Counter[str] = Counter()
    if any(extra.files for extra in extras):
        config = CountConfig(
            sets=[extra.files for extra in extras],
            extra_counts=extra_counts,
            staged=list(staged),
            counted=counted,
            counted_uri=counted_uri,
        )
        tasks = round_robin(listed, run.num_tasks(runner, len(listed)))
        rows = sum(part.rows for part in listed)
        for result in run.spread(runner, where, count_parts, config, tasks, "objects", rows):
            totals.update(result)
    return [
        {
            "name": extra.kept.name,
            "why": extra.kept.why,
            "commits": len(extra.kept.commits),
            "ranges": len(extra.ranges),
            **{name: totals[f"{number}_{name}"] for name in _FIGURES},
        }
        for number, extra in enumerate(extras)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraPart:
    """A part of the index; by the id of each wanted range in it, the numbers of its sets."""

    part: IndexPart
    sets: dict[str, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraResult:
    """The result of a task: a file of hashes by set number, and a file with the number of ranges of each address."""

    sets: dict[int, PartInfo]
    counted: PartInfo


def _read_extra(run: Run, runner: TaskRunner, where: str, extras: Sequence[Extra]) -> list[PartInfo]:
    """Write the hashes of the extra ranges of whole commits, a file for each set; return files with the number of these
    ranges, each once, that name an address."""
    sets: dict[str, list[int]] = defaultdict(list)
    ranges: Ranges = {}
    for number, extra in enumerate(extras):
        for item, facts in extra.ranges.items() if not extra.kept.paths else ():
            sets[item].append(number)
            ranges[item] = facts
    if not ranges:
        return []
    index = CommittedIndex.load(run.state, run.plan.namespace)
    # A range missing here was lost from the index since; then the figures are too small.
    groups, _ = index.group(ranges)
    parts = [
        ExtraPart(part=index.parts[name], sets={item: sets[item] for item in found})
        for name, found in groups.items()
    ]
    tasks = round_robin(parts, max(run.num_tasks(runner, len(parts)), num_tasks_for(ranges)))
    results = run.spread(runner, where, read_extra, where, tasks, "parts", len(parts))
    for result in results:
        for number, file in result.sets.items():
            extras[number].files.append(file)
    return [result.counted for result in results]


@partition_function
def read_extra(run: WorkerRun, where: str, parts: list[ExtraPart]) -> ExtraResult:
    """Read ranges of kept sets from the index; `where` is the folder of the files, in the run folder."""
    state = run.open_state()
    pieces: dict[int, list[Hashes]] = defaultdict(list)
    total = Counted()
    for wanted in parts:
        try:
            ranges = read_part(state, wanted.part, lambda _: False)
        except FormatError as error:
            log.info("the figures of kept sets are too small: %s", error)
            continue
        found = [item for item in ranges if item.range_id in wanted.sets]
        for item in found:
            for number in wanted.sets[item.range_id]:
                pieces[number].append(item.addresses)
        total = Counted.sum([total, Counted.of([item.addresses for item in found])])
        run.progress.add(1)
    name = f"{where}/extra-{run.task}"
    sets = {
        number: write_hashes(run.folder, f"{name}-{number:02d}.u64", unite(found))
        for number, found in pieces.items()
    }
    return ExtraResult(sets=sets, counted=write_counted(run.folder, f"{name}.counts", total))


@dataclass(frozen=True, slots=True, kw_only=True)
class CountConfig:
    """The parameters of all tasks."""

    sets: list[list[PartInfo]]  # files of hashes of each kept set
    extra_counts: list[PartInfo]  # number of ranges of kept sets alone by address; `counted` includes them
    staged: list[PartInfo]
    counted: CountedSet
    counted_uri: str


@partition_function
def count_parts(run: WorkerRun, config: CountConfig, listed: list[PartInfo]) -> dict[str, int]:
    """Count the listed objects kept only by kept sets, by `<number of the set>_<figure>`."""
    tables = run.folder.read_parts(listed, ["hash", "size"])
    rows = pa.concat_tables(tables)
    hashes, sizes = rows["hash"].to_numpy(), rows["size"].to_numpy()
    hits = np.array([_in_files(run.folder, files, hashes) for files in config.sets])
    some = hits.any(axis=0)
    hashes, sizes, hits = hashes[some], sizes[some], hits[:, some]
    hits &= ~_kept_anyway(run, config, hashes)
    alone = hits.sum(axis=0) == 1
    counts: dict[str, int] = {}
    for number, hit in enumerate(hits):
        for name, mask in (("", hit), ("only_", hit & alone)):
            counts[f"{number}_{name}objects"] = int(mask.sum())
            counts[f"{number}_{name}bytes"] = int(sizes[mask].sum())
    run.progress.add(rows.num_rows)
    return counts


def _kept_anyway(run: WorkerRun, config: CountConfig, hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Whether each hash is staged, or in an active range that is not of kept sets alone."""
    folder = RunFolder(open_writer(config.counted_uri), "counted set")
    (counts,) = config.counted.counts(folder, [hashes])
    for part in config.extra_counts:
        counts = counts - read_counted(run.folder, part).of_each(hashes)
    return (counts > 0) | _in_files(run.folder, config.staged, hashes)


def _in_files(folder: RunFolder, files: Iterable[PartInfo], hashes: Hashes) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(hashes), bool)
    for part in files:
        found |= contains(read_hashes(folder, part), hashes)
    return found
