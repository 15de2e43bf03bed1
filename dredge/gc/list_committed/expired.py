"""Expired ranges: what those commits of the history name that are not active any more. They say why an object is
garbage, and serve nothing else.

The same ranges are read whatever runs came before: those of expired commits that branches and tags lead to, the newest
first, as many as the limits allow. What only dangling commits named counts as garbage whose history is gone, because
only earlier runs, if any, could still tell of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dredge.errors import DredgeError
from dredge.gc.index.metaranges import Metaranges, read_metaranges
from dredge.gc.index.ranges import RangeFacts, Ranges
from dredge.gc.list_committed.output import ListCommittedOutput
from dredge.gc.run import Run
from dredge.lakefs import Commit
from dredge.runs.tasks import LocalRunner

log = logging.getLogger("dredge")

_COMMITS_MAX = 64
_WHERE = f"{ListCommittedOutput.STEP}/expired"


@dataclass(frozen=True, slots=True)
class Expired:
    """What expired commits name.

    Attributes:
        ranges: of the newest of them, as many as may be read.
        named: ids of these, and of all others whose metarange was read already.
        complete: whether `ranges` is all.
    """

    ranges: Ranges
    named: Collection[str]
    complete: bool


def find_expired(run: Run, commits: Sequence[Commit], named: Metaranges, active: Collection[str]) -> Expired:
    """Find the ranges that only expired commits name.

    They are for the report alone, so a file that cannot be read is left out.

    Args:
        run: the run.
        commits: the expired ones that refs lead to, newest first.
        named: metaranges that were read already: of active commits, and of those that an earlier run found active.
        active: ids of the active ranges.
    """
    most = run.plan.config.tuning.explain_ranges_max
    metaranges = list(dict.fromkeys(commit.metarange_id for commit in commits if commit.metarange_id))
    find = _finder(named, active)
    ids = {item for metarange in metaranges if metarange in named.named for item, _ in find(metarange)}
    looked_into = metaranges[: _COMMITS_MAX if most else 0]
    read = _read(run, [item for item in looked_into if item not in named.named])
    finders = [(named.named, _finder(named, active)), (read.named, _finder(read, active))]
    found: Ranges = {}
    for metarange in looked_into:
        for names, find in finders:
            found.update(find(metarange) if metarange in names else ())
        if len(found) > most:
            break
    complete = len(looked_into) == len(metaranges) and len(found) <= most
    return Expired(dict(list(found.items())[:most]), ids | found.keys(), complete)


def _finder(read: Metaranges, active: Collection[str]) -> Callable[[str], list[tuple[str, RangeFacts]]]:
    """A function that gives the ranges of a metarange that are not active and that it has not given before.

    Successive commits name mostly the same ranges, so the rest is found by row numbers, without a look at each range.
    """
    ids, facts = list(read.ranges), list(read.ranges.values())
    seen = np.fromiter((item in active for item in ids), bool, len(ids))

    def find(metarange: str) -> list[tuple[str, RangeFacts]]:
        rows = read.named[metarange]
        new = rows[~seen[rows]]
        seen[new] = True
        return [(ids[row], facts[row]) for row in new.tolist()]

    return find


def _read(run: Run, metaranges: Sequence[str]) -> Metaranges:
    """Read metaranges, all at once, or one by one when some cannot be read."""
    try:
        return read_metaranges(run, LocalRunner(), _WHERE, metaranges)
    except DredgeError:
        read = Metaranges()
    for item in metaranges:
        try:
            read.add(read_metaranges(run, LocalRunner(), _WHERE, [item]))
        except DredgeError as error:
            log.info("metarange %s of an expired commit cannot be read: %s", item, error)
    return read
