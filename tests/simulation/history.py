"""A history: moves drawn from a seed, and their outcome.

    outcome = play(GcWorld(), seed=17)                  # draw the moves and make them
    outcome = play(GcWorld(), seed=17, only=[3, 8])     # the same without all others
    print(outcome.tale())

A *world* draws the moves of a seed, builds the scene, makes the moves, settles it and checks it. The moves of a seed
never depend on the execution, so any of them can be left out: this allows to shrink and to repeat a failing history.
"""

from __future__ import annotations

import hashlib
import random
import shlex
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn
from unittest import mock

from dredge.errors import DefectError, DredgeError
from dredge.runs import failures
from tests.simulation.doors import Accident, Doors
from tests.simulation.focus import ANYTHING, Focus
from tests.simulation.machine import installed, real_seconds
from tests.simulation.noise import chance_of
from tests.simulation.scheduler import Actor, Killed, Process, Scheduler
from tests.simulation.stores import Stores

WHEN_SECONDS = 2 * 86_400.0
"""Maximum wait of a move for its moment."""
OF_THE_BASE = ("weather", "kill", "sleep", "when", "each", "faint", "suspend", "dawdle", "give up", "wake")
"""Verbs of the base, not available to worlds."""


@dataclass(frozen=True)
class Move:
    # true seconds after the beginning; negative is the past, which is made one after the other and in peace
    at: float
    verb: str  # what; those `OF_THE_BASE` are the base's own, others the world's
    # of the verb. `when` has role and name of a call, its number, and verb and arguments of a move, which is made
    # in the moment in which that call is about to be done, the n-th from the move's own time on. `each` does so
    # at every n-th call, and has after the number how often. As such a move, `faint` lets the process that makes
    # the call sleep for some seconds, `suspend` that and all of its run, as if their machine was suspended,
    # `dawdle` lets this one call take so much longer, and `give up` lets that process be taken for lost and tried
    # again while it continues. `wake` wakes sleeping processes, by the beginning of their names
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        hours, rest = divmod(abs(self.at), 3600)
        when = f"{'-' if self.at < 0 else '+'}{int(hours):3d}:{int(rest // 60):02d}:{rest % 60:05.2f}"
        return f"{when}  {self.verb} {', '.join(map(repr, self.args))}".rstrip()


class Violation(AssertionError):
    """A broken rule. An actor reports it by `Simulation.violate`."""

    def __init__(self, rule: str, words: str) -> None:
        super().__init__(f"{rule}: {words}")
        self.rule = rule
        self.words = words


class Scene:
    simulation: Simulation

    def moves(self) -> Mapping[str, Callable[..., Any]]:
        raise NotImplementedError

    def make(self, move: Move) -> None:
        """Make a move of the world; called by an actor, or outside of all for moves of the past."""
        self.moves()[move.verb](*move.args)

    def process_of(self, move: Move) -> Process:
        return Process(f"client {move.verb}", self.simulation.scheduler, role="client")

    def settle(self) -> None:
        """Let everything end in peace, after the last move (called by an actor)."""

    def check(self) -> None:
        """Check the end state; raises `Violation` (called outside of all actors)."""


class Client:
    """Makes each move by the method of its verb; a refusal of the server ends it."""

    scheduler: Scheduler
    refused: int = 0  # moves that ended so
    refusals: ClassVar[tuple[type[Exception], ...]] = (DredgeError,)

    def make(self, verb: str, args: tuple[Any, ...]) -> None:
        try:
            getattr(self, "_" + verb.replace(" ", "_").replace("-", "_"))(*args)
        except self.refusals as error:
            self.scheduler.note(f"{verb}: {type(error).__name__} {error}"[:200])
            self.refused += 1

    def moves(self, verbs: Iterable[str]) -> dict[str, Callable[..., None]]:
        return {verb: lambda *args, verb=verb: self.make(verb, args) for verb in verbs}


