"""Raw rows of a DynamoDB table: partitions by a scan in parallel segments, deletion in conditional
transactions.

There is no snapshot. A view's reads are consistent one by one, and each later read sees a later state;
whoever looks reads what may be trash first and what may name it last.

No index lists the partitions, so the whole table is read, in segments at once. All reads together, of all views,
keep to a given rate.
The price of a scan is the size of what it passes over, not of what it returns.

A deletion is TransactWriteItems: up to 100 actions, conditional deletes and condition checks together, all or
nothing. Each transaction carries a token of its own, so that one whose answer was lost can be sent again.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from dredge.kv.dynamodb import (
    KEY,
    PARTITION,
    VALUE,
    AwsKeys,
    ConditionFailedError,
    DynamoStore,
    condition_on,
    item_key,
)
from dredge.kv.model import Entry, PredicateFailedError
from dredge.kv.rows import Guard, GuardFailedError, ReadRate, Row, show_key

TRANSACTION_ACTIONS = 100
TRANSACTION_BYTES = 3_500_000  # the limit is 4 MB; names and conditions count too
_FIRST_PAGE_ITEMS = 100
_LARGEST_PAGE_ITEMS = 5000


class Pacer:
    """Keeps what several threads read below a rate.

    Args:
        units_per_second: the rate, or None for none.
        now: a clock in seconds.
        sleep: how to wait, in seconds.
    """

    def __init__(
        self,
        units_per_second: float | None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = units_per_second
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = now()

    def pay(self, units: float) -> None:
        """Account for what a request used, and wait until the next one may be sent."""
        if self._rate is None:
            return
        with self._lock:
            start = max(self._free_at, self._now())
            self._free_at = start + units / self._rate
            pause = self._free_at - self._now()
        if pause > 0:
            self._sleep(pause)


class DynamoRows:
    """Raw access to the rows of a DynamoDB table with lakeFS's layout.

    Args:
        url: as for `DynamoStore`; the table must exist.
        rate: how fast and in how many segments the table may be scanned.
        sleep: how to wait, in seconds.
        keys: instead of what the environment has.
    """

    guards_max = 40  # of the 100 actions of a transaction

    def __init__(
        self,
        url: str,
        rate: ReadRate | None = None,
        sleep: Callable[[float], None] = time.sleep,
        keys: AwsKeys | None = None,
    ) -> None:
        self._store = DynamoStore(url, create=False, sleep=sleep, keys=keys)
        self._rate = rate or ReadRate()
        self._pacer = Pacer(self._rate.units_per_second, sleep=sleep)
        self.location = self._store.location

    @contextlib.contextmanager
    def view(self) -> Iterator[DynamoView]:
        """Begin reads one after the other."""
        yield DynamoView(self._store, self._rate, self._pacer)

    def clock(self) -> datetime | None:
        """The service's time, from the date of an answer, to the second."""
        answer = self._store.call("describe_table", repeat=True)
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        return parsedate_to_datetime(date).astimezone(UTC) if date else None

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        """Delete rows that still have their value, in transactions with all guards (see `RowCleaner`)."""
        outcomes: list[bool] = []
        for batch in _batches(rows, guards):
            outcomes.extend(self._delete_batch(batch, guards, outcomes))
        return outcomes

    def insert_row(self, row: Row) -> bool:
        """Write a row if its key does not exist."""
        try:
            self._store.set_if(row.partition, row.key, row.value, None)
        except PredicateFailedError:
            return False
        return True

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def _delete_batch(self, batch: Sequence[Row], guards: Sequence[Guard], done: list[bool]) -> list[bool]:
        left = list(batch)
        while left:
            actions = [self._action("ConditionCheck", guard) for guard in guards]
            actions += [self._action("Delete", row) for row in left]
            try:
                self._store.call(
                    "transact_write_items",
                    repeat=True,
                    TransactItems=actions,
                    ClientRequestToken=secrets.token_hex(16),
                )
                break
            except ConditionFailedError as error:
                failed = [reason == "ConditionalCheckFailed" for reason in error.reasons]
                for guard, bad in zip(guards, failed, strict=False):
                    if bad:
                        name = show_key(guard.partition, guard.key)
                        raise GuardFailedError(f"{name} changed while its trash was deleted", done) from error
                # Somebody changed some of the rows: they stay, the others are tried again without them.
                left = [row for row, bad in zip(left, failed[len(guards) :], strict=True) if not bad]
        deleted = set(left)
        return [row in deleted for row in batch]

    def _action(self, kind: str, item: Row | Guard) -> dict[str, Any]:
        target = {"TableName": self._store.table, "Key": item_key(item.partition, item.key)}
        return {kind: target | condition_on(item.value)}


class DynamoView:
    """Consistent reads of a table, one after the other."""

    consistent = False

    def __init__(self, store: DynamoStore, rate: ReadRate, pacer: Pacer) -> None:
        self._store = store
        self._rate = rate
        self._pacer = pacer

    def partitions(self) -> Iterator[bytes]:
        """Every partition, in byte order, after reading the whole table."""
        found: set[bytes] = set()
        with ThreadPoolExecutor(self._rate.segments) as threads:
            for part in threads.map(self._segment, range(self._rate.segments)):
                found |= part
        yield from sorted(found)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        """The rows of a partition, by queries that count towards the rate."""
        for answer in self._store.pages(partition, start, ReturnConsumedCapacity="TOTAL"):
            self._pacer.pay(_units(answer))
            for item in answer["Items"]:
                yield Entry(item[KEY]["B"], item[VALUE]["B"])

    def _segment(self, number: int) -> set[bytes]:
        found: set[bytes] = set()
        limit = _FIRST_PAGE_ITEMS
        page: dict[str, Any] = {}
        while True:
            answer = self._store.call(
                "scan",
                repeat=True,
                Segment=number,
                TotalSegments=self._rate.segments,
                ProjectionExpression="#p",
                ExpressionAttributeNames={"#p": PARTITION},
                ConsistentRead=True,
                Limit=limit,
                ReturnConsumedCapacity="TOTAL",
                **page,
            )
            found.update(item[PARTITION]["B"] for item in answer["Items"])
            units = _units(answer)
            self._pacer.pay(units)
            if "LastEvaluatedKey" not in answer:
                return found
            page = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
            limit = self._next_limit(limit, units)

    def _next_limit(self, limit: int, units: float) -> int:
        """Size the next page so that one segment's request takes its share of a second's rate."""
        if self._rate.units_per_second is None or units <= 0:
            return _LARGEST_PAGE_ITEMS
        share = self._rate.units_per_second / self._rate.segments
        return max(1, min(_LARGEST_PAGE_ITEMS, int(limit * share / units)))


def _units(answer: dict[str, Any]) -> float:
    """Read capacity units that a request used."""
    units: float = answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
    return units


def _batches(rows: Sequence[Row], guards: Sequence[Guard]) -> Iterator[list[Row]]:
    room = TRANSACTION_ACTIONS - len(guards)
    if room < 1:
        raise ValueError(f"{len(guards)} guards leave no room for a deletion")
    batch: list[Row] = []
    size = fixed = sum(len(guard.value or b"") for guard in guards)
    for row in rows:
        # A condition carries the value, and the stored item counts as well.
        weight = 2 * (len(row.partition) + len(row.key) + len(row.value))
        if batch and (len(batch) == room or size + weight > TRANSACTION_BYTES):
            yield batch
            batch, size = [], fixed
        batch.append(row)
        size += weight
    if batch:
        yield batch
