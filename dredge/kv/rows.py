"""Raw access to the rows of a store, for those who look at all of it, and for the one who cleans it.

A `Store` serves a lakeFS: it reads what it can name. A cleaner has to find what nobody names any more, so it
needs three things more: the partitions that exist, reads that fit together, and a deletion that cannot hit
anything but the very bytes it judged. Who only looks is given a `RowReader`; only the cleaner gets a
`RowCleaner`.

Every driver offers both; `dredge.kv.row_opening` opens them by URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from dredge.errors import ConflictError
from dredge.kv.model import Entry


class Row(NamedTuple):
    """One row of a store."""

    partition: bytes
    key: bytes
    value: bytes


class Guard(NamedTuple):
    """What must hold while rows are deleted: this key has exactly this value, or, with None, does not
    exist."""

    partition: bytes
    key: bytes
    value: bytes | None


class GuardFailedError(ConflictError):
    """A guard did not hold: its transaction deleted nothing. Look again before the next try."""

    kind = "guard_failed"

    def __init__(self, message: str, outcomes: Sequence[bool] = ()) -> None:
        super().__init__(message)
        self.outcomes = list(outcomes)
        """What became of the rows before the failing transaction, as `delete_rows` returns it."""


@dataclass(frozen=True, slots=True)
class ReadRate:
    """How hard a look over a whole table may press a store that counts what is read.

    Args:
        units_per_second: DynamoDB read capacity units a second, over all segments; None is no limit.
        segments: how many parts of the table are read at once.
    """

    units_per_second: float | None = None
    segments: int = 4


class RowView(Protocol):
    """Reads that belong together."""

    consistent: bool
    """Everything read through this view is as of one moment. Where False, later reads see later states: read
    what may be trash first, and what may name it last."""

    def partitions(self) -> Iterator[bytes]:
        """Every partition that has a row, in byte order, each once."""
        ...

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """The rows of a partition from `start` (inclusive), in byte order of the keys."""
        ...


class RowReader(Protocol):
    """A store that can be looked at as a whole."""

    location: str
    """The store's name for reports and state files: never with credentials."""

    def view(self) -> AbstractContextManager[RowView]:
        """Begin reads that belong together; end them soon, a database keeps old rows for them."""
        ...

    def clock(self) -> datetime | None:
        """The store's own time (aware UTC), or None where the store has no clock but this machine's."""
        ...

    def close(self) -> None:
        """Give the connections back."""
        ...


class RowCleaner(RowReader, Protocol):
    """A store whose rows can be deleted and put back, each only under a condition."""

    guards_max: int
    """How many guards one deletion should have at most."""

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        """Delete rows whose value is still exactly the given one.

        Args:
            rows: what to delete; the order does not matter.
            guards: what has to hold at that moment. As many rows as the store can take in one transaction are
                deleted together with the check of all guards.

        Returns:
            For each row, in order, whether it was deleted; False: it has another value, or is gone.

        Raises:
            GuardFailedError: a guard did not hold. Rows of earlier transactions of the call are gone; the
                error's `outcomes` has them.
            UnavailableError: the store does not answer; what was deleted is unknown.
        """
        ...

    def insert_row(self, row: Row) -> bool:
        """Write a row if its key does not exist; returns whether it was written."""
        ...


def show(name: bytes) -> str:
    """Write a partition or key as text; bytes that are not UTF-8 appear as \\xNN."""
    return name.decode("utf-8", "backslashreplace")


def show_key(partition: bytes, key: bytes) -> str:
    """Write a row's name as text."""
    return f"{show(partition)} · {show(key)}"
