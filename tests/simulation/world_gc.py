"""The world of the lakeFS collector: one repository, some servers, writers, runs, and all kinds of weather."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from dredge.errors import ConfigError, UnavailableError
from dredge.gc.run import Run
from dredge.graveler.catalog import CATALOG_DEFECTS, Catalog, Settings
from dredge.graveler.committed.store import RangeReader
from dredge.storage.location import parse_uri
from dredge.storage.options import StorageOptions
from tests.simulation.clock import DAY, HOUR, Clock
from tests.simulation.history import Move, Simulation
from tests.simulation.kv import WatchedKV
from tests.simulation.lakefs import OWNER, Server, make_client, make_settings
from tests.simulation.oracle import Oracle
from tests.simulation.orchestrator import STEPS, TASKS, Orchestrator, Workers
from tests.simulation.scheduler import Process
from tests.simulation.stores import SimReader
from tests.simulation.truth import Truth
from tests.simulation.weather import KINDS
from tests.simulation.writers import BRANCHES, CONTENTS, PATHS, VERBS, Writer, draw_write

REPOSITORY, ROOT = "lake", "lake"
NAMESPACE = f"memory://bucket/{ROOT}"
PAST_DAYS = 45
MIN_AGE = timedelta(hours=25)
RUN_CALLS = 400
"""About how many calls of its driver a run takes, one after the other."""
SERVER_DEFECTS = (
    *sorted(CATALOG_DEFECTS - {"repeated_token"}),
    "double_body_prepare_commits",
    "prepare_commits_500_async",
)


class PeacefulReader(SimReader):
    """A reader past all doors."""

    def _call[T](self, name: str, key: str, deed: Callable[[], T]) -> T:
        return deed()


def draw_moves(chance: random.Random) -> list[Move]:
    """Draw a history: a past of some weeks, then some runs with writers and weather around them."""
    moves = _draw_past(chance)
    pace = chance.choice((0.02, 0.02, 0.2, 2.0))
    length = RUN_CALLS * pace
    moves.append(Move(-60.0, "pace", (pace,)))
    starts = _draw_starts(chance, length)
    moves += [Move(at, "run", (f"run{number}", *_draw_run(chance))) for number, at in enumerate(starts)]
    near = partial(_near, chance, starts, length)
    for _ in range(chance.choice((0, 3, 10, 20))):
        moves.append(Move(near(), *draw_write(chance)))
    for _ in range(chance.choice((0, 1, 2, 4))):
        seconds = round(chance.choice((0.03, 0.2, 1.0)) * length, 2)
        kind = chance.choice(KINDS).name
        moves.append(Move(near(), "weather", (kind, seconds, chance.choice((0.02, 0.1, 0.5, 1.0)))))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        moves.append(Move(0.0, "kill", (_process(chance, starts), _call(chance))))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        seconds = chance.choice((30.0, 400.0, 2 * HOUR, 14 * HOUR))
        moves.append(Move(0.0, "sleep", (_process(chance, starts), _call(chance), seconds)))
    if chance.random() < 0.2:
        task = chance.choice(TASKS[:-1])
        moves.append(Move(near() + 3 * HOUR, "clear", (f"run{chance.randrange(len(starts))}", task)))
    return moves


def _draw_starts(chance: random.Random, length: float) -> list[float]:
    """When runs begin: at once, beside each other, or hours and days apart."""
    starts = [0.0]
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        apart = chance.choice((chance.random() * length, 2 * length, length + 2 * HOUR, length + 30 * HOUR))
        starts.append(round(starts[-1] + apart, 3))
    return starts


def _near(chance: random.Random, starts: Sequence[float], length: float) -> float:
    """A time at which some run is at work, most likely."""
    return round(chance.choice(starts) + chance.random() * length * chance.choice((1.0, 1.0, 3.0)), 3)


def _process(chance: random.Random, starts: Sequence[float]) -> str:
    worker = chance.choice(("", "", " task"))
    return f"run{chance.randrange(len(starts))} {chance.choice(TASKS)}{worker}"


def _call(chance: random.Random) -> int:
    return 1 + int(chance.random() ** 2 * 150)


def _draw_past(chance: random.Random) -> list[Move]:
    """Some weeks of work: branches that hold something, then anything."""
    at = -PAST_DAYS * DAY
    moves = [Move(at, "rules", (chance.choice((None, 1, 1, 5, 30)), 2))]
    for branch in BRANCHES:
        if branch != "main" and chance.random() < 0.7:
            moves.append(Move(at + 1, "create branch", (branch, "main")))
    for _ in range(chance.choice((2, 6))):
        write = "upload", (chance.choice(BRANCHES), chance.choice(PATHS), chance.choice(CONTENTS))
        moves.append(Move(at + 2 + chance.random() * DAY, *write))
        if chance.random() < 0.5:
            moves.append(Move(at + 2 * DAY + chance.random() * HOUR, "commit", (write[1][0], 0)))
    at += 3 * DAY
    for _ in range(chance.choice((10, 25, 40, 60))):
        at += chance.random() ** 3 * 5 * DAY
        if at >= -60:
            break
        moves.append(Move(at, *draw_write(chance)))
    return [replace(move, at=round(move.at, 2)) for move in moves]


def _draw_run(chance: random.Random) -> tuple[Any, ...]:
    mode = chance.choice(("clean", "clean", "optimized", "auto"))
    return mode, chance.random() < 0.1, chance.choice((None, None, None, 3))


@dataclass
class GcScene:
    """A repository with its servers, writers and orchestrator."""

    simulation: Simulation
    kv: WatchedKV
    servers: list[Server]
    writer: Writer
    orchestrator: Orchestrator
    oracle: Oracle
    config: dict[str, Any]
    clocks: list[Clock]
    requests: int = 0

    def process_of(self, move: Move) -> Process:
        return Process(f"client {move.verb}", self.simulation.scheduler, role="client")

    def make(self, move: Move) -> None:
        if move.verb == "pace":
            self._begin(*move.args)
        elif move.verb == "run":
            self._run(*move.args)
        elif move.verb == "clear":
            self.orchestrator.clear(*move.args)
        else:
            self.writer.make(move.verb, move.args)

    def serve(self, ask: Callable[[Catalog], Any]) -> Any:
        """Have a server do something, as a request in its process."""
        scheduler = self.simulation.scheduler
        self.requests += 1
        server = self.servers[self.requests % len(self.servers)]
        if scheduler.current is None:
            return ask(server.catalog)
        actor = scheduler.spawn(
            f"{server.process.name} for {scheduler.current.name}", lambda: ask(server.catalog), server.process
        )
        scheduler.join(actor)
        if isinstance(actor.error, Exception):
            raise actor.error
        if actor.error is not None or not actor.ended:
            raise UnavailableError("the server is gone")
        return actor.result

    def settle(self) -> None:
        """Mend everything, let all objects grow old, and do one complete run."""
        scheduler = self.simulation.scheduler
        for clock in [*self.clocks, self.oracle.bucket.clock, *(server.clock for server in self.servers)]:
            clock.offset, clock.drift, clock.jumps = 0.0, 0.0, []
        for server in self.servers:
            server.settings = replace(server.settings, defects=frozenset())
            server.settings = replace(
                server.settings, catalog=replace(server.settings.catalog, defects=frozenset())
            )
            server.start()
        self.simulation.doors.pace = {}
        self.orchestrator.workers.twice = 0.0
        scheduler.wait(4 * DAY)
        run = self.orchestrator.start("rest", {**self.config, "mode": "clean", "dry_run": False})
        if run.outcome != "success":
            self.simulation.violate("peace", f"a run in peace is {run.outcome}: {run.errors}")

    def check(self) -> None:
        self.simulation.states["moves refused by servers"] += self.writer.refused
        opened = {}
        for name, run in self.orchestrator.runs.items():
            with suppress(ConfigError):  # it came to no plan, or its folder is old and was removed
                opened[name] = Run.open(run.run_uri)
        self.oracle.check_readable()
        self.oracle.check_garbage(opened["rest"])
        for found in opened.values():
            self.oracle.check_figures(found)
        self.oracle.check_secrets()

    def _begin(self, pace: float) -> None:
        """The past is over: from now on everything takes its time."""
        doors = self.simulation.doors
        doors.pace = {"run": pace, "rest": 0.01, "server": min(pace, 0.05), "client": min(pace, 0.05)}
        self.oracle.grace_seconds = 90 + 1000 * pace
        self.oracle.truth.follow()

    def _run(self, name: str, mode: str, dry_run: bool, most: int | None) -> None:
        self.orchestrator.start(
            name, {**self.config, "mode": mode, "dry_run": dry_run, "max_delete_objects": most}
        )


@dataclass
class GcWorld:
    """See the module."""

    name: str = "gc"
    steps: Sequence[str] = field(default=STEPS)
    verbs: Sequence[str] = field(default=VERBS)
    hours_max: float = 24.0 * 14

    def draw(self, chance: random.Random) -> list[Move]:
        return draw_moves(chance)

    def build(self, simulation: Simulation) -> GcScene:
        chance = simulation.chance("setting")
        scheduler, kv = simulation.scheduler, WatchedKV()
        bucket = simulation.stores.bucket("bucket")
        bucket.etags = chance.choice(("md5", "md5", "opaque"))
        bucket.versioned = chance.random() < 0.3
        bucket.page_keys = chance.choice((3, 20, 1000))
        bucket.clock.whole_seconds = chance.random() < 0.7
        off = chance.choice((0.0, 60.0, 140.0, 140.0, 400.0))
        bucket.clock.offset = chance.choice((0.0, off, -off))
        servers = _servers(simulation, chance, kv, off)
        clocks = [
            Clock(lambda: scheduler.now, offset=chance.choice((0.0, 0.0, -200.0, 250.0))) for _ in range(3)
        ]
        servers[0].catalog.repositories.create_repository(REPOSITORY, NAMESPACE)
        oracle = _oracle(simulation, kv, servers[0])
        workers = Workers(simulation, clocks, chance.choice((1, 2, 3)), chance.choice((0.0, 0.0, 0.3)))
        orchestrator = Orchestrator(
            simulation, lambda: make_client(servers, simulation.doors), clocks, workers
        )
        writer = Writer(
            scheduler,
            REPOSITORY,
            NAMESPACE,
            lambda ask: scene.serve(ask),
            oracle.acknowledged,
            oracle.committed,
        )
        scene = GcScene(simulation, kv, servers, writer, orchestrator, oracle, _config(chance), clocks)
        return scene


def _servers(simulation: Simulation, chance: random.Random, kv: WatchedKV, off: float) -> list[Server]:
    defects = frozenset(name for name in SERVER_DEFECTS if chance.random() < 0.12)
    settings = make_settings(
        Settings(
            prepare_flush_rows=chance.choice((1, 3, 100_000)),
            prepare_file_bytes_max=chance.choice((1, 400, 20 << 20)),
            range_raggedness=chance.choice((1, 2, 50_000)),
            branch_cache=timedelta(seconds=chance.choice((0.0, 0.5))),
            slice_names_max=chance.choice((2, 50_000)),
        ),
        defects,
    )
    return [
        Server(
            f"server{number}",
            kv,
            simulation.doors,
            _clock(simulation, chance, off),
            settings,
        )
        for number in range(chance.choice((1, 2, 3)))
    ]


def _clock(simulation: Simulation, chance: random.Random, off: float) -> Clock:
    """A clock that is off by at most so much, may drift, and may jump."""
    scheduler = simulation.scheduler
    clock = Clock(lambda: scheduler.now, offset=chance.choice((0.0, off, -off)))
    if chance.random() < 0.1:
        clock.drift = chance.choice((1e-5, -1e-5))
    if chance.random() < 0.1:
        clock.jumps.append((PAST_DAYS * DAY + chance.random() * HOUR, chance.choice((-150.0, 100.0, 250.0))))
    return clock


def _oracle(simulation: Simulation, kv: WatchedKV, server: Server) -> Oracle:
    repository = server.catalog.refs.repositories.get(REPOSITORY)
    reader = PeacefulReader(parse_uri(NAMESPACE, StorageOptions()))
    truth = Truth(repository, simulation.scheduler, RangeReader(reader))
    bucket = simulation.stores.bucket("bucket")
    oracle = Oracle(simulation, truth, bucket, f"{ROOT}/", MIN_AGE, 90.0, (OWNER[2].encode(),))
    for entry in kv.scan(repository.partition):
        truth.changed(repository.partition, entry.key, entry.value)
    kv.on_change, bucket.on_delete, bucket.on_put = truth.changed, oracle.on_delete, oracle.on_put
    return oracle


def _config(chance: random.Random) -> dict[str, Any]:
    return {
        "repository": REPOSITORY,
        "slice_margin_hours": chance.choice((51.0, 193.0)),
        "keep_runs_days": 7.0,
        "safety": {
            "canary_branches": 3,
            "canary_objects": 2,
            "lease_seconds": chance.choice((600.0, 3600.0)),
        },
        "tuning": {
            "delete_keys": chance.choice((1, 2, 8000)),
            "candidate_rows": chance.choice((2, 5, 100_000)),
            "listing_rows_max": chance.choice((3, 200_000)),
            "part_rows": chance.choice((4, 250_000)),
            "threads": 2,
        },
    }
