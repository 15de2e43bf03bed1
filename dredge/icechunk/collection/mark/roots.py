"""Which snapshots count as live. More than refs reach is always allowed, less never.

spec 1   what refs reach
spec 2   every snapshot of the repo info, reachable or not: the library's expiration drops the old ones, and after
         that nothing can use them again
         + what refs of spec 1 reach that an upgrade left
both     + files younger than the cutoff, which a ref may name next
         + files that nothing names and that no expiration released: commits that no mark saw (`witness`)
         + tips of refs that were lost (`witness`)
         + the ancestors of all of these
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from dredge.icechunk.collection.age import is_old
from dredge.icechunk.history import History


@dataclass(frozen=True, slots=True)
class Roots:
    """The snapshots to mark from.

    Attributes:
        tips: snapshots that are live, with all their ancestors.
        young: of those, unreachable ones that are younger than the cutoff: released by an expiration, or of a commit in
            the making.
        youngest: time of the youngest of these files; None without one.
        unnamed: of those, unreachable ones that nothing names and that were never released.
    """

    tips: frozenset[str]
    young: frozenset[str]
    unnamed: frozenset[str]
    youngest: datetime | None = None


def choose_roots(
    history: History,
    files: Iterable[tuple[str, datetime]],
    cutoff: datetime,
    *,
    lost: Collection[str] = (),
    unnamed: Collection[str] = (),
) -> Roots:
    """Choose the live snapshots.

    Args:
        history: refs and parents, as of now.
        files: id and time of every file in `snapshots/`.
        cutoff: only files strictly older may be deleted.
        lost: tips that are kept although nothing reaches them.
        unnamed: snapshot files that are kept although nothing names them.
    """
    named = set(history.snapshots) if history.spec_version == 2 else history.reachable()
    unreachable = {snapshot: time for snapshot, time in files if snapshot not in named}
    young = {snapshot for snapshot, time in unreachable.items() if not is_old(time, cutoff)}
    kept = unreachable.keys() & {*unnamed}
    return Roots(
        tips=frozenset(named | young | kept | {*lost}),
        young=frozenset(young),
        unnamed=frozenset(kept - young),
        youngest=max((unreachable[snapshot] for snapshot in young), default=None),
    )
