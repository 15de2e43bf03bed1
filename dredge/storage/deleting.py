"""The loop around the deletions of every store: batches in parallel, permission before each, one outcome per key.

    batch → wait for the rate → permission → send ┬ clear answers                   → outcome
                                                  ├ throttled, or a transient error → again, together
                                                  └ no clear answer about a key     → again, alone

A driver has the request, its size, and the meaning of its codes. A repeated deletion is harmless. An answer is in
doubt if the request may have been done: the answer was lost, incomplete, or an error of the service. A key missing
after such an answer counts as deleted, with a message; after a clear answer it counts as missing. A request that was
not sent leaves no doubt.
"""

import random
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, always
from dredge.storage.options import StorageOptions
from dredge.storage.remote import MARKER, Named


class AdaptiveRate:
    """A limit in keys per second, shared by the threads of one deleter.

    There is no limit until the store throttles. The first limit is half the reached rate. Further throttling halves
    it, once per burst; every second without throttling raises it by 5 %.
    """

    GROWTH_PER_SECOND = 0.05
    BURST_SECONDS = 1.0

    def __init__(
        self,
        floor: float = 50.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._floor = floor
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._limit: float | None = None
        self._free_at = 0.0
        self._changed_at = float("-inf")
        self._window_start = monotonic()
        self._window_keys = 0

    @property
    def limit(self) -> float | None:
        """Keys per second; None without a limit."""
        return self._limit

    def acquire(self, keys: int) -> None:
        """Wait until `keys` more keys may be sent."""
        with self._lock:
            now = self._monotonic()
            self._grow(now)
            self._count(now, keys)
            if self._limit is None:
                return
            start = max(now, self._free_at)
            self._free_at = start + keys / self._limit
        if start > now:
            self._sleep(start - now)

    def throttled(self) -> None:
        """Lower the limit."""
        with self._lock:
            now = self._monotonic()
            if now - self._changed_at < self.BURST_SECONDS and self._limit is not None:
                return
            reached = self._window_keys / max(now - self._window_start, 0.1)
            present = reached if self._limit is None else self._limit
            self._limit = max(self._floor, present / 2)
            self._changed_at = now

    def _grow(self, now: float) -> None:
        if self._limit is None:
            return
        quiet = now - self._changed_at
        if quiet >= 1.0:
            self._limit *= (1 + self.GROWTH_PER_SECOND) ** min(quiet, 10.0)
            self._changed_at = now

    def _count(self, now: float, keys: int) -> None:
        if now - self._window_start > 5.0:
            self._window_start, self._window_keys = now, 0
        self._window_keys += keys


ATTEMPTS = 8
UNCLEAR = "UnclearAnswer"
"""Code of a key without a clear answer."""
NOT_CONNECTED = "NotConnected"
"""Code of a key without a sent request: no connection, or a failed lookup before it."""
CONNECTION_LOST = "ConnectionError"
"""Code of a key with a sent request and a lost answer."""
_CONFIRMED = "confirmed by a second request; the first answer was {}"
_GONE = "missing on a second request; the first answer was lost ({})"
_NO_VERSION = "; its version id is not known"


class Codes(Struct, frozen=True, kw_only=True):
    """Meaning of the codes of keys that a request did not delete."""

    throttled: frozenset[str]  # the store was busy and did nothing
    transient: frozenset[str]  # a retry may succeed; the request may have been done
    alone: frozenset[str] = frozenset({UNCLEAR})  # retried key by key after the attempts of the batch
    no_batches: frozenset[str] = frozenset()  # the store has no such request; each key gets its own
    # limit of attempts of a batch with codes of `alone`, unless the store is busy
    batch_attempts: int = ATTEMPTS

    def may_pass(self, code: str | None) -> bool:
        """Whether a retry may succeed."""
        return code in self.throttled or code in self.transient or code == NOT_CONNECTED

    def is_doubtful(self, code: str | None) -> bool:
        """Whether the request may have been done."""
        return code == UNCLEAR or code in self.transient


class DeleteLoop[T]:
    """Deletes batches of keys, or of keys with versions. `send`: makes one attempt; returns an outcome for each item in
    order, and does not raise for a key. `versioned`: whether a deletion makes a version, whose id is lost with the
    answer."""

    def __init__(
        self,
        send: Callable[[list[T], MaySend], Sequence[DeleteOutcome]],
        codes: Codes,
        key_of: Callable[[T], str],
        rate: AdaptiveRate,
        sleep: Callable[[float], None] = time.sleep,
        versioned: bool = False,
    ) -> None:
        self._send = send
        self._codes = codes
        self._key_of = key_of
        self._rate = rate
        self._sleep = sleep
        self._versioned = versioned

    def delete(
        self, batches: Sequence[list[T]], may_send: MaySend, requests_at_once: int
    ) -> dict[T, DeleteOutcome]:
        """Delete all batches of distinct items; returns an outcome for each item."""
        outcomes: dict[T, DeleteOutcome] = {}
        if not batches:
            return outcomes
        threads = min(requests_at_once, len(batches))
        with ThreadPoolExecutor(threads, thread_name_prefix="dredge-delete") as pool:
            for found in pool.map(lambda batch: self._batch(batch, may_send, {}), batches):
                outcomes |= found
        return outcomes

    def _batch(self, batch: list[T], may_send: MaySend, doubts: dict[T, str]) -> dict[T, DeleteOutcome]:
        """Delete one batch with all its attempts; codes in doubt are added to `doubts`."""
        outcomes: dict[T, DeleteOutcome] = {}
        left = batch
        for attempt in range(ATTEMPTS):
            self._rate.acquire(len(left))
            if not may_send():
                return self._not_sent(left) | outcomes
            found = dict(zip(left, self._send(left, may_send), strict=True))
            if len(left) > 1 and all(item.code in self._codes.no_batches for item in found.values()):
                return outcomes | self._alone(left, may_send, doubts)
            outcomes |= self._told(found, outcomes, doubts)
            left = [item for item, told in found.items() if self._codes.may_pass(told.code)]
            if not left or not self._goes_on(attempt, len(batch), [found[item] for item in left]):
                break
        if len(batch) > 1:
            unclear = [item for item, told in outcomes.items() if told.code in self._codes.alone]
            again = self._alone(unclear, may_send, doubts)
            outcomes |= {item: told for item, told in again.items() if told.code != NOT_SENT}
        return outcomes

    def _goes_on(self, attempt: int, batch_items: int, again: list[DeleteOutcome]) -> bool:
        """Whether there is another attempt; waits for it."""
        busy = any(item.code in self._codes.throttled for item in again)
        unclear = any(item.code in self._codes.alone for item in again)
        if attempt + 1 >= self._codes.batch_attempts and batch_items > 1 and unclear and not busy:
            return False
        if busy:
            self._rate.throttled()
        if attempt + 1 < ATTEMPTS:
            self._sleep(min(20.0, 0.1 * 2**attempt) * (0.5 + random.random()))
        return True

    def _alone(self, items: list[T], may_send: MaySend, doubts: dict[T, str]) -> dict[T, DeleteOutcome]:
        found: dict[T, DeleteOutcome] = {}
        for item in items:
            found |= self._batch([item], may_send, doubts)
        return found

    def _told(
        self, found: Mapping[T, DeleteOutcome], before: Mapping[T, DeleteOutcome], doubts: dict[T, str]
    ) -> dict[T, DeleteOutcome]:
        told: dict[T, DeleteOutcome] = {}
        for item, outcome in found.items():
            if outcome.code == NOT_SENT and item in before:
                continue  # an earlier attempt was sent, and says more
            if self._codes.is_doubtful(outcome.code):
                doubts[item] = str(outcome.code)
            told[item] = self._with_doubt(outcome, doubts.get(item))
        return told

    def _with_doubt(self, outcome: DeleteOutcome, doubt: str | None) -> DeleteOutcome:
        if doubt is None or outcome.outcome not in {"deleted", "missing"}:
            return outcome
        if outcome.outcome == "deleted":
            return replace(outcome, message=_CONFIRMED.format(doubt))
        words = _GONE.format(doubt) + (_NO_VERSION if self._versioned else "")
        return replace(outcome, outcome="deleted", message=words)

    def _not_sent(self, items: Iterable[T]) -> dict[T, DeleteOutcome]:
        return {item: DeleteOutcome(self._key_of(item), "failed", NOT_SENT) for item in items}


type Item = tuple[str, str]
"""Key and version of an object; the version "" is the current one."""


class Batches(Named):
    """Deletes objects below a prefix, or versions of them, many per request; for drivers of remote stores."""

    BATCH_KEYS: ClassVar[int]
    CODES: ClassVar[Codes]

    def __init__(self, location: Location, options: StorageOptions, rate: AdaptiveRate | None = None) -> None:
        super().__init__(location, options)
        self._rate = rate or AdaptiveRate()
        self._versioned: bool | None = None
        self._sleep: Callable[[float], None] = time.sleep

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._location, self._options)

    def _delete_items(self, items: Iterable[Item], may_send: MaySend) -> dict[Item, DeleteOutcome]:
        distinct = dict.fromkeys(items)
        wanted = [item for item in distinct if item[0] and self._can_name(item[0])]
        outcomes = {
            item: DeleteOutcome(item[0], "not_addressable") for item in set(distinct).difference(wanted)
        }
        if wanted:
            self._prepare()
            loop = DeleteLoop[Item](
                self._send, self.CODES, itemgetter(0), self._rate, self._sleep, bool(self._versioned)
            )
            outcomes |= loop.delete(self._batches(wanted), may_send, self._options.delete_requests)
        return outcomes

    def _prepare(self) -> None:
        """Find out whether the bucket keeps versions, before the first request."""

    def _batches(self, items: list[Item]) -> list[list[Item]]:
        return [items[start : start + self.BATCH_KEYS] for start in range(0, len(items), self.BATCH_KEYS)]

    @abstractmethod
    def _send(self, items: list[Item], may_send: MaySend) -> Sequence[DeleteOutcome]:
        """Make one attempt at some items; see `DeleteLoop`."""


