"""Expired ranges: what commits of the history name that are not active any more. They say why an object is
garbage, and nothing else.

Whatever runs came before, the same ranges are looked into: those of expired commits that branches and tags lead
to, the newest first, as many as the limits allow. What only dangling commits named counts as garbage whose
history is gone: whether anybody still knows of them depends on earlier runs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dredge.errors import DredgeError
from dredge.gc.context import Context
from dredge.gc.ranges import Metaranges, Ranges, read_metaranges
from dredge.lakefs import Commit
from dredge.runs.tasks import LocalRunner

log = logging.getLogger("dredge")

_COMMITS_MAX = 64
_WHERE = "committed/expired"


@dataclass(frozen=True, slots=True)
class Expired:
    """What expired commits name.

    Attributes:
        ranges: of the newest of them, as many as may be read.
        known: ids of these and of all others whose metarange an earlier run left.
        complete: whether `ranges` is all.
    """

    ranges: Ranges
    known: Collection[str]
    complete: bool


def find_expired(
    context: Context, commits: Sequence[Commit], named: Metaranges, active: Collection[str]
) -> Expired:
    """Find the ranges that only expired commits name.

    They are for the report alone, so a file that cannot be read is left out.

    Args:
        context: of the run.
        commits: the expired ones that refs lead to, newest first.
        named: metaranges that are known already: of active commits, and of those that an earlier run found
            active.
        active: ids of the active ranges.
    """
    most = context.plan.config.tuning.explain_ranges_max
    metaranges = list(dict.fromkeys(commit.metarange_id for commit in commits if commit.metarange_id))
    known = named.select(item for item in metaranges if item in named.named).keys() - active
    found: Ranges = {}
    looked_into = metaranges[: _COMMITS_MAX if most else 0]
    for ranges in _ranges_of(context, looked_into, named):
        found.update((item, facts) for item, facts in ranges.items() if item not in active)
        if len(found) > most:
            break
    complete = len(looked_into) == len(metaranges) and len(found) <= most
    return Expired(dict(list(found.items())[:most]), known | found.keys(), complete)


def _ranges_of(context: Context, metaranges: Sequence[str], named: Metaranges) -> list[Ranges]:
    """The ranges of each metarange that is known or can be read."""
    unread = [item for item in metaranges if item not in named.named]
    try:
        read = read_metaranges(context, LocalRunner(), _WHERE, unread)
    except DredgeError:
        read = Metaranges()
        for item in unread:
            try:
                read.add(read_metaranges(context, LocalRunner(), _WHERE, [item]))
            except DredgeError as error:
                log.info("metarange %s of an expired commit cannot be read: %s", item, error)
    both = [named if item in named.named else read for item in metaranges]
    return [known.select([item]) for item, known in zip(metaranges, both, strict=True) if item in known.named]