@dataclass
class World:
    focus: Focus = ANYTHING  # what its histories have more often than others
    name: ClassVar[str]  # for the command line
    steps: ClassVar[Sequence[str]] = ()  # that moves may meet
    hours_max: ClassVar[float]  # virtual hours after which everything must have come to its end by itself
    scenes: ClassVar[Mapping[str, object]] = {}  # that a focus may name, by name
    # parts of the setting that a focus may name, by name: the values that are drawn
    settings: ClassVar[Mapping[str, Sequence[Any]]] = {}
    # whether the product runs as a whole, so that its time, chance and threads are the history's
    installs: ClassVar[bool] = True

    def draw(self, chance: random.Random) -> list[Move]:
        raise NotImplementedError

    def build(self, simulation: Simulation) -> Scene:
        """Build the scene; its setting comes from `simulation.chance("...")`, never from the moves."""
        raise NotImplementedError


@dataclass
class Simulation:
    seed: int  # of the history
    scheduler: Scheduler  # who runs
    doors: Doors  # the moves between them
    stores: Stores  # all buckets
    states: Counter[str] = field(default_factory=Counter)  # kinds of states that were seen, for figures

    @classmethod
    def make(cls, seed: int, trace: Callable[[str], None] | None = None) -> Simulation:
        scheduler = Scheduler(seed, trace)
        doors = Doors(scheduler)
        return cls(seed, scheduler, doors, Stores(doors))

    def violate(self, rule: str, words: str) -> NoReturn:
        """Report a broken rule: the history ends here, even if the product catches errors."""
        self.scheduler.stop(Violation(rule, words))
        raise Killed(rule)

    @contextmanager
    def refusing_defects(self) -> Iterator[None]:
        """Report errors not foreseen by the product, even if it continues."""
        real = failures.defect

        def defect(what: str, error: BaseException, where: str = "") -> DefectError:
            if isinstance(error, Exception) and self.scheduler.current is not None:
                places = "".join(traceback.format_tb(error.__traceback__)[-4:])
                self.violate("defect", f"{what} ends with {error!r}\n{places}")
            return real(what, error, where)

        with mock.patch.object(failures, "defect", defect):
            yield

    def chance(self, *names: object) -> random.Random:
        return chance_of(self.seed, *names)


@dataclass
class Outcome:
    world: str
    seed: int
    moves: list[tuple[int, Move]]  # those that were made, with their numbers
    drawn: int
    focus: Focus = ANYTHING
    digest: str = ""  # of everything that happened
    error: BaseException | None = None  # the first violation, or an error of the simulator itself
    trace: list[str] = field(default_factory=list)  # the last lines, when they were kept
    figures: Counter[str] = field(default_factory=Counter)  # counts
    struck: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    real_seconds: float = 0.0

    @property
    def rule(self) -> str:
        """The broken rule; "" for none, the error's name for another failure."""
        if self.error is None:
            return ""
        return self.error.rule if isinstance(self.error, Violation) else type(self.error).__name__

    @property
    def violated(self) -> bool:
        """Whether a rule was broken; an error of the simulator itself is none."""
        return isinstance(self.error, Violation)

    def command(self) -> str:
        only = ",".join(str(number) for number, _ in self.moves)
        short = f" --only {only or 'none'}" if len(self.moves) < self.drawn else ""
        focus = f" --focus {shlex.quote(self.focus.to_text())}" if self.focus else ""
        return f"./run simulate --world {self.world} --seed {self.seed} --one{short}{focus}"

    def tale(self) -> str:
        lines = [f"world {self.world}, seed {self.seed}: {self.error or 'all is well'}"]
        lines += [f"  {number:4d}  {move}" for number, move in self.moves]
        if self.error is not None and not isinstance(self.error, Violation):
            lines += traceback.format_exception(self.error)
        return "\n".join([*lines, f"repeat: {self.command()}"])


def play(world: World, seed: int, only: Collection[int] | None = None, keep_trace: int = 0) -> Outcome:
    began = real_seconds()
    drawn = sorted(world.draw(chance_of(seed, world.name, "moves")), key=lambda move: move.at)
    moves = [(number, move) for number, move in enumerate(drawn) if only is None or number in only]
    outcome = Outcome(world.name, seed, moves, len(drawn), world.focus)
    digest = hashlib.blake2b(digest_size=16)

    def trace(line: str) -> None:
        digest.update(line.encode("utf-8", "backslashreplace"))
        if keep_trace:
            outcome.trace.append(line)
            if keep_trace > 0:
                del outcome.trace[:-keep_trace]

    simulation = Simulation.make(seed, trace)
    with ExitStack() as stack:
        if world.installs:
            stack.enter_context(installed(simulation.scheduler, simulation.stores))
            stack.enter_context(simulation.refusing_defects())
        try:
            _play(world, simulation, moves)
        except (Exception, Killed) as error:
            outcome.error = simulation.scheduler.error or error
        finally:
            simulation.scheduler.close()
    outcome.digest = digest.hexdigest()
    _count(outcome, simulation)
    outcome.real_seconds = real_seconds() - began
    return outcome


