"""The world of the trash cleaner: several repositories on several servers, the cleaner beside them, and weather."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from dredge.errors import DredgeError, UnavailableError
from dredge.trash.findings import TrashLimits
from lakefs_embedded.catalog import Catalog, Settings
from lakefs_embedded.refs.repositories import LifeCycle
from tests.simulation.clock import HOUR, Clock
from tests.simulation.history import Move, Scene, Simulation, Violation, World
from tests.simulation.kv import DoorKV, WatchedKV
from tests.simulation.lakefs import Server, make_settings
from tests.simulation.trash.cleaner import TASKS, Cleaner, Run
from tests.simulation.trash.disasters import Disasters
from tests.simulation.trash.drawing import draw_moves
from tests.simulation.trash.moves import VERBS, Users
from tests.simulation.trash.named import read_named
from tests.simulation.trash.oracle import IN_DELETION, Oracle
from tests.simulation.trash.rows import DoorRows, FreezingKV
from tests.simulation.trash.scenes import SCENES

SETTINGS: Mapping[str, Sequence[Any]] = {
    "life cycle": ("lakefs", "lakefs", "step-1", "step-2"),
    "snapshots": (True, False),
    "limit": (1_000_000, 1_000_000, 3),
}
"""Parts of the setting available to a focus, and their values."""
FROZEN_SECONDS_MAX = 60 * HOUR
QUIET_HOURS = (49.0, *[25.0] * 5)
"""Time until each run in the end: the first only records the old trash."""


@dataclass
class TrashScene(Scene):
    """A key-value store with its servers, their users, and the cleaner."""

    simulation: Simulation
    kv: WatchedKV
    servers: list[Server]
    users: Users
    cleaner: Cleaner
    oracle: Oracle
    clocks: list[Clock]
    disasters: Disasters
    requests: int = 0
    frozen: int = 0
    servers_gone: list[Server] = field(default_factory=list)
    last: Run | None = None

    def moves(self) -> Mapping[str, Callable[..., Any]]:
        return {
            **self.users.moves(VERBS),
            "pace": self._begin,
            "run": self.cleaner.start,
            "again": self.cleaner.again,
            "by hand": self.cleaner.by_hand,
            "restore": self.cleaner.restore,
            "unqueue": self.cleaner.unqueue,
            "frozen": self._freeze,
            **self.disasters.verbs,
        }

    def serve(self, ask: Callable[[Catalog], Any]) -> Any:
        self.requests += 1
        return self._serve(ask, self.servers[self.requests % len(self.servers)])

    def _freeze(
        self,
        verb: str,
        args: tuple[Any, ...],
        call: str,
        number: int,
        seconds: float,
        ahead: float,
        moment: tuple[str, str, int] | tuple[()],
    ) -> None:
        self.frozen += 1
        first = self.servers[0]
        doors = self.simulation.doors

        def freeze() -> None:
            if seconds > 0:
                self.simulation.scheduler.wait(seconds)
            else:
                self.cleaner.rows.wait_for_deletion(round(-seconds), FROZEN_SECONDS_MAX)
            if moment:
                doors.await_call(*moment, FROZEN_SECONDS_MAX)

        kv: Any = FreezingKV(self.kv, call, number, freeze)
        clock = replace(first.clock, offset=first.clock.offset + ahead)
        server = Server(f"frozen{self.frozen}", kv, doors, clock, first.settings)
        self.servers_gone.append(server)
        kv.arm()
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
        """Repair everything, end the servers' unfinished work, and run the cleaner with a day between."""
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
        self.cleaner.acknowledge()
        waits = list(QUIET_HOURS)
        for number, hours in enumerate(waits):
            scheduler.wait(hours * HOUR)
            before = self.oracle.rows_deleted
            run = self.last = self.cleaner.start(f"rest{number}")
            if self.disasters.refusable and any("WitnessError" in error for error in run.errors):
                self.disasters.accept()
                waits += QUIET_HOURS
                continue
            self._look_at(run.errors, number)
            if run.errors:  # the next one does what this one should have
                waits.append(QUIET_HOURS[-1])
            if run.report is not None and run.report.rows_removed != self.oracle.rows_deleted - before:
                self.simulation.violate(
                    "figures",
                    f"{run.report.rows_removed} rows by the report, {self.oracle.rows_deleted - before} in truth",
                )

    def check(self) -> None:
        self.oracle.check_put_back()
        assert self.last is not None
        report = self.last.report
        assert report is not None
        self.oracle.check_trash(report)
        self._check_whole()

    def _begin(self, pace: float) -> None:
        doors = self.simulation.doors
        doors.pace = {"dag": pace, "hand": pace, "server": min(pace, 0.05), "client": min(pace, 0.05)}

    def _look_at(self, errors: Sequence[str], number: int) -> None:
        told = [error for error in errors if not (number == 0 and "NamedAgainError" in error)]
        if told:
            self.simulation.violate("peace", f"a run in peace ends with {told}")

    def _end_deletions(self) -> None:
        for life in list(read_named(self.kv).lives.values()):
            if life.state == IN_DELETION:
                self.users.make("delete", (life.name,))
            elif life.state:
                self.simulation.scheduler.wait(180.0)
                self.users.make("upload", (life.name, "main", "x"))
                self.users.make("delete", (life.name,))

    def _check_whole(self) -> None:
        if self.disasters.torn:
            return
        catalog = self.servers[0].catalog
        for repository in catalog.repositories.list_repositories(amount=1000).results:
            name = repository.name
            if repository.state != "active" or repository.partition in self.disasters.damaged:
                continue
            for branch in catalog.branches.list_branches(name, show_hidden=True).results:
                try:
                    catalog.commits.log(name, branch.name)
                    catalog.reading.list_entries(name, branch.name)
                except DredgeError as error:
                    raise Violation("broken", f"{name}, branch {branch.name}: {error!r}") from error