class BatchDeleter(Batches):
    """See `ObjectDeleter`."""

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """See `ObjectDeleter.delete`."""
        outcomes = self._delete_items(((key, "") for key in keys), may_send)
        return [outcomes[key, ""] for key in keys]


class BatchVersionDeleter(Batches):
    """See `VersionDeleter`."""

    # The store has delete markers with ids of their own.
    HAS_MARKERS: ClassVar[bool] = False

    def delete(self, wanted: Sequence[Item], may_send: MaySend = always) -> list[DeleteOutcome]:
        """See `VersionDeleter.delete`."""
        outcomes: dict[Item, DeleteOutcome] = {}
        for key, version in wanted:
            if not version:  # a request without a version would delete the object
                outcomes[key, version] = DeleteOutcome(key, "not_addressable")
            elif version.endswith(MARKER) and not self.HAS_MARKERS:  # disappears with its version
                outcomes[key, version] = DeleteOutcome(key, "deleted")
        outcomes |= self._delete_items((item for item in wanted if item not in outcomes), may_send)
        return [replace(outcomes[item], version_id=item[1]) for item in wanted]


def all_failed(items: Iterable[Item], code: str, message: str = "") -> list[DeleteOutcome]:
    """Outcomes of a request that failed as a whole."""
    return [DeleteOutcome(key, "failed", code, message) for key, _ in items]
