"""Every call through a door is a point for another actor to move, for the process to die, and for weather to strike.

    doors.call("kv", "set_if", lambda: store.set_if(...), faults)

The call waits for its latency first, so earlier actors are served before it. Then the operation is done or not, and its
answer arrives or not. Outside of actors (while a scene is set up or checked) a door is just open.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dredge.errors import UnavailableError
from tests.simulation.noise import mix, unit
from tests.simulation.scheduler import Actor, Killed, Process, Scheduler
from tests.simulation.weather import Door, Weather

SLOW = 40.0
"""Factor of a slow call's time."""
SLOWER = ("slow", "slow server")
"""Kinds of weather with a delayed call."""


@dataclass(frozen=True)
class Accident:
    """A planned accident: the first such process dies or falls asleep at its n-th call."""

    process: str  # beginning of its name
    call: int  # from 1
    sleep_seconds: float = 0.0  # 0 kills


@dataclass
class Trigger:
    """Wakes a process right before a call is done."""

    # of the process that calls; or the last word of the actor's name, which for servers is what they serve
    role: str
    name: str  # of the call; after a space a part of its subject
    left: int  # calls until then, that one included
    actor: Actor  # the woken process
    caller: Actor | None = None  # who makes the call


type Deed[T] = Callable[[], T]
type Fault[T] = Callable[[Deed[T]], T]
"""Applies a kind of weather to an operation: raises before it, after it, or changes its answer."""


@dataclass
class Doors:
    scheduler: Scheduler  # who runs
    weather: Weather = field(default_factory=Weather)  # what strikes
    # mean latency of a call in seconds, by the beginning of the name of its process
    pace: dict[str, float] = field(default_factory=dict)
    haste: float = 1.0  # by which clients' requests take less time than what servers do for long; 1 is none
    accidents: list[Accident] = field(default_factory=list)  # the planned accidents
    triggers: list[Trigger] = field(default_factory=list)  # who waits for which call
    calls: int = 0
    kills: int = 0
    sleeps: int = 0
    asleep: list[Process] = field(default_factory=list)  # processes that fell asleep
    # seconds of delay of the next call
    late: dict[Actor, float] = field(default_factory=dict)

    def call[T](
        self, door: Door, name: str, deed: Deed[T], faults: Mapping[str, Fault[T]], what: str = ""
    ) -> T:
        scheduler = self.scheduler
        actor = scheduler.current
        if actor is None:
            return deed()
        process, actor.asked = actor.process, scheduler.now
        process.calls += 1
        self.calls += 1
        draw = mix(process.hash, process.calls)
        roles = process.role, actor.name.rpartition(" ")[2].partition("#")[0]
        if self.triggers and self._trigger(roles, name, what, actor):
            scheduler.wait(0.0)  # the woken process runs first: its weather strikes this call already
        self._accident(process)
        struck = self.weather.strikes(door, name, scheduler.now, draw, process.role)
        latency = self._latency(process, draw) * (SLOW if struck in SLOWER else 1)
        scheduler.wait(latency * (self.haste if " for " in actor.name else 1) + self.late.pop(actor, 0.0))
        scheduler.note(f"{process.name} {door} {name} {what}{f'  [{struck}]' if struck else ''}")
        if not struck:
            return deed()
        return deed() if struck in SLOWER or not faults else faults[struck](deed)

    def _latency(self, process: Process, draw: int) -> float:
        pace = next((pace for name, pace in self.pace.items() if process.name.startswith(name)), 0.01)
        return -math.log(1 - unit(mix(draw, 1))) * pace

    def await_call(self, role: str, name: str, number: int, seconds: float) -> Actor | None:
        """Wait until the n-th such call from now on is about to be done (called by actors); returns the caller."""
        assert self.scheduler.current is not None, "only actors wait"
        trigger = Trigger(role, name, number, self.scheduler.current)
        self.triggers.append(trigger)
        self.scheduler.park(seconds)
        if trigger in self.triggers:
            self.triggers.remove(trigger)
        return trigger.caller

    def faint(self, process: Process, seconds: float) -> None:
        self.sleeps += 1
        process.pause(seconds)
        self.asleep.append(process)

    def suspend(self, process: Process, seconds: float) -> None:
        """Put a whole machine to sleep: the process, and all with the same first word in their names."""
        first = process.name.partition(" ")[0]
        for found in dict.fromkeys(actor.process for actor in self.scheduler.living):
            if found.name.partition(" ")[0] == first:
                self.faint(found, seconds)

    def give_up(self, process: Process) -> None:
        """Let a process count as lost while it continues, without a connection to others."""
        process.give_up()

    def rouse(self, name: str) -> None:
        for process in [found for found in self.asleep if found.name.startswith(name)]:
            self.asleep.remove(process)
            process.rouse()

    def _trigger(self, roles: tuple[str, ...], name: str, what: str, caller: Actor) -> bool:
        woken = False
        for trigger in list(self.triggers):
            wanted, _, about = trigger.name.partition(" ")
            if wanted == name and about in what and trigger.role in roles:
                trigger.left -= 1
                if trigger.left == 0:
                    self.triggers.remove(trigger)
                    trigger.caller = caller
                    self.scheduler.wake(trigger.actor)
                    woken = True
        return woken

    def _accident(self, process: Process) -> None:
        for accident in list(self.accidents):
            if accident.call != process.calls or not process.name.startswith(accident.process):
                continue
            self.accidents.remove(accident)  # the next try of the same work may live
            if accident.sleep_seconds:
                self.faint(process, accident.sleep_seconds)
            else:
                self.kills += 1
                process.kill()
                raise Killed(process.name)


def not_done(words: str) -> Fault[object]:

    def fault(_deed: Deed[object]) -> object:
        raise UnavailableError(f"{words} (not done)")

    return fault


def answer_lost(words: str) -> Fault[object]:
    def fault(deed: Deed[object]) -> object:
        deed()
        raise UnavailableError(f"{words} (done, answer lost)")

    return fault
