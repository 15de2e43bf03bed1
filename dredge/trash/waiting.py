"""The pending list of the cleaner: what a look found waits until another look, a grace later, finds it as it was.

    pending/current.json    in the state folder; see `dredge.runs.pending`

A partition is one row, with a digest of all its keys and values: a slow reset fills a token that nothing names yet,
while its early keys would have waited already. Single keys are rows where the partition as a whole is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa

from dredge.errors import ConflictError, LeaseHeldError
from dredge.kv.rows import RowReader, show
from dredge.runs.pending.rows import YOUNG, Turn
from dredge.runs.pending.store import Expected, SmallList, found_rows
from dredge.trash.finding import TrashFinding
from dredge.trash.margins import TrashMargins
from dredge.trash.state import TrashState


def address_of(partition: bytes, key: bytes | None) -> str:
    """Name a partition or a key in the list."""
    return show(partition) if key is None else f"{show(partition)}\n{show(key)}"


def read_waiting(state: TrashState, store: RowReader) -> SmallList:
    """Read the list of a store.

    Args:
        state: the folder.
        store: what is looked at; with another id of its database everything waits anew.

    Raises:
        RefusedError: a newer version of Dredge wrote the list.
        UnavailableError: the folder does not answer.
    """
    expected = Expected(subject=store.location, life=store.own_id() or "")
    return SmallList.read(state.writer, expected, state.now())


def no_list() -> SmallList:
    """The list of a look that stands alone."""
    return SmallList(Expected(subject="", life=""))


def advance_waiting(
    waiting: SmallList,
    findings: Iterable[TrashFinding],
    run_id: str,
    marked_at: datetime,
    now: datetime,
    margins: TrashMargins,
) -> tuple[TrashFinding, ...]:
    """Advance the list by what a look found.

    Args:
        waiting: the list.
        findings: of the look; those with a digest become rows.
        run_id: the run.
        marked_at: when the look began, by the store's clock.
        now: when it had read everything.
        margins: how long what is unused waits (a grace of 0: not at all), and the ages by which it was found.

    Returns:
        The findings; what has not waited is no trash yet.
    """
    turn = Turn(
        run_id=run_id,
        marked_at=marked_at,
        now=now,
        cutoff=now,
        min_age=margins.ages,
        grace=margins.grace,
        waits=margins.grace > timedelta(0),
        lists_all=True,
        state_of=None,
    )
    findings = tuple(findings)
    places = {address_of(f.partition, f.key): place for place, f in enumerate(findings) if f.digest}
    confirmed = waiting.advance(_found([findings[place] for _, place in sorted(places.items())]), turn)
    told = list(findings)
    for row in waiting.rows.select(["address", "since"]).to_pylist():
        place, since = places[row["address"]], row["since"]
        told[place] = replace(findings[place], first_seen=since)
        if findings[place].verdict == "trash" and row["address"] not in confirmed:
            until = since + margins.grace
            why = f"{findings[place].why}; waits until {until:%Y-%m-%d %H:%M:%S} UTC"
            told[place] = replace(told[place], verdict="wait", why=why, waits_until=until)
    return tuple(told)


def leave_waiting(state: TrashState, waiting: SmallList, run_id: str, marked_at: datetime) -> None:
    """Leave the list for the next run.

    Args:
        state: the folder.
        waiting: the list.
        run_id: the run.
        marked_at: when it began to look.

    Raises:
        LeaseHeldError: this try was overtaken; what a later one left stays.
    """
    state.check_right()
    try:
        waiting.leave(state.writer, f"{run_id}-{state.attempt}", run_id, marked_at, state.now())
    except ConflictError:
        raise LeaseHeldError(
            f"{state.writer.uri}: another run left its pending list while this one (number {state.attempt}) was at"
            " work. That list was left alone, and nothing more was removed. Run again when that run has ended."
        ) from None


def forget(
    state: TrashState, store: RowReader, names: Iterable[tuple[bytes, bytes | None]], run_id: str
) -> None:
    """Take rows off the list, so that they wait anew: they are about to be put back.

    Args:
        state: the folder.
        store: whose list it is.
        names: partitions, and keys or None for the whole of each.
        run_id: who puts them back.

    Raises:
        LeaseHeldError: this try was overtaken.
    """
    waiting = read_waiting(state, store)
    waiting.forget(address_of(*name) for name in names)
    leave_waiting(state, waiting, run_id, state.now())


def _found(findings: Sequence[TrashFinding]) -> pa.Table:
    return found_rows(
        [address_of(f.partition, f.key) for f in findings],
        size=[f.size_bytes for f in findings],
        etag=[f.digest for f in findings],
        code=[None if f.verdict == "trash" else f.code or YOUNG for f in findings],
        reason=[f.kind for f in findings],
    )
