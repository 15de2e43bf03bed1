"""Threads, locks, events and pools as actors: replacements of `threading` and `concurrent.futures` in a history.

A thread is an actor of its starting process. A pool does the work in its caller, at once and in order: interleavings of
threads of the same step are not tried here, those of processes are.
"""

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self

from tests.simulation.scheduler import Actor, Scheduler


class _Outside:
    name = "outside"


class Threads:
    """Replaces the module `threading` in the product's modules; made for one scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.Thread = _bound(Thread, scheduler)
        self.Event = _bound(Event, scheduler)
        self.Lock = _bound(Lock, scheduler)
        self.RLock = _bound(Lock, scheduler)
        self.BoundedSemaphore = lambda _count=1: Lock(scheduler)  # as tight as can be
        self.current_thread = lambda: scheduler.current or _Outside


def _bound[T](kind: Callable[..., T], scheduler: Scheduler) -> Callable[..., T]:
    return lambda *arguments, **more: kind(scheduler, *arguments, **more)


class Thread:
    """A thread of its starting process; outside of all actors it is done before `start` returns."""

    def __init__(
        self,
        scheduler: Scheduler,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str = "thread",
        args: Iterable[Any] = (),
        *,
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._target = target
        self._args = tuple(args)
        self._actor: Actor | None = None
        self.name = name

    def start(self) -> None:
        current = self._scheduler.current
        if current is None:
            self._run()
            return
        process = current.process
        self._actor = self._scheduler.spawn(f"{process.name}/{self.name}", self._run, process)

    def join(self, timeout: float | None = None) -> None:
        actor = self._actor
        if actor is not None and actor.process.alive:
            self._scheduler.join(actor, timeout)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.ended

    def _run(self) -> None:
        if self._target is not None:
            self._target(*self._args)


class Event:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiting: list[Actor] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self._scheduler.wake(actor)

    def wait(self, timeout: float | None = None) -> bool:
        current = self._scheduler.current
        if not self._set and current is not None:
            self._waiting.append(current)
            self._scheduler.park(timeout)
        return self._set


class Lock:
    """A reentrant lock for actors. Outside of all actors it is open."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Actor | None = None
        self._count = 0
        self._waiting: list[Actor] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = self._scheduler.current
        while self._owner is not None and self._owner is not me and not self._owner.ended:
            if not blocking or me is None:
                return me is None
            self._waiting.append(me)
            self._scheduler.park()
        self._owner = me
        self._count += 1
        return True

    def release(self) -> None:
        self._count -= 1
        if self._count <= 0:
            self._owner, self._count = None, 0
            waiting, self._waiting = self._waiting, []
            for actor in waiting:
                self._scheduler.wake(actor)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class Future[T]:
    def __init__(self, scheduler: Scheduler) -> None:
        self._ready = Event(scheduler)
        self._result: T | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._ready.is_set()

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False

    def set_result(self, result: T) -> None:
        self._result = result
        self._ready.set()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._ready.set()

    def exception(self) -> BaseException | None:
        self._ready.wait()
        return self._error

    def result(self, timeout: float | None = None) -> T:
        self._ready.wait(timeout)
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


def wait_all(futures: Iterable[Future[Any]]) -> None:
    """Wait for some results, also failed ones."""
    for future in futures:
        future.exception()


class Pool:
    """Does submitted work at once, in the caller."""

    def __init__(self, scheduler: Scheduler, *_arguments: object, **_more: object) -> None:
        self._scheduler = scheduler

    def submit(self, fn: Callable[..., Any], *args: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future(self._scheduler)
        try:
            future.set_result(fn(*args, **more))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, fn: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        return map(fn, *items)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass
