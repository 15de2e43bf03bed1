"""The pending list of the cleaner: what a look found waits until another look, a grace later, finds it as it was.

    pending/current.json    in the state folder; see `dredge.runs.pending`

A partition is one row, with a digest of all its keys and values: a slow reset fills a token that nothing names yet,
while its early keys would have waited already. Single keys are rows where the partition as a whole is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConflictError, FormatError, LeaseHeldError
from dredge.hashing import hash64
from dredge.kv.rows import RowReader, show
from dredge.runs.pending.rows import FOUND, PENDING, YOUNG, Turn, advance
from dredge.runs.pending.store import (
    Expected,
    PendingList,
    Stored,
    folder_of,
    leave_list,
    read_list,
    write_part,
)
from dredge.trash.finding import TrashFinding
from dredge.trash.state import TrashState

_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Rows of the store carry no time; only their bytes count."""


def address_of(partition: bytes, key: bytes | None) -> str:
    """Name a partition or a key in the list."""
    return show(partition) if key is None else f"{show(partition)}\n{show(key)}"


@dataclass(slots=True)
class WaitingList:
    """The list as a run read it.

    Attributes:
        state: the folder; None where a look stands alone.
        expected: what the list must be.
        stored: what is stored.
        rows: that count.
        problem: why the stored ones do not, as half a sentence; "" otherwise.
    """

    state: TrashState | None = None
    expected: Expected = field(default_factory=lambda: Expected(subject="", life=""))
    stored: Stored = field(default_factory=Stored)
    rows: pa.Table = field(default_factory=PENDING.empty_table)
    problem: str = ""
    _is_unchanged: bool = False

    @classmethod
    def read(cls, state: TrashState, store: RowReader) -> WaitingList:
        """Read the list of a store.

        Args:
            state: the folder.
            store: what is looked at; with another id of its database everything waits anew.

        Raises:
            RefusedError: a newer version of Dredge wrote the list.
            UnavailableError: the folder does not answer.
        """
        expected = Expected(subject=store.location, life=store.own_id() or "")
        found = cls(state, expected, read_list(state.writer, expected, state.now()))
        found.problem, pending = found.stored.problem, found.stored.pending
        if pending is not None:
            folder = folder_of(state.writer, pending.run_id)
            try:
                parts = [folder.read_part(part).cast(PENDING) for part in pending.parts.values()]
                found.rows = pa.concat_tables([found.rows, *parts])
            except FormatError as error:
                found.problem = f"a part of it cannot be read ({error})"
        return found

    def advance(
        self,
        findings: Iterable[TrashFinding],
        run_id: str,
        marked_at: datetime,
        now: datetime,
        grace: timedelta,
    ) -> tuple[TrashFinding, ...]:
        """Advance the list by what a look found.

        Args:
            findings: of the look; those with a digest become rows.
            run_id: the run.
            marked_at: when the look began, by the store's clock.
            now: when it had read everything.
            grace: how long what is unused waits; 0: not at all.

        Returns:
            The findings; what has not waited is no trash yet.
        """
        turn = Turn(
            run_id=run_id,
            marked_at=marked_at,
            now=now,
            cutoff=now,
            min_age=None,
            grace=grace,
            waits=grace > timedelta(0),
            lists_all=True,
            state_of=None,
        )
        findings = tuple(findings)
        places = {address_of(f.partition, f.key): place for place, f in enumerate(findings) if f.digest}
        found = _found([findings[place] for _, place in sorted(places.items())])
        nothing = np.zeros(self.rows.num_rows, bool)
        after = advance(self.rows, found, nothing, nothing, turn)
        self._is_unchanged = not self.problem and after.rows.equals(self.rows)
        self.rows = after.rows
        confirmed = set(found.filter(pa.array(after.confirmed))["address"].to_pylist())
        told = list(findings)
        for row in after.rows.select(["address", "since"]).to_pylist():
            place, since = places[row["address"]], row["since"]
            told[place] = replace(findings[place], first_seen=since)
            if findings[place].verdict == "trash" and row["address"] not in confirmed:
                until = since + grace
                why = f"{findings[place].why}; waits until {until:%Y-%m-%d %H:%M:%S} UTC"
                told[place] = replace(told[place], verdict="wait", why=why, waits_until=until)
        return tuple(told)

    def leave(self, run_id: str, marked_at: datetime) -> None:
        """Leave the list for the next run.

        Args:
            run_id: the run.
            marked_at: when it began to look.

        Raises:
            LeaseHeldError: this try was overtaken; what a later one left stays.
        """
        state = self.state
        if state is None:
            return
        state.check_right()
        label = f"{run_id}-{state.attempt}"
        before = self.stored.pending
        if before is not None and self._is_unchanged:
            parts = before.parts
        else:
            parts = {0: write_part(state.writer, label, 0, self.rows)} if self.rows.num_rows else {}
        pending = PendingList(
            subject=self.expected.subject,
            life=self.expected.life,
            run_id=run_id,
            marked_at=marked_at,
            left_at=state.now(),
            parts=parts,
        )
        try:
            leave_list(state.writer, pending, self.stored.etag)
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
    waiting = WaitingList.read(state, store)
    gone = pa.array([address_of(*name) for name in names], pa.string())
    waiting.rows = waiting.rows.filter(pc.invert(pc.is_in(waiting.rows["address"], gone)))
    waiting.leave(run_id, state.now())


def _found(findings: Sequence[TrashFinding]) -> pa.Table:
    addresses = pa.array([address_of(f.partition, f.key) for f in findings], pa.string())
    codes = [None if f.verdict == "trash" else f.code or YOUNG for f in findings]
    columns = {
        "address": addresses,
        "hash": pa.array(hash64(addresses)),
        "size": [f.size_bytes for f in findings],
        "etag": [f.digest for f in findings],
        "version_id": pa.nulls(len(findings), pa.string()),
        "last_modified": [_NO_TIME] * len(findings),
        "code": pa.array(codes, pa.string()),
    }
    return pa.table(columns, schema=FOUND)
