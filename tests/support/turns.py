"""Actors that take turns at a key-value store, in an order that the test chooses.

Each actor runs in its own thread on its own view of the store. Before every operation it stops and waits for
its turn, so between two operations of one actor any number of the others' can be put, and a schedule (who
moves next, step by step) decides everything. A schedule that fails is a list to paste back into a test.

    run_turns(store, {"a": commit, "b": upload}, ["a", "a", "b"])     # then the rest in name order

Code under test must not wait for another actor outside the store: give each actor a catalog of its own.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

from dredge.kv import Entry, Store

type Actor = Callable[[Store], object]
WAIT_SECONDS = 30


class Turns:
    """Hands the turn to one actor at a time and waits until it stops again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: set[str] = set()
        self._running: set[str] = set()
        self._granted: str | None = None
        self.taken: list[str] = []

    def begin(self, name: str) -> None:
        """Note that an actor is about to start."""
        self._running.add(name)

    def stop_here(self, name: str) -> None:
        """Wait for the turn (called by actors)."""
        with self._changed:
            self._running.discard(name)
            self._waiting.add(name)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._granted == name, WAIT_SECONDS), (
                f"{name}: no turn came"
            )
            self._granted = None

    def end(self, name: str) -> None:
        """Note that an actor has ended."""
        with self._changed:
            self._running.discard(name)
            self._changed.notify_all()

    def waiting(self) -> list[str]:
        """Wait until no actor runs; give those that wait for a turn."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._running, WAIT_SECONDS), f"{self._running} hang"
            return sorted(self._waiting)

    def grant(self, name: str) -> None:
        """Let one waiting actor do its next operation."""
        with self._changed:
            self._waiting.discard(name)
            self._running.add(name)
            self._granted = name
            self.taken.append(name)
            self._changed.notify_all()


class TurnStore:
    """A view of a store that waits for a turn before each operation. A scan is one operation."""

    def __init__(self, store: Store, before: Callable[[], None]) -> None:
        self._store = store
        self._before = before

    def get(self, partition: bytes, key: bytes) -> bytes:
        self._before()
        return self._store.get(partition, key)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        self._before()
        yield from list(self._store.scan(partition, start))

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        self._before()
        self._store.set(partition, key, value)

    def delete(self, partition: bytes, key: bytes) -> None:
        self._before()
        self._store.delete(partition, key)

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        self._before()
        self._store.set_if(partition, key, value, predicate)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def run_turns(
    store: Store, actors: Mapping[str, Actor], schedule: Sequence[str] | Callable[[list[str]], str]
) -> tuple[dict[str, object], list[str]]:
    """Run actors to their ends.

    Args:
        store: what they share.
        actors: each gets its view of the store; what it returns or raises is its result.
        schedule: names in order of turns (one that does not wait is passed over; at the end the first in name
            order goes on), or a choice among those who wait.

    Returns:
        Results by name, and the turns as they were taken.
    """
    turns = Turns()
    results: dict[str, object] = {}

    def body(name: str, actor: Actor) -> None:
        try:
            results[name] = actor(TurnStore(store, lambda: turns.stop_here(name)))
        except Exception as error:
            results[name] = error
        finally:
            turns.end(name)

    threads = [threading.Thread(target=body, args=item, daemon=True) for item in actors.items()]
    for name in actors:
        turns.begin(name)
    for thread in threads:
        thread.start()
    planned = iter(schedule) if not callable(schedule) else None
    while waiting := turns.waiting():
        if planned is None:
            assert callable(schedule)
            turns.grant(schedule(waiting))
        else:
            turns.grant(next((name for name in planned if name in waiting), waiting[0]))
    for thread in threads:
        thread.join()
    return results, turns.taken


def preempted_schedules(names: Sequence[str], steps: int, switches: int) -> Iterator[list[str]]:
    """All schedules of actors in which the turn changes at most so many times before the rest runs out.

    Args:
        names: the actors.
        steps: the longest run of one actor between two changes.
        switches: changes.
    """
    for order in itertools.permutations(names):
        for lengths in itertools.product(range(1, steps + 1), repeat=switches):
            schedule: list[str] = []
            for turn, length in enumerate(lengths):
                schedule += [order[turn % len(order)]] * length
            # Whoever is next runs to its end, then the others.
            rest = order[switches % len(order) :] + order[: switches % len(order)]
            for name in rest:
                schedule += [name] * 100
            yield schedule


def random_choice(seed: int) -> Callable[[list[str]], str]:
    """A schedule by lot that a seed repeats."""
    return random.Random(seed).choice
