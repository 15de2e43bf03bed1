"""How fast to delete: as fast as the store takes it, half as fast when it complains, then slowly up again."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, always
from dredge.storage.options import StorageOptions


class AdaptiveRate:
    """A limit in keys a second, shared by the threads of one deleter.

    There is no limit until the store first throttles. Then the limit becomes half of what was just reached,
    is halved again by each further complaint (but not by the several that one burst brings), and grows by a
    twentieth every second without one.

    Args:
        floor: keys a second that are always allowed.
        monotonic: a clock in seconds.
        sleep: waits for seconds.
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
        """Keys a second allowed at present; None while there is no limit."""
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
        """Note that the store complained about its load."""
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
"""Code of a key that no answer clearly speaks about."""
NOT_CONNECTED = "NotConnected"
"""Code of a key whose deletion did not leave this machine: no connection, or a look before it that failed."""
CONNECTION_LOST = "ConnectionError"
"""Code of a key whose request was sent, and its answer lost."""
_CONFIRMED = "confirmed when asked again; the first answer was {}"
_GONE = "gone when asked again; the answer was lost ({})"
_NO_VERSION = "; its version id is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """What the codes of keys that a request did not delete mean.

    Attributes:
        throttled: the store was too busy; nothing was done.
        transient: another attempt may succeed, and the request may have been done all the same.
        alone: asked about key by key once the batch has had its attempts.
        no_batches: the store does not know such a request; each key gets one of its own.
        batch_attempts: after so many, what is to be asked alone is, unless the store is only busy.
    """

    throttled: frozenset[str]
    transient: frozenset[str]
    alone: frozenset[str] = frozenset({UNCLEAR})
    no_batches: frozenset[str] = frozenset()
    batch_attempts: int = ATTEMPTS

    def may_pass(self, code: str | None) -> bool:
        """Whether the same request may succeed a little later."""
        return code in self.throttled or code in self.transient or code == NOT_CONNECTED

    def is_doubtful(self, code: str | None) -> bool:
        """Whether an answer leaves open what the store did."""
        return code == UNCLEAR or code in self.transient


class DeleteLoop[T]:
    """Deletes batches of keys, or of keys with their versions.

    Args:
        send: makes one attempt at some items, and gives an outcome for each in their order; never raises for a key.
        codes: of its outcomes.
        key_of: the key of an item.
        rate: how fast; shared by all threads.
        sleep: waits for seconds.
        versioned: whether a deletion leaves a version, so that a lost answer is a lost version id.
    """

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
        """Delete all batches; gives an outcome for each item.

        Args:
            batches: of distinct items.
            may_send: see `ObjectDeleter.delete`.
            requests_at_once: at most.
        """
        outcomes: dict[T, DeleteOutcome] = {}
        if not batches:
            return outcomes
        threads = min(requests_at_once, len(batches))
        with ThreadPoolExecutor(threads, thread_name_prefix="dredge-delete") as pool:
            for found in pool.map(lambda batch: self._batch(batch, may_send, {}), batches):
                outcomes |= found
        return outcomes

    def _batch(self, batch: list[T], may_send: MaySend, doubts: dict[T, str]) -> dict[T, DeleteOutcome]:
        """Delete one request's worth of items, with as many attempts as it needs.

        Args:
            batch: items.
            may_send: asked before each attempt.
            doubts: codes of earlier answers that leave open what became of an item; more are added.
        """
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
        """Whether there is another attempt at what may pass; waits for it."""
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
        """Ask about items one by one."""
        found: dict[T, DeleteOutcome] = {}
        for item in items:
            found |= self._batch([item], may_send, doubts)
        return found

    def _told(
        self, found: Mapping[T, DeleteOutcome], before: Mapping[T, DeleteOutcome], doubts: dict[T, str]
    ) -> dict[T, DeleteOutcome]:
        """The outcomes of one attempt, with what earlier answers left open."""
        told: dict[T, DeleteOutcome] = {}
        for item, outcome in found.items():
            if outcome.code == NOT_SENT and item in before:
                continue  # an earlier attempt was sent, and says more
            if self._codes.is_doubtful(outcome.code):
                doubts[item] = str(outcome.code)
            told[item] = self._with_doubt(outcome, doubts.get(item))
        return told

    def _with_doubt(self, outcome: DeleteOutcome, doubt: str | None) -> DeleteOutcome:
        """Say of a key that is gone by now what the store answered before."""
        if doubt is None or outcome.outcome not in {"deleted", "missing"}:
            return outcome
        if outcome.outcome == "deleted":
            return replace(outcome, message=_CONFIRMED.format(doubt))
        words = _GONE.format(doubt) + (_NO_VERSION if self._versioned else "")
        return replace(outcome, outcome="deleted", message=words)

    def _not_sent(self, items: Iterable[T]) -> dict[T, DeleteOutcome]:
        return {item: DeleteOutcome(self._key_of(item), "failed", NOT_SENT) for item in items}


class BatchDeleter(ABC):
    """Deletes objects below a prefix, many a request; what drivers of remote stores have in common.

    Args:
        location: below which keys lie.
        options: how the store is reached.
        rate: None makes one.
    """

    BATCH_KEYS: ClassVar[int]
    CODES: ClassVar[Codes]

    def __init__(self, location: Location, options: StorageOptions, rate: AdaptiveRate | None = None) -> None:
        self._location = location
        self._options = options
        self._root = location.root + "/" if location.root else ""
        self._rate = rate or AdaptiveRate()
        self._versioned: bool | None = None
        self._sleep: Callable[[float], None] = time.sleep

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._location, self._options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete each key; see `ObjectDeleter.delete`."""
        distinct = list(dict.fromkeys(keys))
        wanted = [key for key in distinct if key and self._can_name(key)]
        outcomes = {key: DeleteOutcome(key, "not_addressable") for key in set(distinct).difference(wanted)}
        if wanted:
            self._prepare()
            loop = DeleteLoop[str](
                self._send, self.CODES, str, self._rate, self._sleep, bool(self._versioned)
            )
            outcomes |= loop.delete(self._batches(wanted), may_send, self._options.delete_requests)
        return [outcomes[key] for key in keys]

    @abstractmethod
    def _can_name(self, key: str) -> bool:
        """Whether the store can be asked for exactly this key."""

    @abstractmethod
    def _prepare(self) -> None:
        """Learn what must be known before the first request."""

    def _batches(self, keys: list[str]) -> list[list[str]]:
        """Share keys out to requests."""
        return [keys[start : start + self.BATCH_KEYS] for start in range(0, len(keys), self.BATCH_KEYS)]

    @abstractmethod
    def _send(self, keys: list[str], may_send: MaySend) -> Sequence[DeleteOutcome]:
        """Make one attempt at some keys; see `DeleteLoop`."""


def all_failed(keys: Iterable[str], code: str, message: str = "") -> list[DeleteOutcome]:
    """The outcomes of a request that failed as a whole."""
    return [DeleteOutcome(key, "failed", code, message) for key in keys]
