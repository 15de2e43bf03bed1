"""The pending list of the cleaner: a finding waits until another look, a grace later, finds it unchanged.

    pending/current.json    in the state folder; see `dredge.runs.pending`

A partition is one row, with a digest of all its keys and values: a slow reset fills a token before it references it,
and its early keys would have waited already. Single keys are rows in partitions that are in use as a whole.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
from msgspec.structs import replace

from dredge.errors import ConflictError, LeaseHeldError
from dredge.kv.rows import RowReader, show
from dredge.runs.pending.rows import YOUNG, Turn
from dredge.runs.pending.store import Expected, SmallList, found_rows
from dredge.trash.findings import TrashFinding, TrashMargins
from dredge.trash.state import TrashState


def address_of(partition: bytes, key: bytes | None) -> str:
    """Address of a partition or key in the list."""
    return show(partition) if key is None else f"{show(partition)}\n{show(key)}"


def read_waiting(state: TrashState, store: RowReader) -> SmallList:
    """Read the list of a store; after a change of the database's own id, all waits begin again."""
    expected = Expected(subject=store.location, life=store.own_id() or "")
    return SmallList.read(state.writer, expected, state.now())


def no_list() -> SmallList:
    """The list of a look without a state folder."""
    return SmallList(Expected(subject="", life=""))


def advance_waiting(
    waiting: SmallList,
    findings: Iterable[TrashFinding],
    run_id: str,
    marked_at: datetime,
    now: datetime,
    margins: TrashMargins,
) -> tuple[TrashFinding, ...]:
    """Advance the list by the findings of a look, and return them; trash in its wait gets the verdict `wait`.
    `margins`: of the wait; with a grace of 0 nothing waits."""
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
    judged = list(findings)
    for row in waiting.rows.select(["address", "since"]).to_pylist():
        place, since = places[row["address"]], row["since"]
        judged[place] = replace(findings[place], first_seen=since)
        if findings[place].verdict == "trash" and row["address"] not in confirmed:
            until = since + margins.grace
            why = f"{findings[place].why}; waits until {until:%Y-%m-%d %H:%M:%S} UTC"
            judged[place] = replace(judged[place], verdict="wait", why=why, waits_until=until)
    return tuple(judged)


def write_waiting(state: TrashState, waiting: SmallList, run_id: str, marked_at: datetime) -> None:
    """Write the list for the next run."""
    state.check_right()
    try:
        waiting.write(state.writer, f"{run_id}-{state.attempt}", run_id, marked_at, state.now())
    except ConflictError:
        raise LeaseHeldError(
            f"{state.writer.uri}: another run wrote its pending list during this run (number {state.attempt}). That"
            " list is kept, and nothing more was removed. Run again after that run."
        ) from None


def forget(
    state: TrashState, store: RowReader, names: Iterable[tuple[bytes, bytes | None]], run_id: str
) -> None:
    """Remove rows from the list before a restore; their wait begins again."""
    waiting = read_waiting(state, store)
    waiting.forget(address_of(*name) for name in names)
    write_waiting(state, waiting, run_id, state.now())


def _found(findings: Sequence[TrashFinding]) -> pa.Table:
    return found_rows(
        [address_of(f.partition, f.key) for f in findings],
        size=[f.size_bytes for f in findings],
        etag=[f.digest for f in findings],
        code=[None if f.verdict == "trash" else f.code or YOUNG for f in findings],
        reason=[f.kind for f in findings],
    )
