"""The world of the trash cleaner: several repositories on several servers, the cleaner beside them, and weather."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dredge.errors import DredgeError, UnavailableError
from dredge.graveler.catalog import Catalog, Settings
from dredge.trash.margins import TrashLimits
from tests.simulation.clock import DAY, HOUR, Clock
from tests.simulation.focus import ANYTHING, Focus
from tests.simulation.history import Move, Simulation, Violation
from tests.simulation.kv import DoorKV, WatchedKV
from tests.simulation.lakefs import Server, make_settings
from tests.simulation.scheduler import Process
from tests.simulation.trash.cleaner import TASKS, Cleaner
from tests.simulation.trash.moves import BRANCHES, NAMES, VERBS, Users, draw_move
from tests.simulation.trash.named import read_named
from tests.simulation.trash.oracle import IN_DELETION, Oracle
from tests.simulation.trash.rows import DoorRows, FreezingKV
from tests.simulation.weather import KINDS, pairs_of

BY_PEOPLE = ("run", "again", "by hand", "restore", "unqueue")
WEATHER = tuple(kind.name for kind in KINDS if kind.door in ("kv", "store", "any"))
NOT_A_CLEANERS = ("slow server", "staging cut short", "some keys fail", "some keys fail after all")
"""Weather that no call of the cleaner meets: it deletes rows only."""
FREEZES: dict[str, tuple[tuple[str, int], ...]] = {
    "create": (("set", 1), ("set_if", 1), ("set_if", 2), ("set_if", 2)),
    "reset prefix": (("set", 1), ("set_if", 1), ("set_if", 1), ("set_if", 1)),
    "delete": (("set", 1), ("delete", 1), ("delete", 2), ("delete", 4), ("delete_if", 1), ("set_if", 1)),
    "upload": (("set", 1),),
    "commit": (("set", 1), ("set_if", 1), ("set_if", 2)),
    "delete branch": (("delete", 1), ("set", 1)),
}
"""Before which operation of the store what may freeze."""
FROZEN_SECONDS_MAX = 60 * HOUR
QUIET_HOURS = (49.0, 25.0, 25.0)
"""Until each run in the end: the first only looks at what is old by then."""


def draw_moves(chance: random.Random) -> list[Move]:
    """Draw a history of some days: runs a day or so apart, and moves between and while they are at work."""
    pace = chance.choice((0.02, 0.2, 2.0))
    moves = [Move(0.0, "pace", (pace,))]
    starts = [0.0]
    for _ in range(chance.choice((1, 2, 3, 4))):
        starts.append(starts[-1] + chance.choice((0.0, 0.01, 24.1, 24.1, 25.0, 25.0, 30.0)) * HOUR + 1)
    for number, start in enumerate(starts):
        approval = chance.choice((0.0, 0.0, 0.0, 3 * HOUR, 26 * HOUR))
        args = (f"dag{number}", number > 0 and chance.random() < 0.1, approval)
        moves.append(Move(round(HOUR + start, 3), "run", args))
    work = 150 * pace
    end = HOUR + starts[-1] + 2 * work
    for _ in range(chance.choice((1, 2, 4, 6))):
        moves += _draw_frozen(chance, [HOUR + start for start in starts], work)
    for _ in range(chance.choice((5, 15, 30, 60))):
        at = chance.random() * end
        if chance.random() < 0.5:
            at = HOUR + chance.choice(starts) + chance.random() * 2 * work
        if chance.random() < 0.2:
            at = chance.random() * HOUR
        verb, args = draw_move(chance)
        for _ in range(2 if chance.random() < 0.1 else 1):
            moves.append(Move(round(at, 3), verb, args))
            at += chance.random() * 0.2
    moves += _draw_accidents(chance, len(starts), end)
    return moves


def _draw_frozen(chance: random.Random, runs: Sequence[float], work: float) -> list[Move]:
    """Draw an operation that freezes, and wakes while a run is at work; often with a life of what it is about."""
    later = chance.choice(runs)
    wakes = later + chance.random() * 1.5 * work
    # Often it froze right before a run that saw its traces a day before.
    days = [run for run in runs if run <= later - 24 * HOUR]
    if days and chance.random() < 0.7:
        began = chance.choice(days) - 60 - chance.random() * 600
    else:
        began = max(60.0, wakes - chance.choice((1.0, 20.0, 24.5)) * HOUR)
    name, branch = chance.choice(NAMES), chance.choice(BRANCHES)
    verb = chance.choice(tuple(FREEZES))
    call, number = chance.choice(FREEZES[verb])
    args = {"create": (name, False), "delete": (name,), "upload": (name, branch, "x/1")}.get(
        verb, (name, branch)
    )
    before = (
        ("create", (name, False)),
        ("create branch", (name, branch, "main")),
        ("upload", (name, branch, "x/1")),
    )
    after: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    if verb == "delete":
        after = (("delete", (name,)), *before, ("commit", (name, branch)))
    elif chance.random() < 0.5:
        after = (("reset", (name, branch)),)
    moves = [
        Move(round(began - 50 + 10 * n, 3), *each)
        for n, each in enumerate(before if verb != "create" else ())
    ]
    seconds = round(wakes - began, 3)
    if chance.random() < 0.5:  # it wakes in the very moment in which something is about to go
        seconds = -float(chance.choice((1, 1, 2, 3, 5)))
    moves.append(Move(round(began, 3), "frozen", (verb, args, call, number, seconds)))
    return moves + [Move(round(began + 20 + 10 * n, 3), *each) for n, each in enumerate(after)]


def _draw_accidents(chance: random.Random, runs: int, end: float) -> list[Move]:
    moves = []
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        begin, seconds = chance.random() * end, chance.random() ** 2 * end
        spell = (chance.choice(WEATHER), round(seconds, 2), chance.choice((0.01, 0.1, 0.5)))
        moves.append(Move(round(begin, 3), "weather", spell))
    for _ in range(chance.choice((0, 1, 2, 4))):
        moves.append(Move(0.0, "kill", (_draw_process(chance, runs), chance.randrange(1, 150))))
    for _ in range(chance.choice((0, 1, 2))):
        seconds = chance.choice((30.0, 400.0, 2 * HOUR, 20 * HOUR, 20 * HOUR, 30 * HOUR, 50 * HOUR))
        moves.append(Move(0.0, "sleep", (_draw_process(chance, runs), chance.randrange(1, 150), seconds)))
    for _ in range(chance.choice((0, 0, 1, 2))):
        at = round(chance.random() * (end + DAY), 3)
        verb = chance.choice(BY_PEOPLE[1:])
        args: dict[str, tuple[Any, ...]] = {
            "again": (f"dag{chance.randrange(runs)}",),
            "by hand": (f"hand{len(moves)}",),
            "restore": (chance.randrange(4),),
        }
        moves.append(Move(at, verb, args.get(verb, ())))
    return moves


def _draw_process(chance: random.Random, runs: int) -> str:
    if chance.random() < 0.5:
        return f"server{chance.randrange(2)}"
    return f"dag{chance.randrange(runs)} {chance.choice(TASKS)}"


@dataclass
class TrashScene:
    """A key-value store with its servers, their users, and the cleaner."""

    simulation: Simulation
    kv: WatchedKV
    servers: list[Server]
    users: Users
    cleaner: Cleaner
    oracle: Oracle
    clocks: list[Clock]
    requests: int = 0
    frozen: int = 0
    servers_gone: list[Server] = field(default_factory=list)

    def process_of(self, move: Move) -> Process:
        return Process(f"client {move.verb}", self.simulation.scheduler, role="client")

    def make(self, move: Move) -> None:
        people: dict[str, Callable[..., Any]] = {
            "pace": self._begin,
            "run": self.cleaner.start,
            "again": self.cleaner.again,
            "by hand": self.cleaner.by_hand,
            "restore": self.cleaner.restore,
            "unqueue": self.cleaner.unqueue,
        }
        if move.verb == "frozen":
            self._freeze(*move.args)
        elif move.verb in people:
            people[move.verb](*move.args)
        else:
            self.users.make(move.verb, move.args)

    def serve(self, ask: Callable[[Catalog], Any]) -> Any:
        """Have a server do something, as a request in its process."""
        self.requests += 1
        return self._serve(ask, self.servers[self.requests % len(self.servers)])

    def _freeze(self, verb: str, args: tuple[Any, ...], call: str, number: int, seconds: float) -> None:
        """Let a server of its own do something, and freeze at one of its calls.

        Args:
            verb: of the move.
            args: of the move.
            call: of the store, before which it freezes.
            number: which of these calls.
            seconds: how long; below 0 until the cleaner is about to do its n-th deletion from then on.
        """
        self.frozen += 1
        first = self.servers[0]
        doors = self.simulation.doors

        def freeze() -> None:
            if seconds > 0:
                self.simulation.scheduler.wait(seconds)
            else:
                self.cleaner.rows.wait_for_deletion(round(-seconds), FROZEN_SECONDS_MAX)

        kv: Any = FreezingKV(self.kv, call, number, freeze)
        server = Server(f"frozen{self.frozen}", kv, doors, first.clock, first.settings)
        self.servers_gone.append(server)
        scheduler = self.simulation.scheduler
        Users(scheduler, DoorKV(self.kv, doors), lambda ask: self._serve(ask, server)).make(verb, args)

    def _serve(self, ask: Callable[[Catalog], Any], server: Server) -> Any:
        scheduler = self.simulation.scheduler
        if not server.process.alive:
            server.start()
            server.catalog.resume()
        assert scheduler.current is not None
        name = f"{server.process.name} for {scheduler.current.name}"
        answers: list[Any] = []
        actor = scheduler.spawn(name, lambda: answers.append(ask(server.catalog)), server.process)
        self.oracle.begun[actor] = scheduler.now
        scheduler.join(actor)
        if isinstance(actor.error, Exception):
            raise actor.error
        if not answers:
            raise UnavailableError("the server is gone")
        return answers[0]

    def settle(self) -> None:
        """Mend everything, end what servers began, and let the cleaner run with a day between."""
        scheduler = self.simulation.scheduler
        for clock in [*self.clocks, *(server.clock for server in self.servers)]:
            clock.offset, clock.drift, clock.jumps = 0.0, 0.0, []
        self.simulation.doors.pace = {}
        self.cleaner.limits = TrashLimits()
        for server in self.servers_gone:
            server.process.kill()
        for server in self.servers:
            server.process.kill()
            server.start()
            server.catalog.resume()
        self._end_deletions()
        self.users.make("create", ("keeper", False))
        for number, hours in enumerate(QUIET_HOURS):
            scheduler.wait(hours * HOUR)
            before = self.oracle.rows_deleted
            run = self.cleaner.start(f"rest{number}")
            self._look_at(run.errors, number)
            if run.report is not None and run.report.rows_removed != self.oracle.rows_deleted - before:
                self.simulation.violate(
                    "figures",
                    f"{run.report.rows_removed} rows by the report, {self.oracle.rows_deleted - before} in truth",
                )

    def check(self) -> None:
        self.oracle.check_put_back()
        report = self.cleaner.runs[f"rest{len(QUIET_HOURS) - 1}"].report
        assert report is not None
        self.oracle.check_trash(report)
        self._check_whole()

    def _begin(self, pace: float) -> None:
        doors = self.simulation.doors
        doors.pace = {"dag": pace, "hand": pace, "server": min(pace, 0.05), "client": min(pace, 0.05)}

    def _look_at(self, errors: Sequence[str], number: int) -> None:
        """A run in peace does its work; the first may find and put back what a frozen operation named."""
        told = [error for error in errors if not (number == 0 and "NamedAgainError" in error)]
        if told:
            self.simulation.violate("peace", f"a run in peace ends with {told}")

    def _end_deletions(self) -> None:
        """Somebody asks again for each deletion that was interrupted, and for each create that failed."""
        for life in list(read_named(self.kv).lives.values()):
            if life.state == IN_DELETION:
                self.users.make("delete", (life.name,))
            elif life.state:
                self.simulation.scheduler.wait(180.0)
                self.users.make("upload", (life.name, "main", "x"))
                self.users.make("delete", (life.name,))

    def _check_whole(self) -> None:
        """Every repository in use is whole for its server."""
        catalog = self.servers[0].catalog
        for repository in catalog.repositories.list_repositories(amount=1000).results:
            name = repository.name
            if repository.state != "active":
                continue
            for branch in catalog.branches.list_branches(name, show_hidden=True).results:
                try:
                    catalog.commits.log(name, branch.name)
                    catalog.reading.list_entries(name, branch.name)
                except DredgeError as error:
                    raise Violation("broken", f"{name}, branch {branch.name}: {error!r}") from error


@dataclass
class TrashWorld:
    """See the module."""

    name: str = "trash"
    steps: Sequence[str] = field(default=TASKS)
    verbs: Sequence[str] = field(default=(*VERBS, *BY_PEOPLE, "frozen"))
    never: Collection[tuple[str, str]] = pairs_of(TASKS, "lakefs", only=NOT_A_CLEANERS)
    hours_max: float = 24.0 * 14
    focus: Focus = ANYTHING
    scenes: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def draw(self, chance: random.Random) -> list[Move]:
        return draw_moves(chance)

    def build(self, simulation: Simulation) -> TrashScene:
        chance = simulation.chance("setting")
        scheduler, kv = simulation.scheduler, WatchedKV()
        kv.set(b"kv-internal-metadata", b"kv/schema/version", b"4")
        oracle = Oracle(simulation, kv)
        kv.on_change = oracle.on_change
        simulation.stores.bucket("ops").on_put = oracle.on_put
        servers = _servers(simulation, chance, kv)
        store_clock = Clock(
            lambda: scheduler.now, offset=chance.choice((0.0, 0.0, -120.0, 150.0)), whole_seconds=True
        )
        dynamo = chance.random() < 0.5
        no_clock = chance.random() < 0.2
        rows = DoorRows(
            store=kv,
            doors=simulation.doors,
            store_clock=None if no_clock else store_clock,
            snapshots=not dynamo,
            page_rows=chance.choice((2, 10, 50)),
            transaction_rows=chance.choice((1, 3, 60)) if dynamo else 1000,
            guards_max=chance.choice((12, 40)) if dynamo else 1000,
            on_delete=oracle.on_delete,
            on_insert=oracle.on_insert,
        )
        off = (0.0, 0.0, -60.0, 100.0) if no_clock else (0.0, 0.0, 0.0, 0.0, -100.0, 150.0, 7200.0)
        clocks = [Clock(lambda: scheduler.now, offset=chance.choice(off)) for _ in range(3)]
        limits = TrashLimits(rows=chance.choice((1_000_000, 1_000_000, 3)))
        cleaner = Cleaner(simulation, rows, clocks, limits)
        oracle.approved = cleaner.approved
        users = Users(scheduler, DoorKV(kv, simulation.doors), lambda ask: scene.serve(ask))
        scene = TrashScene(simulation, kv, servers, users, cleaner, oracle, clocks)
        return scene


def _servers(simulation: Simulation, chance: random.Random, kv: WatchedKV) -> list[Server]:
    settings = make_settings(
        Settings(
            life_cycle=chance.choice(("lakefs", "lakefs", "step-1", "step-2")),
            branch_cache=timedelta(seconds=chance.choice((0.0, 0.5))),
        )
    )
    scheduler = simulation.scheduler
    return [
        Server(
            f"server{number}",
            kv,
            simulation.doors,
            Clock(lambda: scheduler.now, offset=chance.choice((0.0, 0.0, -200.0, 200.0))),
            settings,
        )
        for number in range(2)
    ]
