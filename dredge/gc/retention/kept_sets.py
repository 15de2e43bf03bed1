"""What is kept beyond the server's answer, and what each kept set amounts to.

Commits that a tag, our own walk or a rule of the policy keeps are active like all others; rules about paths
keep less (`kept_paths`). For the report, every set is told by what it alone, or with others, keeps:

    extra    ranges of the set's commits that no commit of the server's answer names
    kept     listed objects that these name, and that nothing staged and no other active range does
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.index.ranges import Metaranges, Ranges, read_metaranges
from dredge.gc.index.store import CommittedIndex, IndexPart, read_part
from dredge.gc.list_committed.active import ActiveCommits, KeptSet
from dredge.gc.retention.policy.globs import may_match
from dredge.gc.run import Run
from dredge.gc.sets.files import read_counted, read_hashes, write_counted, write_hashes
from dredge.gc.sets.hashes import Hashes, contains, unite
from dredge.gc.sets.refcounts import Counted
from dredge.gc.sets.sharded import CountedSet
from dredge.runs.folder import RunFolder
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json, TaskRunner, round_robin
from dredge.storage import open_reader, open_writer

log = logging.getLogger("dredge")

PATHS = "paths"
_TASK_VALUES = 20_000_000


@dataclass(slots=True)
class Extra:
    """What a kept set has that the server's answer does not.

    Attributes:
        found: the set.
        commits: how many.
        ranges: of them; of a set about paths only those that may have a matching one.
        files: hashes of the addresses in them that the set keeps.
    """

    found: KeptSet
    commits: int
    ranges: Ranges
    files: list[PartInfo] = field(default_factory=list)


def find_extra(
    run: Run,
    runner: TaskRunner,
    where: str,
    active: ActiveCommits,
    named: Metaranges,
    base_ranges: Collection[str] | None = None,
    only: Collection[tuple[str, str]] | None = None,
) -> list[Extra]:
    """Find the ranges that kept sets have and the server's answer has not.

    Args:
        run: of the run.
        runner: spreads the reading of metaranges.
        where: step folder.
        active: what is active.
        named: the metaranges of all active commits, as far as whole commits are asked for.
        base_ranges: ranges that need no keeping; None takes those of the server's answer.
        only: look at these commits of these sets about paths, and at nothing else; None looks at all sets.

    Raises:
        RefusedError: a metarange that a rule about paths needs is missing.
    """
    if active.all_commits:
        return []
    if base_ranges is None:
        base_ranges = named.select(active.metaranges[commit] for commit in active.base)
    extras = []
    for found in active.kept:
        commits = found.commits - active.base
        if only is not None:
            asked = {commit for name, commit in only if name == found.name}
            commits = commits & asked if found.paths else frozenset()
        wanted = {_metarange(active, commit) for commit in commits} - {""}
        unread = wanted - named.named.keys()
        ranges = named.select(wanted - unread)
        if unread:
            ranges |= read_metaranges(run, runner, f"{where}/{PATHS}", unread).select(unread)
        extra = {item: facts for item, facts in ranges.items() if item not in base_ranges}
        if found.paths:
            extra = {
                item: facts
                for item, facts in extra.items()
                if may_match(found.paths, facts.min_key, facts.max_key)
            }
        extras.append(Extra(found, len(commits), extra))
    return extras


def _metarange(active: ActiveCommits, commit_id: str) -> str:
    return active.metaranges.get(commit_id) or active.graph[commit_id].metarange_id


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
    """Count what each kept set keeps of what was listed.

    Args:
        run: of the run.
        runner: spreads the work.
        where: step folder.
        extras: what the sets have beyond the server's answer; those about paths with their files.
        listed: parts of the listing: objects that would be candidates if nothing kept them.
        staged: hashes of what is staged.
        counted: how many active ranges name each address.
        counted_uri: folder of its files.

    Returns:
        For each set its name, why, commits, ranges; objects and bytes that it keeps and the server's answer does not;
        and those of them (`only_…`) that no other set keeps.
    """
    minus = _read_extra(run, runner, where, extras)
    totals: Counter[str] = Counter()
    if any(extra.files for extra in extras):
        config = {
            "sets": [[part.to_json() for part in extra.files] for extra in extras],
            "minus": [part.to_json() for part in minus],
            "staged": [part.to_json() for part in staged],
            "counted": counted.to_json(),
            "counted_uri": counted_uri,
        }
        hands = round_robin([part.to_json() for part in listed], run.num_tasks(runner, len(listed)))
        tasks = [{"name": f"kept-{number:05d}", "parts": hand} for number, hand in enumerate(hands)]
        rows = sum(part.rows for part in listed)
        for result in run.spread_json(runner, where, count_parts, config, tasks, "objects", rows):
            totals.update(result["counts"])
    figures = ("objects", "bytes", "only_objects", "only_bytes")
    return [
        {
            "name": extra.found.name,
            "why": extra.found.why,
            "commits": extra.commits,
            "ranges": len(extra.ranges),
            **{name: totals[f"{number}_{name}"] for name in figures},
        }
        for number, extra in enumerate(extras)
    ]


def num_tasks_for(ranges: Ranges) -> int:
    """How many tasks some ranges need, so that each stays within its memory."""
    return math.ceil(sum(facts.count for facts in ranges.values()) / _TASK_VALUES)


def _read_extra(run: Run, runner: TaskRunner, where: str, extras: Sequence[Extra]) -> list[PartInfo]:
    """Hash what the extra ranges of whole commits name; gives how often each address is named by all of them
    together."""
    sets: dict[str, list[int]] = defaultdict(list)
    ranges: Ranges = {}
    for number, extra in enumerate(extras):
        for item, facts in extra.ranges.items() if not extra.found.paths else ():
            sets[item].append(number)
            ranges[item] = facts
    if not ranges:
        return []
    index = CommittedIndex.load(run.state, run.plan.namespace)
    # What the index lacks it has lost since; then the figures are too small.
    groups, _ = index.group(ranges)
    work = [
        {"part": index.parts[name].to_json(), "sets": {item: sets[item] for item in found}}
        for name, found in groups.items()
    ]
    hands = round_robin(work, max(run.num_tasks(runner, len(work)), num_tasks_for(ranges)))
    tasks = [{"name": f"extra-{number:05d}", "jobs": hand} for number, hand in enumerate(hands)]
    results = run.spread_json(runner, where, read_extra, {"where": where}, tasks, "parts", len(work))
    for result in results:
        for number, part in result["sets"].items():
            extras[int(number)].files.append(PartInfo.from_json(part))
    return [PartInfo.from_json(result["counted"]) for result in results]


def read_extra(config: Json, task: Json) -> Json:
    """Take ranges of kept sets from the index. A partition function.

    Args:
        config: doors, `where`, `progress`.
        task: `name`, `jobs`: a part of the index, and `sets` by range in it.

    Returns:
        `sets`: a file of hashes for each, and `counted`: how often each address is named by all.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"])
    state = open_reader(config["state_uri"])
    pieces: dict[int, list[Hashes]] = defaultdict(list)
    total = Counted()
    for job in task["jobs"]:
        try:
            ranges = read_part(state, IndexPart.from_json(job["part"]), lambda _: False)
        except FormatError as error:
            log.info("what kept sets keep is told too small: %s", error)
            continue
        found = [item for item in ranges if item.range_id in job["sets"]]
        for item in found:
            for number in job["sets"][item.range_id]:
                pieces[number].append(item.addresses)
        total = Counted.sum([total, Counted.of([item.addresses for item in found])])
        progress.add(1)
    prefix = f"{config['where']}/{task['name']}"
    files = {
        str(number): write_hashes(folder, f"{prefix}-{number:02d}.u64", unite(found)).to_json()
        for number, found in pieces.items()
    }
    return {"sets": files, "counted": write_counted(folder, f"{prefix}.counts", total).to_json()}


