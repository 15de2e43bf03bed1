"""Who runs next: actors as greenlets of one thread, woken in the order of virtual time.

    scheduler = Scheduler()
    worker = Process("worker", scheduler)
    scheduler.spawn("a", body, worker)
    scheduler.run(until=3600)

An actor runs until it waits (`wait`, or a door, an event, a lock, all of which wait); then the one with the earliest
time runs, and the time jumps there. Only this moves the time. Actors belong to a process: killing it ends all of them
at their wait, pausing it lets all of them oversleep.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import greenlet

from tests.simulation.clock import Clock
from tests.simulation.noise import chance_of, stable_hash


class Killed(BaseException):
    """The process has died; only the scheduler may catch this."""


class Process:
    """A process of some machine: its actors die together, and share a clock."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        clock: Clock | None = None,
        role: str = "",
        begun: float | None = None,
        may_fail: bool = False,
    ) -> None:
        self.name = name
        self.begun = scheduler.now if begun is None else begun
        self.scheduler = scheduler
        self.clock = clock or Clock(lambda: scheduler.now)
        self.role = role or name
        self.may_fail = may_fail
        self.alive = True
        self.paused_until = 0.0
        self.given_up = False
        self.calls = 0
        self.hash = stable_hash(scheduler.seed, name)
        self.actors: dict[Actor, None] = {}

    def kill(self) -> None:
        """End the process: its actors get `Killed` at their waits, the running one at its next door."""
        if not self.alive:
            return
        self.alive = False
        self.scheduler.note(f"{self.name} is killed")
        for actor in list(self.actors):
            if actor is not self.scheduler.current:
                self.scheduler.wake(actor)

    def pause(self, seconds: float) -> None:
        """Let no actor of the process run for a while."""
        self.scheduler.note(f"{self.name} sleeps for {seconds:.0f} s")
        self.paused_until = max(self.paused_until, self.scheduler.now + seconds)

    def give_up(self) -> None:
        """Let waiting processes take it for lost, while it continues."""
        self.scheduler.note(f"{self.name} is given up")
        self.given_up = True
        for actor in self.actors:
            for waiter in actor.waiters:
                self.scheduler.wake(waiter)

    def rouse(self) -> None:
        """Wake its actors now, before the end of their sleep."""
        if self.alive and self.paused_until > self.scheduler.now:
            self.scheduler.note(f"{self.name} is woken")
            self.paused_until = self.scheduler.now
            self.scheduler.hasten(self)


@dataclass(eq=False)
class Actor:
    name: str  # for the trace
    process: Process  # whose clock and life it shares at the moment
    chance: random.Random
    glet: greenlet.greenlet
    result: object = None  # what its body returned, once it has ended
    error: BaseException | None = None  # what its body raised
    ended: bool = False  # whether it has
    asked: float = 0.0  # when it began the call that it is making, or made last, through a door
    wakes: int = 0
    ticket: int = 0
    waiters: list[Actor] = field(default_factory=list)