class TrashWorld(World):
    name = "trash"
    steps = TASKS
    hours_max = 24.0 * 21  # peace begins again after the acceptance of the restored store
    scenes = SCENES
    settings = SETTINGS

    def draw(self, chance: random.Random) -> list[Move]:
        return draw_moves(chance, self.focus)

    def build(self, simulation: Simulation) -> TrashScene:
        chance = simulation.chance("setting")

        def draw(name: str) -> Any:
            return self.focus.draw(chance, SETTINGS, name)

        scheduler, kv = simulation.scheduler, WatchedKV()
        kv.set(b"kv-internal-metadata", b"kv/schema/version", b"4")
        oracle = Oracle(simulation, kv)
        kv.on_change = oracle.on_change
        simulation.stores.bucket("ops").on_put = oracle.on_put
        servers = _servers(simulation, chance, kv, draw("life cycle"))
        store_clock = Clock(
            lambda: scheduler.now, offset=chance.choice((0.0, 0.0, -120.0, 150.0)), whole_seconds=True
        )
        dynamo = not draw("snapshots")
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
        off = (0.0, 0.0, -60.0, 100.0) if no_clock else (*(0.0,) * 8, -100.0, 150.0, 7200.0)
        clocks = [Clock(lambda: scheduler.now, offset=chance.choice(off)) for _ in range(3)]
        limits = TrashLimits(rows=draw("limit"))
        cleaner = Cleaner(simulation, rows, clocks, limits)
        oracle.approved, oracle.looked, oracle.read = cleaner.approved, rows.looked, rows.read
        cleaner.on_report = oracle.check_put_back_by
        users = Users(scheduler, DoorKV(kv, simulation.doors), lambda ask: scene.serve(ask))
        disasters = Disasters(simulation, kv, oracle, servers=servers)
        scene = TrashScene(simulation, kv, servers, users, cleaner, oracle, clocks, disasters)
        return scene


def _servers(
    simulation: Simulation, chance: random.Random, kv: WatchedKV, life_cycle: LifeCycle
) -> list[Server]:
    settings = make_settings(
        Settings(life_cycle=life_cycle, branch_cache=timedelta(seconds=chance.choice((0.0, 0.5))))
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