def count_parts(config: Json, task: Json) -> Json:
    """Count the listed objects that nothing but kept sets keeps. A partition function.

    Args:
        config: doors, `sets` (files of each), `minus`, `staged`, `counted`, `counted_uri`, `progress`.
        task: `name`, `parts` of the listing.

    Returns:
        `counts`: figures by set number and name.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"])
    rows = pa.concat_tables(
        [folder.read_part(PartInfo.from_json(part), ["hash", "size"]) for part in task["parts"]]
    )
    hashes, sizes = rows["hash"].to_numpy(), rows["size"].to_numpy()
    hits = np.array([_in_files(folder, files, hashes) for files in config["sets"]])
    some = hits.any(axis=0)
    hashes, sizes, hits = hashes[some], sizes[some], hits[:, some]
    state = RunFolder(open_writer(config["counted_uri"]), "counted set")
    (counts,) = CountedSet.from_json(config["counted"]).counts(state, [hashes])
    for part in config["minus"]:
        counts = counts - read_counted(folder, PartInfo.from_json(part)).of_each(hashes)
    hits &= ~((counts > 0) | _in_files(folder, config["staged"], hashes))
    alone = hits.sum(axis=0) == 1
    figures: Counter[str] = Counter()
    for number, hit in enumerate(hits):
        for name, mask in (("", hit), ("only_", hit & alone)):
            figures[f"{number}_{name}objects"] = int(mask.sum())
            figures[f"{number}_{name}bytes"] = int(sizes[mask].sum())
    progress.add(rows.num_rows)
    return {"counts": dict(figures)}


def _in_files(folder: RunFolder, files: Sequence[Mapping[str, Any]], hashes: Hashes) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(hashes), bool)
    for part in files:
        found |= contains(read_hashes(folder, PartInfo.from_json(part)), hashes)
    return found