def _play(world: World, simulation: Simulation, moves: Sequence[tuple[int, Move]]) -> None:
    scheduler, doors = simulation.scheduler, simulation.doors
    scene = world.build(simulation)
    for _, move in moves:
        if move.at < 0:
            scheduler.now = max(scheduler.now, _past(moves) + move.at)
            scene.make(move)
    began = scheduler.now = max(scheduler.now, _past(moves))
    last = began
    for number, move in moves:
        if move.at < 0:
            continue
        at = began + move.at
        if not _base(doors, move, at):
            last = max(last, at)
            _make(simulation, scene, number, move, at)
    _run(scheduler, last - began + world.hours_max * 3600)
    doors.weather.clear()
    doors.accidents.clear()
    rest = scheduler.spawn("rest", scene.settle, Process("rest", scheduler))
    _run(scheduler, world.hours_max * 3600)
    if not rest.ended:
        raise Violation("ends", "somebody waits for ever")
    scene.check()


def _past(moves: Sequence[tuple[int, Move]]) -> float:
    return max((-move.at for _, move in moves), default=0.0)


def _base(doors: Doors, move: Move, at: float) -> bool:
    if move.verb == "weather":
        kind, seconds, rate = move.args
        doors.weather.add(kind, at, seconds, rate)
    elif move.verb == "kill":
        process, call = move.args
        doors.accidents.append(Accident(process, call))
    elif move.verb == "sleep":
        process, call, seconds = move.args
        doors.accidents.append(Accident(process, call, seconds))
    else:
        return False
    return True


def _make(simulation: Simulation, scene: Scene, number: int, move: Move, at: float) -> None:
    scheduler, due, times = simulation.scheduler, move, 1
    if move.verb == "when":
        due = Move(at, move.args[3], tuple(move.args[4:]))
    elif move.verb == "each":
        times, due = move.args[3], Move(at, move.args[4], tuple(move.args[5:]))

    def body() -> None:
        for _ in range(times):
            caller: Actor | None = None
            if due is not move:
                role, name, count, *_ = move.args
                caller = simulation.doors.await_call(role, name, count, WHEN_SECONDS)
                if caller is None:
                    return
            scheduler.note(f"move {number}: {move}")
            _make_due(simulation, scene, due, caller)

    scheduler.spawn(f"move {number} {due.verb}", body, scene.process_of(due), at)


def _make_due(simulation: Simulation, scene: Scene, due: Move, caller: Actor | None) -> None:
    if due.verb == "weather":
        kind, seconds, rate = due.args
        simulation.doors.weather.add(kind, simulation.scheduler.now, seconds, rate)
    elif due.verb == "give up":
        if caller is not None:
            simulation.doors.give_up(caller.process)
    elif due.verb in ("faint", "suspend", "dawdle"):
        if caller is not None:
            _delay(simulation.doors, due, caller)
    elif due.verb == "wake":
        simulation.doors.rouse(due.args[0])
    else:
        scene.make(due)


def _delay(doors: Doors, due: Move, caller: Actor) -> None:
    (seconds,) = due.args
    if due.verb == "faint":
        doors.faint(caller.process, seconds)
    elif due.verb == "suspend":
        doors.suspend(caller.process, seconds)
    else:
        doors.late[caller] = seconds


def _run(scheduler: Scheduler, seconds: float) -> None:
    scheduler.run(scheduler.now + seconds)
    if scheduler.error is not None:
        raise scheduler.error
    if not scheduler.idle:
        raise Violation("ends", f"no end within {seconds / 3600:g} hours")


def _count(outcome: Outcome, simulation: Simulation) -> None:
    doors = simulation.doors
    outcome.struck, outcome.states = doors.weather.struck, simulation.states
    outcome.figures.update(
        histories=1, moves=len(outcome.moves), calls=doors.calls, kills=doors.kills, sleeps=doors.sleeps
    )
