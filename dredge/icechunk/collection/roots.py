"""Which snapshots count as live. More than refs reach is always allowed, less never.

spec 1   what refs reach; files younger than the cutoff, which a ref may name next; and, for the grace
period,
         what was released lately, because refs can be put on released snapshots. Ancestors of all of
         these.
spec 2   every snapshot of the repo info, reachable or not (the library's expiration drops the old ones,
after
         which nothing can use them again), and files younger than the cutoff that it does not list yet
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dredge.icechunk.history import History

WHOLE_SECOND = timedelta(seconds=1)


def is_old(last_modified: datetime, cutoff: datetime) -> bool:
    """Tell whether an object was written strictly before the cutoff, by the store's clock.

    A store that rounds down to whole seconds may have written it up to a second later.
    """
    return (last_modified if last_modified.microsecond else last_modified + WHOLE_SECOND) < cutoff


@dataclass(frozen=True, slots=True)
class Roots:
    """The snapshots to mark from.

    Args:
        tips: snapshots that are live, with all their ancestors.
        held: of those, released ones that wait for the grace period.
        young: of those, unreachable ones that are younger than the cutoff.
        dead_since: when each unreachable snapshot was first seen so, for the next run (spec 1).
    """

    tips: frozenset[str]
    held: frozenset[str]
    young: frozenset[str]
    dead_since: Mapping[str, datetime]


def choose_roots(
    history: History,
    files: Iterable[tuple[str, datetime]],
    cutoff: datetime,
    *,
    now: datetime,
    dead_before: Mapping[str, datetime],
    grace: timedelta,
) -> Roots:
    """Choose the live snapshots.

    Args:
        history: refs and parents, as of now.
        files: id and time of every file in `snapshots/`.
        cutoff: only files strictly older may be deleted.
        now: the store's time.
        dead_before: what an earlier run saw unreachable, and since when (spec 1).
        grace: how long a snapshot must have been seen unreachable (spec 1); zero asks for nothing.
    """
    known = set(history.snapshots) if history.spec_version == 2 else history.reachable()
    unreachable = {snapshot: time for snapshot, time in files if snapshot not in known}
    young = {snapshot for snapshot, time in unreachable.items() if not is_old(time, cutoff)}
    held: set[str] = set()
    dead_since: dict[str, datetime] = {}
    if history.spec_version == 1:
        dead_since = {snapshot: min(dead_before.get(snapshot, now), now) for snapshot in unreachable}
        if grace:
            held = {
                node for node, since in dead_since.items() if node not in dead_before or now - since < grace
            }
    return Roots(frozenset(known | young | held), frozenset(held - young), frozenset(young), dead_since)