class Scheduler:
    def __init__(self, seed: int = 0, trace: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.now = 0.0
        self.current: Actor | None = None
        self._trace = trace
        self._heap: list[tuple[float, int, int, Actor]] = []
        self._order = itertools.count()
        self._hub: greenlet.greenlet | None = None
        self._names: dict[str, int] = {}
        self._living: dict[Actor, None] = {}
        self.setup_chance = chance_of(seed, "setup")
        self.stopped = False
        self.error: BaseException | None = None

    def note(self, line: str) -> None:
        if self._trace is not None:
            self._trace(f"{self.now:.6f} {line}")

    def spawn(
        self, name: str, body: Callable[[], object], process: Process, at: float | None = None
    ) -> Actor:
        count = self._names[name] = self._names.get(name, 0) + 1
        unique = name if count == 1 else f"{name}#{count}"
        actor = Actor(unique, process, chance_of(self.seed, "actor", unique), greenlet.greenlet(lambda: None))
        actor.glet = greenlet.greenlet(lambda: self._live(actor, body))
        process.actors[actor] = None
        self._living[actor] = None
        self._push(actor, self.now if at is None else at)
        return actor

    def wait(self, seconds: float) -> None:
        """Let time pass for the current actor (called by actors)."""
        actor = self._me()
        self._push(actor, self.now + max(0.0, seconds))
        self._switch(actor)

    def pass_time(self, seconds: float) -> None:
        """Let time pass for the current actor, if there is one."""
        if self.current is not None:
            self.wait(seconds)

    def park(self, seconds: float | None = None) -> bool:
        """Wait until the current actor is woken (called by actors); returns whether it was."""
        actor = self._me()
        before = actor.wakes
        if seconds is not None:
            self._push(actor, self.now + max(0.0, seconds))
        self._switch(actor)
        return actor.wakes > before

    def wake(self, actor: Actor) -> None:
        if not actor.ended:
            actor.wakes += 1
            self._push(actor, self.now)

    def hasten(self, process: Process) -> None:
        """Run the actors of a process as soon as their time has come."""
        for actor in list(process.actors):
            if actor is not self.current:
                self._push(actor, self.now)

    def join(self, actor: Actor, seconds: float | None = None) -> None:
        end = None if seconds is None else self.now + seconds
        me = self._me()
        while not actor.ended and (end is None or self.now < end):
            actor.waiters.append(me)
            self.park(None if end is None else end - self.now)
            if me in actor.waiters:  # an actor that stopped waiting must not be woken from its next wait
                actor.waiters.remove(me)

    def run(self, until: float = float("inf")) -> None:
        """Run until no actor can continue, or the time is over."""
        self._hub = greenlet.getcurrent()
        while self._heap and not self.stopped and self._heap[0][0] <= until:
            at, _, ticket, actor = heapq.heappop(self._heap)
            if actor.ended or ticket != actor.ticket:
                continue
            if actor.process.alive and actor.process.paused_until > at:
                self._push(actor, actor.process.paused_until)
                continue
            self.now = max(self.now, at)
            self._resume(actor)

    def stop(self, error: BaseException) -> None:
        """End the history: an actor has found a broken rule; the first such error counts."""
        self.error = self.error or error
        self.stopped = True

    @property
    def process(self) -> Process:
        """The running process; outside of all actors one without a name."""
        return Process("", self) if self.current is None else self.current.process

    @property
    def living(self) -> list[Actor]:
        """Actors before their end."""
        return list(self._living)

    @property
    def idle(self) -> bool:
        """Whether no actor can continue."""
        return not any(not actor.ended and ticket == actor.ticket for _, _, ticket, actor in self._heap)

    def close(self) -> None:
        """End all actors at once."""
        self._hub = greenlet.getcurrent()
        self.stopped = True
        while self._living:
            for actor in list(self._living):
                actor.process.alive = False
                self._resume(actor)
        self._heap.clear()

    def _me(self) -> Actor:
        assert self.current is not None, "only actors wait"
        return self.current

    def _live(self, actor: Actor, body: Callable[[], object]) -> None:
        try:
            if not actor.process.alive:
                raise Killed(actor.name)
            actor.result = body()
        except Killed as error:
            actor.error = error
        except BaseException as error:
            actor.error = error
            if not actor.process.may_fail:
                self.stop(error)
        finally:
            actor.ended = True
            actor.process.actors.pop(actor, None)
            self._living.pop(actor, None)
            for waiter in actor.waiters:
                self.wake(waiter)

    def _resume(self, actor: Actor) -> None:
        actor.glet.parent = greenlet.getcurrent()
        self.current = actor
        try:
            actor.glet.switch()
        finally:
            self.current = None

    def _switch(self, actor: Actor) -> None:
        if not actor.process.alive:
            raise Killed(actor.name)
        assert self._hub is not None
        self.current = None
        self._hub.switch()
        self.current = actor
        if not actor.process.alive:
            raise Killed(actor.name)

    def _push(self, actor: Actor, at: float) -> None:
        actor.ticket += 1  # earlier entries no longer count
        heapq.heappush(self._heap, (at, next(self._order), actor.ticket, actor))
