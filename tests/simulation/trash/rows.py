"""The cleaner's view of the key-value store: raw rows behind doors, with or without snapshots.

Without snapshots it is like DynamoDB: the list of partitions comes in pages without partitions created behind them,
each page of a scan is of another moment, and a large deletion is several transactions, each with all guards.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import batched
from typing import Any

from dredge.kv.rows import Guard, GuardFailedError, Row, RowView, show_key
from lakefs_embedded.kv import Entry, PredicateFailedError
from tests.simulation.clock import Clock
from tests.simulation.doors import Doors, answer_lost, not_done
from tests.simulation.kv import WatchedKV
from tests.simulation.noise import stable_hash
from tests.simulation.threads import Event
from tests.support.memory_rows import FrozenView

_FAULTS: dict[str, Any] = {"kv down": not_done("kv"), "kv answer lost": answer_lost("kv")}


def rows_of(store: WatchedKV) -> Iterator[Row]:
    """Every row of a store, without doors."""
    for name, part in list(store._partitions.items()):
        for key in list(part.order):
            yield Row(name, key, part.values[key])


@dataclass(kw_only=True)
class DoorRows:
    """A `RowCleaner` with a door for every request."""

    store: WatchedKV  # that everybody shares
    doors: Doors  # of the history
    store_clock: Clock | None  # its own clock; None is a store that has none
    snapshots: bool = True  # all reads of a view are of one moment
    page_rows: int = 50  # rows of a page of a scan
    transaction_rows: int = 1000  # rows that one transaction deletes at most
    guards_max: int = 1000  # guards of one deletion
    on_delete: Callable[[Row], None]  # called right before a row's deletion; may raise
    on_insert: Callable[[Row], None] = lambda _row: None  # called with each restored row
    location: str = field(default="memory://kv", init=False)
    deletions: int = 0  # that were asked for so far
    alarms: list[tuple[int, Event]] = field(default_factory=list)
    # when each process, by its name, opened its last view
    looked: dict[str, float] = field(default_factory=dict)
    # when each process began to read the rows of each partition last
    read: dict[tuple[str, bytes], float] = field(default_factory=dict)
    # an earlier state to read in place of the store; None is the store itself
    copy: FrozenView | None = None

    def fall_behind(self) -> None:
        self.copy = FrozenView(rows_of(self.store))

    def catch_up(self) -> None:
        self.copy = None

    def wait_for_deletion(self, number: int, seconds: float) -> None:
        """Wait for the n-th deletion from now on, for a maximum time."""
        alarm = Event(self.doors.scheduler)
        self.alarms.append((self.deletions + number, alarm))
        alarm.wait(seconds)

    @contextmanager
    def view(self) -> Iterator[RowView]:
        self.looked[self._process] = self.doors.scheduler.now
        if not self.snapshots or self.copy is not None:
            yield DoorView(self, self.copy)
            return
        yield DoorView(self, self._call("get", lambda: FrozenView(rows_of(self.store)), "snapshot"))

    def clock(self) -> datetime | None:
        if self.store_clock is None:
            return None
        return self._call("get", self.store_clock, "clock")

    def own_id(self) -> str:
        return ""

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        assert len(guards) <= self.guards_max, "more guards than the store takes"
        outcomes: list[bool] = []
        self.deletions += 1
        for number, alarm in self.alarms:
            if number == self.deletions:
                alarm.set()
        for batch in batched(rows, self.transaction_rows):
            what = ", ".join(show_key(row.partition, row.key) for row in batch)
            deed = partial(self._transaction, batch, guards, tuple(outcomes))
            outcomes += self._call("delete_if", deed, what)
        return outcomes

    def insert_row(self, row: Row) -> bool:
        def deed() -> bool:
            try:
                self.store.set_if(row.partition, row.key, row.value, None)
            except PredicateFailedError:
                return False
            self.on_insert(row)
            return True

        return self._call("set_if", deed, show_key(row.partition, row.key))

    def close(self) -> None:
        pass

    def _transaction(
        self, rows: Sequence[Row], guards: Sequence[Guard], before: Sequence[bool]
    ) -> list[bool]:
        for guard in guards:
            if self._value(guard.partition, guard.key) != guard.value:
                raise GuardFailedError(f"{show_key(guard.partition, guard.key)} changed", before)
        return [self._delete(row) for row in rows]

    def _delete(self, row: Row) -> bool:
        # As the drivers' condition: only a row that has exactly this value.
        if self._value(row.partition, row.key) != row.value:
            return False
        self.on_delete(row)
        return True

    def _value(self, partition: bytes, key: bytes) -> bytes | None:
        found = self.store._partitions.get(partition)
        return found.values.get(key) if found else None

    @property
    def _process(self) -> str:
        return self.doors.scheduler.process.name

    def note_read(self, partition: bytes) -> None:
        """The running process begins to read the rows of a partition."""
        looked = self.looked.get(self._process, 0.0)
        self.read[self._process, partition] = looked if self.snapshots else self.doors.scheduler.now

    def _call[T](self, name: str, deed: Callable[[], T], what: str = "") -> T:
        return self.doors.call("kv", name, deed, _FAULTS, what)


class DoorView:
    def __init__(self, rows: DoorRows, frozen: FrozenView | None) -> None:
        self._rows = rows
        self._frozen = frozen
        self.consistent = frozen is not None

    def partitions(self) -> Iterator[bytes]:
        if self._frozen is not None:
            frozen = self._frozen
            yield from self._rows._call("scan", lambda: list(frozen.partitions()), "partitions")
            return
        found: list[bytes] = []
        after = -1
        while page := self._rows._call("scan", partial(self._names, after), "partitions"):
            found += [name for _, name in page]
            after = page[-1][0]
        yield from sorted(found)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        size = self._rows.page_rows
        if not start:
            self._rows.note_read(partition)
        while True:
            page = self._rows._call("scan", partial(self._page, partition, start), f"{partition!r} {start!r}")
            yield from page
            if len(page) < size:
                return
            start = page[-1].key + b"\0"

    def _names(self, after: int) -> list[tuple[int, bytes]]:
        hashed = sorted((stable_hash(name), name) for name in self._rows.store._partitions)
        return [found for found in hashed if found[0] > after][: self._rows.page_rows]

    def _page(self, partition: bytes, start: bytes) -> list[Entry]:
        source = self._frozen if self._frozen is not None else self._rows.store
        found: list[Entry] = []
        for entry in source.scan(partition, start):
            found.append(entry)
            if len(found) == self._rows.page_rows:
                break
        return found


class FreezingKV:
    """The shared store for one server, which freezes before one of its operations."""

    def __init__(self, store: WatchedKV, name: str, number: int, freeze: Callable[[], None]) -> None:
        self._store = store
        self._name = name
        self._number = number
        self._left = -1
        self._freeze = freeze

    def arm(self) -> None:
        """Count from now on, without a server's writes at its start."""
        self._left = self._number

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return partial(self._late, found) if name == self._name else found

    def _late(self, deed: Callable[..., Any], *arguments: Any) -> Any:
        self._left -= 1
        if not self._left:
            self._freeze()
        return deed(*arguments)
