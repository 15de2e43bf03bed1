"""A pending list of few rows, which a run reads and writes as a whole.

    read ──▶ advance by what a mark found ──▶ what has waited
                       └──▶ leave

Longer lists are cut into shards, which tasks advance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.hashing import hash64
from dredge.runs.pending.figures import Waits
from dredge.runs.pending.rows import FOUND, PENDING, Turn, advance
from dredge.runs.pending.store import (
    Expected,
    PendingList,
    Stored,
    folder_of,
    leave_list,
    read_list,
    read_rows,
    same_or_written,
)
from dredge.storage import ObjectReader, ObjectWriter


@dataclass(slots=True)
class SmallList:
    """The list as a run has it.

    Attributes:
        expected: what a list must be to be believed.
        stored: what is stored.
        rows: of the list, as they are stored, or as the run has advanced them.
        problem: why the stored ones do not count, as half a sentence; "" otherwise.
        figures: as reports have them (`words`), once the list was advanced.
    """

    expected: Expected
    stored: Stored = field(default_factory=Stored)
    rows: pa.Table = field(default_factory=PENDING.empty_table)
    problem: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    _before: pa.Table = field(default_factory=PENDING.empty_table)

    @classmethod
    def read(cls, place: ObjectReader, expected: Expected, now: datetime) -> SmallList:
        """Read the list.

        Args:
            place: on the folder of the list.
            expected: what it must be.
            now: the store's time.

        Raises:
            RefusedError: a newer version of Dredge wrote it.
            UnavailableError: the store does not answer.
        """
        found = cls(expected, read_list(place, expected, now))
        found.problem, pending = found.stored.problem, found.stored.pending
        if pending is not None:
            try:
                found.rows = found._before = read_rows(
                    folder_of(place, pending.run_id), pending.parts.values()
                )
            except FormatError as error:
                found.problem = f"a part of it cannot be read ({error})"
        return found

    def advance(self, found: pa.Table, turn: Turn, live: Collection[str] = ()) -> set[str]:
        """Advance the list by what a mark found.

        Args:
            found: by the mark (`FOUND`).
            turn: the run.
            live: addresses that are live now, where the run did not read everything.

        Returns:
            Addresses of what has waited.
        """
        is_live = np.asarray(pc.is_in(self.rows["address"], pa.array(sorted(live), pa.string())), bool)
        after = advance(self.rows, found, is_live, np.zeros(self.rows.num_rows, bool), turn)
        self.rows = after.rows
        self.figures = Waits.of(after.rows, found, after.confirmed, turn).to_details(turn.grace)
        return set(found.filter(pa.array(after.confirmed))["address"].to_pylist())

    def forget(self, addresses: Iterable[str]) -> None:
        """Take rows off the list: what they are about waits anew.

        Args:
            addresses: of the rows; others are passed over.
        """
        gone = pc.is_in(self.rows["address"], pa.array(list(addresses), pa.string()))
        self.rows = self.rows.filter(pc.invert(gone))

    def leave(self, place: ObjectWriter, label: str, run_id: str, marked_at: datetime, now: datetime) -> None:
        """Leave the list for the next run. The caller holds the lease.

        Args:
            place: on the folder of the list.
            label: begins the names of files; no other try has it.
            run_id: the run.
            marked_at: when it was planned, by the store's clock.
            now: the store's time.

        Raises:
            ConflictError: another run has left its list since.
        """
        known = None if self.stored.pending is None else self.stored.pending.parts.get(0)
        pending = PendingList(
            subject=self.expected.subject,
            life=self.expected.life,
            run_id=run_id,
            marked_at=marked_at,
            left_at=now,
            parts=same_or_written(place, label, 0, self.rows, self._before, known),
        )
        leave_list(place, pending, self.stored.etag)


def found_rows(addresses: Iterable[str], **columns: Any) -> pa.Table:
    """Make rows of what a mark found.

    Args:
        addresses: each once.
        columns: of `FOUND` by name, in the order of the addresses; null where there is none.
    """
    names = pa.array(addresses, pa.string())
    table = {item.name: columns.get(item.name, pa.nulls(len(names), item.type)) for item in FOUND}
    return pa.table({**table, "address": names, "hash": pa.array(hash64(names))}, schema=FOUND)
