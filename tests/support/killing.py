"""Kills a run in memory at any of its writes and deletes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dredge.storage import MemoryStore
from dredge.storage.memory import MemoryDeleter


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def killed_at(number: int) -> Iterator[list[int]]:
    """Kill the process right before one of its writes and deletes; gives how many there were."""
    count = [0]
    honest_write, honest_delete = MemoryStore.write, MemoryDeleter.delete

    def tick() -> None:
        count[0] += 1
        if count[0] == number:
            raise Killed

    def write(self, *arguments, **more):  # type: ignore[no-untyped-def]
        tick()
        return honest_write(self, *arguments, **more)

    def delete(self, *arguments):  # type: ignore[no-untyped-def]
        tick()
        done = honest_delete(self, *arguments)
        tick()  # and right after it, before anybody wrote down what happened
        return done

    MemoryStore.write, MemoryDeleter.delete = write, delete  # type: ignore[method-assign]
    try:
        yield count
    finally:
        MemoryStore.write, MemoryDeleter.delete = honest_write, honest_delete  # type: ignore[method-assign]
