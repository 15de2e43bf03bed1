"""Kills a run in memory at any of its writes and deletes, or keeps the state after such a kill."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

from tests.support.memory_store import MemoryDeleter, MemoryStore
from tests.support.stand_ins import standing_in

type Objects = dict[str, tuple[bytes, datetime]]


class Killed(BaseException):
    """The process has died."""


@contextmanager
def killed_at(number: int) -> Iterator[list[int]]:
    """Kill the process right before one of its writes and deletes, or right after a delete; returns their number."""
    count = [0]

    def tick() -> None:
        count[0] += 1
        if count[0] == number:
            raise Killed

    with _at_every_write(tick):
        yield count


@contextmanager
def at_writes_of(part: str, act: Callable[[], None]) -> Iterator[None]:
    """Call a function before each write of an object with this text in its key."""

    def write(honest, store, key, *rest, **more):  # type: ignore[no-untyped-def]
        if part in key:
            act()
        return honest(store, key, *rest, **more)

    with standing_in(MemoryStore.write, write):
        yield


def before_first_write_of(part: str, act: Callable[[], object]) -> AbstractContextManager[None]:
    """Call a function once, before an object with this text in its key is written."""
    left = [act]

    def once() -> None:
        if left:
            left.pop()()

    return at_writes_of(part, once)


def failing_writes(part: str, error: BaseException) -> AbstractContextManager[None]:
    def fail() -> None:
        raise error

    return at_writes_of(part, fail)


@contextmanager
def kept_at_every_write(store: MemoryStore) -> Iterator[list[Objects]]:
    """Return the store's content right before each write and delete, and right after each delete."""
    states: list[Objects] = []

    def keep() -> None:
        with store.lock:
            states.append(dict(store.objects))

    with _at_every_write(keep):
        yield states


@contextmanager
def _at_every_write(act: Callable[[], None]) -> Iterator[None]:

    def write(honest, *arguments, **more):  # type: ignore[no-untyped-def]
        act()
        return honest(*arguments, **more)

    def delete(honest, *arguments):  # type: ignore[no-untyped-def]
        act()
        done = honest(*arguments)
        act()
        return done

    with standing_in(MemoryStore.write, write), standing_in(MemoryDeleter.delete, delete):
        yield
