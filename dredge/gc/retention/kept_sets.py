"""Commits kept beyond the server's answer, with their ranges.

Commits kept by a tag, by our own walk or by a rule of the policy are active like all others. Of the commits of a rule
about paths, only the entries with a matching path are kept (`list_committed.collect.collect_paths`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from dredge.gc.index.ranges import Metaranges, Ranges, read_metaranges
from dredge.gc.retention.policy import may_match
from dredge.gc.run import Run
from dredge.runs.tasks import TaskRunner

# Folder for rules about paths: in the folder of a step, and beside the committed index.
PATHS = "paths"


@dataclass(frozen=True, slots=True)
class KeptSet:
    """Commits kept beyond the server's answer."""

    name: str  # unique, for the report
    why: str  # half a sentence for the report
    commits: frozenset[str]  # ids; the server or other sets may keep them as well
    # only entries with a path that matches one of these patterns; () for every entry
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extra:
    """The ranges of a kept set beyond the server's answer."""

    kept: KeptSet  # the set, without the commits of the server's answer
    ranges: Ranges  # of a set about paths only those with possible matches

    def to_details(self) -> dict[str, Any]:
        """Return `name`, `why`, and the numbers of `commits` and `ranges`, for the report."""
        kept = self.kept
        return {
            "name": kept.name,
            "why": kept.why,
            "commits": len(kept.commits),
            "ranges": len(self.ranges),
        }


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
