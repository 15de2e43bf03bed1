"""Which snapshots count as live. More than refs reach is always allowed, less never.

spec 1   what refs reach
         + files younger than the cutoff, which a ref may name next
         + for the grace period, what was released lately, because refs can be put on released snapshots
         + the ancestors of all of these
spec 2   every snapshot of the repo info, reachable or not: the library's expiration drops the old ones, and after
         that nothing can use them again
         + files younger than the cutoff that the repo info does not list yet
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dredge.icechunk.collection.age import is_old
from dredge.icechunk.history import History


@dataclass(frozen=True, slots=True)
class Roots:
    """The snapshots to mark from.

    Attributes:
        tips: snapshots that are live, with all their ancestors.
        held: of those, released ones that wait for the grace period.
        young: of those, unreachable ones that are younger than the cutoff.
        unreachable_since: when each unreachable snapshot was first seen so, for the next run (spec 1).
    """

    tips: frozenset[str]
    held: frozenset[str]
    young: frozenset[str]
    unreachable_since: Mapping[str, datetime]


def choose_roots(
    history: History,
    files: Iterable[tuple[str, datetime]],
    cutoff: datetime,
    *,
    now: datetime,
    seen_before: Mapping[str, datetime],
    grace: timedelta,
) -> Roots:
    """Choose the live snapshots.

    Args:
        history: refs and parents, as of now.
        files: id and time of every file in `snapshots/`.
        cutoff: only files strictly older may be deleted.
        now: the store's time.
        seen_before: what an earlier run saw unreachable, and since when (spec 1).
        grace: how long a snapshot must have been seen unreachable (spec 1); zero asks for nothing.
    """
    named = set(history.snapshots) if history.spec_version == 2 else history.reachable()
    unreachable = {snapshot: time for snapshot, time in files if snapshot not in named}
    young = {snapshot for snapshot, time in unreachable.items() if not is_old(time, cutoff)}
    held: set[str] = set()
    since: dict[str, datetime] = {}
    if history.spec_version == 1:
        since = {snapshot: min(seen_before.get(snapshot, now), now) for snapshot in unreachable}
        if grace:
            held = {node for node, time in since.items() if node not in seen_before or now - time < grace}
    return Roots(frozenset(named | young | held), frozenset(held - young), frozenset(young), since)
