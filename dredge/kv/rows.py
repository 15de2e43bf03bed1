"""Access to all rows of a store: the list of partitions, consistent reads, and deletes of rows with exactly the
examined value. Readers get a `RowReader`; only the trash cleaner gets a `RowCleaner`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from dredge.errors import ConflictError

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key and its value."""

    key: bytes
    value: bytes


class Row(NamedTuple):
    """One row of a store."""

    partition: bytes
    key: bytes
    value: bytes


class Guard(NamedTuple):
    """A condition of a delete: this key has exactly this value or, with None, does not exist."""

    partition: bytes
    key: bytes
    value: bytes | None


class GuardFailedError(ConflictError):
    """A guard failed, so its transaction deleted nothing; read the store again before another attempt."""

    kind = "guard_failed"

    def __init__(self, message: str, outcomes: Sequence[bool] = ()) -> None:
        super().__init__(message)
        self.outcomes = list(outcomes)
        """Outcomes of the rows in earlier transactions, in the form that `delete_rows` returns."""


@dataclass(frozen=True, slots=True)
class ReadRate:
    """Limits for scanning a table of a store that charges for reads.

    Args:
        units_per_second: DynamoDB read capacity units over all segments; None is unlimited.
        segments: parts of the table that are scanned in parallel.
    """

    units_per_second: float | None = None
    segments: int = 4


class RowView(Protocol):
    """A set of reads, consistent if the store has snapshots."""

    consistent: bool
    """Whether all reads through this view see the same point in time. If not, later reads see later states, so read
    possible trash first, and references last."""

    def partitions(self) -> Iterator[bytes]:
        """Yield every partition with a row, once, in byte order."""
        ...

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """Yield the rows of a partition from `start` (inclusive), in byte order of the keys."""
        ...


class RowReader(Protocol):
    """A store whose rows can all be read."""

    location: str
    """The store's name in reports and state files, without credentials."""

    def view(self) -> AbstractContextManager[RowView]:
        """Open a view; close it soon, because the database retains old row versions for it."""
        ...

    def clock(self) -> datetime | None:
        """The store's time (aware UTC); None for a store without a clock."""
        ...

    def own_id(self) -> str:
        """The database's own id, which changes when it is restored from a backup; "" without one."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class RowCleaner(RowReader, Protocol):
    """A store whose rows can be deleted and restored, each under a condition."""

    guards_max: int
    """Maximum number of guards per call of `delete_rows`."""

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        """Delete rows with exactly the given values.

        Args:
            guards: conditions, all checked in each transaction; a transaction deletes as many rows as the store
                allows.

        Returns:
            For each row, in order, whether it was deleted; False for another value or a missing row.

        Raises:
            GuardFailedError: a guard failed. Rows of earlier transactions of this call are deleted; see its
                `outcomes`.
            UnavailableError: the store did not answer; the deleted rows are unknown.
        """
        ...

    def insert_row(self, row: Row) -> bool:
        """Write a row if its key does not exist; returns whether it was written."""
        ...


def show(name: bytes) -> str:
    """Format a partition or key as text; bytes that are not UTF-8 appear as \\xNN."""
    return name.decode("utf-8", "backslashreplace")


def show_key(partition: bytes, key: bytes) -> str:
    """Format the name of a row as text."""
    return f"{show(partition)} · {show(key)}"


def name_of(text: str) -> bytes:
    r"""Read a partition or key as `show` formats it."""

    def byte(found: re.Match[bytes]) -> bytes:
        return codecs.decode(found[1], "hex")

    return _ESCAPE.sub(byte, text.encode("utf-8", "surrogateescape"))
