"""Rows of a DynamoDB table: parallel scans for the partitions, transactions for conditional deletes.

DynamoDB has no snapshots: each read of a view is consistent, but later reads see later states. So readers read possible
trash first, and references last.

No index lists the partitions, so the whole table is scanned, several segments in parallel. All reads of all views
share one rate limit. DynamoDB charges a scan for the scanned data, not for the returned data.

A delete is a TransactWriteItems request: up to 100 conditional deletes and condition checks, all or nothing. Each
request has its own token, so it can be repeated after a lost response.
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

from dredge.kv import dynamodb
from dredge.kv.rows import Entry, Guard, GuardFailedError, ReadRate, Row, show_key

TRANSACTION_ACTIONS = 100
TRANSACTION_BYTES = 3_500_000  # the limit is 4 MB and includes names and conditions
_FIRST_PAGE_ITEMS = 100
_LARGEST_PAGE_ITEMS = 5000


class RateLimiter:
    """Limits the total read capacity units per second of several threads; None is unlimited."""

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

    def consume(self, units: float) -> None:
        """Record the units of a request, and wait until the next request is allowed."""
        if self._rate is None:
            return
        with self._lock:
            start = max(self._free_at, self._now())
            self._free_at = start + units / self._rate
            pause = self._free_at - self._now()
        if pause > 0:
            self._sleep(pause)


class DynamoRows:
    """A `RowCleaner` of an existing DynamoDB table."""

    guards_max = 40  # of the 100 actions of a transaction

    def __init__(
        self,
        url: str,
        rate: ReadRate | None = None,
        sleep: Callable[[float], None] = time.sleep,
        keys: dynamodb.AwsKeys | None = None,
    ) -> None:
        self._store = dynamodb.DynamoTable(url, sleep, keys)
        self._rate = rate or ReadRate()
        self._limiter = RateLimiter(self._rate.units_per_second, sleep=sleep)
        self.location = self._store.location

    @contextlib.contextmanager
    def view(self) -> Iterator[DynamoView]:
        yield DynamoView(self._store, self._rate, self._limiter)

    def clock(self) -> datetime | None:
        response = self._store.call("describe_table", repeat=True)
        date = response["ResponseMetadata"]["HTTPHeaders"].get("date")
        return parsedate_to_datetime(date).astimezone(UTC) if date else None

    def own_id(self) -> str:
        found: str = self._store.call("describe_table", repeat=True)["Table"].get("TableId", "")
        return found

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        outcomes: list[bool] = []
        for batch in _batches(rows, guards):
            outcomes.extend(self._delete_batch(batch, guards, outcomes))
        return outcomes

    def insert_row(self, row: Row) -> bool:
        try:
            item = dynamodb.item_key(row.partition, row.key) | {dynamodb.VALUE: {"B": row.value}}
            self._store.call("put_item", Item=item, **dynamodb.condition_on(None))
        except dynamodb.ConditionFailedError:
            return False
        return True

    def close(self) -> None:
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
            except dynamodb.ConditionFailedError as error:
                failed = [reason == "ConditionalCheckFailed" for reason in error.reasons]
                for guard, bad in zip(guards, failed, strict=False):
                    if bad:
                        name = show_key(guard.partition, guard.key)
                        raise GuardFailedError(f"{name} changed during the delete", done) from error
                # Some rows were changed meanwhile: keep them and retry the others.
                left = [row for row, bad in zip(left, failed[len(guards) :], strict=True) if not bad]
        deleted = set(left)
        return [row in deleted for row in batch]

    def _action(self, kind: str, item: Row | Guard) -> dict[str, Any]:
        target = {"TableName": self._store.table, "Key": dynamodb.item_key(item.partition, item.key)}
        return {kind: target | dynamodb.condition_on(item.value)}


class DynamoView:
    """A `RowView` of a table; each single read is consistent."""

    consistent = False

    def __init__(self, store: dynamodb.DynamoTable, rate: ReadRate, limiter: RateLimiter) -> None:
        self._store = store
        self._rate = rate
        self._limiter = limiter

    def partitions(self) -> Iterator[bytes]:
        found: set[bytes] = set()
        with ThreadPoolExecutor(self._rate.segments) as threads:
            for part in threads.map(self._segment, range(self._rate.segments)):
                found |= part
        yield from sorted(found)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        for response in self._store.pages(partition, start, ReturnConsumedCapacity="TOTAL"):
            self._limiter.consume(_units(response))
            for item in response["Items"]:
                yield Entry(item[dynamodb.KEY]["B"], item[dynamodb.VALUE]["B"])

    def _segment(self, number: int) -> set[bytes]:
        found: set[bytes] = set()
        limit = _FIRST_PAGE_ITEMS
        page: dict[str, Any] = {}
        while True:
            response = self._store.call(
                "scan",
                repeat=True,
                Segment=number,
                TotalSegments=self._rate.segments,
                ProjectionExpression="#p",
                ExpressionAttributeNames={"#p": dynamodb.PARTITION},
                ConsistentRead=True,
                Limit=limit,
                ReturnConsumedCapacity="TOTAL",
                **page,
            )
            found.update(item[dynamodb.PARTITION]["B"] for item in response["Items"])
            units = _units(response)
            self._limiter.consume(units)
            if "LastEvaluatedKey" not in response:
                return found
            page = {"ExclusiveStartKey": response["LastEvaluatedKey"]}
            limit = self._next_limit(limit, units)

    def _next_limit(self, limit: int, units: float) -> int:
        """A page size for a segment's share of one second's rate."""
        if self._rate.units_per_second is None or units <= 0:
            return _LARGEST_PAGE_ITEMS
        share = self._rate.units_per_second / self._rate.segments
        return max(1, min(_LARGEST_PAGE_ITEMS, int(limit * share / units)))


def _units(response: dict[str, Any]) -> float:
    units: float = response.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
    return units


def _batches(rows: Sequence[Row], guards: Sequence[Guard]) -> Iterator[list[Row]]:
    room = TRANSACTION_ACTIONS - len(guards)
    if room < 1:
        raise ValueError(f"{len(guards)} guards are too many for a transaction with a delete")
    batch: list[Row] = []
    size = fixed = sum(len(guard.value or b"") for guard in guards)
    for row in rows:
        # The condition contains the value, and the stored item counts too.
        weight = 2 * (len(row.partition) + len(row.key) + len(row.value))
        if batch and (len(batch) == room or size + weight > TRANSACTION_BYTES):
            yield batch
            batch, size = [], fixed
        batch.append(row)
        size += weight
    if batch:
        yield batch
