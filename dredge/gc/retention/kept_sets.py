"""What is kept beyond the server's answer, as sets of commits.

Commits that a tag, our own walk or a rule of the policy keeps are active like all others. Of the commits that a rule
about paths names, only the entries with a matching path are kept (`path_rules`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from dredge.gc.index.metaranges import Metaranges, read_metaranges
from dredge.gc.index.ranges import Ranges
from dredge.gc.retention.policy.globs import may_match
from dredge.gc.run import Run
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner

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
