"""The world of Icechunk: a repository of either spec, writers, expirations and collections, and weather."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.clock import DAY, HOUR, Clock
from tests.simulation.focus import ANYTHING, Focus
from tests.simulation.history import Move, Simulation
from tests.simulation.icechunk.maintenance import STEPS, TASKS, Maintenance
from tests.simulation.icechunk.oracle import Oracle
from tests.simulation.icechunk.writers import URI, VERBS, Writers, draw_write
from tests.simulation.scheduler import Process
from tests.simulation.weather import KINDS, pairs_of
from tests.simulation.workers import Workers

WEATHER = tuple(kind.name for kind in KINDS if kind.door in ("store", "any"))
OURS = ("collect", "expire", "again")
NEVER = pairs_of(STEPS, "lakefs", "kv", only=("slow server", "staging cut short")) | pairs_of(
    [step for step in STEPS if step not in ("bulk_delete", "expire")],
    only=("some keys fail", "some keys fail after all"),
)
"""Nothing here asks lakeFS or a key-value store, and only two steps delete."""
PAST_DAYS = 20
REST = "rest"


def draw_moves(chance: random.Random) -> list[Move]:
    """Draw a history: a past of some weeks, then some runs with writers around them."""
    moves = []
    at = -PAST_DAYS * DAY
    for _ in range(chance.choice((5, 15, 30))):
        at += chance.random() ** 2 * 3 * DAY
        if at >= -60:
            break
        moves.append(Move(round(at, 2), *draw_write(chance)))
    pace = chance.choice((0.02, 0.2, 2.0))
    moves.append(Move(-30.0, "pace", (pace,)))
    length = 300 * pace
    starts = [0.0]
    for _ in range(chance.choice((0, 1, 2, 3))):
        starts.append(
            starts[-1] + chance.choice((0.0, 1.0, 25.0, 25.0, 60.0)) * HOUR + chance.random() * length
        )
    moves += [_draw_run(chance, number, start) for number, start in enumerate(starts)]
    end = starts[-1] + length
    for _ in range(chance.choice((0, 5, 15, 30))):
        at = chance.random() * end
        if chance.random() < 0.6:
            at = chance.choice(starts) + chance.random() * length
        if chance.random() < 0.4:
            moves.append(_at_work(chance, at, *draw_write(chance)))
        else:
            moves.append(Move(round(at, 3), *draw_write(chance)))
    for _ in range(chance.choice((0, 0, 1, 2))):
        moves += _come_back(chance, starts)
    return moves + _draw_accidents(chance, len(starts), end)


def _at_work(chance: random.Random, at: float, verb: str, args: tuple[Any, ...]) -> Move:
    """A move that is made when a step is at work, however short it is."""
    call = chance.choice(("get", "get", "put", "list", "delete"))
    number = 1 + int(chance.random() ** 2 * 12)
    return Move(round(max(0.0, at), 3), "when", (chance.choice(STEPS[:4]), call, number, verb, *args))


def _come_back(chance: random.Random, starts: Sequence[float]) -> list[Move]:
    """Snapshots are released before a run, and taken up again while a later one is at work, which may take long."""
    branch = chance.choice(("a", "b"))
    released = -chance.random() * 3 * DAY
    moves = [
        Move(-9 * DAY, "create branch", (branch, chance.randrange(12))),
        Move(-8 * DAY, "commit", (branch, chance.choice((1, 2, 5)), 0.0, True)),
        Move(-7 * DAY, "commit", (branch, 1, 0.0, True)),
        Move(round(released, 2), *chance.choice((("reset", (branch, 0)), ("delete branch", (branch,))))),
    ]
    start = max(0.0, chance.choice(starts) - 1)
    for _ in range(chance.choice((1, 2))):
        verb = chance.choice(("reset late", "reset late", "reset", "create branch", "tag"))
        name = chance.choice(("v1", "v2")) if verb == "tag" else chance.choice(("main", "a", "b"))
        moves.append(_at_work(chance, start, verb, (name, chance.randrange(12))))
    for _ in range(chance.choice((0, 1, 3))):
        moves.append(_at_work(chance, start, "faint", (chance.choice((70.0, 150.0, 290.0)),)))
    return moves


def _draw_run(chance: random.Random, number: int, start: float) -> Move:
    if chance.random() < 0.35:
        rule = chance.choice(("document", "spec_v1"))
        flags = (chance.random() < 0.3, chance.random() < 0.3)
        args: tuple[Any, ...] = (f"expire{number}", rule, chance.choice((0.0, 2.0, 5.0)), *flags)
        return Move(round(start, 3), "expire", args)
    args = (f"run{number}", chance.random() < 0.1, chance.choice((None, None, None, 2)))
    return Move(round(start, 3), "collect", args)


def _draw_accidents(chance: random.Random, runs: int, end: float) -> list[Move]:
    moves = []
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        begin, seconds = chance.random() * end, chance.random() ** 2 * end
        spell = (chance.choice(WEATHER), round(seconds, 2), chance.choice((0.01, 0.1, 0.5)))
        moves.append(Move(round(begin, 3), "weather", spell))
    for _ in range(chance.choice((0, 0, 1, 2))):
        moves.append(Move(0.0, "kill", (_draw_process(chance, runs), chance.randrange(1, 120))))
    for _ in range(chance.choice((0, 0, 1, 2))):
        seconds = chance.choice((30.0, 400.0, 2 * HOUR, 14 * HOUR, 30 * HOUR))
        moves.append(Move(0.0, "sleep", (_draw_process(chance, runs), chance.randrange(1, 120), seconds)))
    for _ in range(chance.choice((0, 0, 0, 1))):
        moves.append(Move(round(end + chance.random() * DAY, 3), "again", (f"run{chance.randrange(runs)}",)))
    return moves


def _draw_process(chance: random.Random, runs: int) -> str:
    number = chance.randrange(runs)
    return chance.choice((f"run{number} {chance.choice(TASKS)}", f"run{number} collect", f"expire{number}"))


@dataclass
class IcechunkScene:
    """A repository with its writers and maintenance."""

    simulation: Simulation
    writers: Writers
    maintenance: Maintenance
    oracle: Oracle
    config: dict[str, Any]
    clocks: list[Clock]

    def process_of(self, move: Move) -> Process:
        return Process(f"client {move.verb}", self.simulation.scheduler, role="client", may_fail=False)

    def make(self, move: Move) -> None:
        ours: dict[str, Callable[..., Any]] = {
            "pace": self._begin,
            "collect": self._collect,
            "expire": self.maintenance.expire,
            "again": self.maintenance.again,
        }
        if move.verb in ours:
            ours[move.verb](*move.args)
        else:
            self.writers.make(move.verb, move.args)

    def settle(self) -> None:
        """Mend everything, and collect with more than a day between, until all is old and seen twice."""
        scheduler = self.simulation.scheduler
        for clock in self.clocks:
            clock.offset = 0.0
        self.simulation.doors.pace = {}
        self.maintenance.workers.twice = 0.0
        for number, hours in enumerate((26.0, 26.0, 26.0)):
            scheduler.wait(hours * HOUR)
            if self.oracle.forgiven:
                return
            # What no manifest names only a clean run finds.
            run = self.maintenance.collect(f"{REST}{number}", {**self.config, "mode": "clean"})
            if run.outcome != "success":
                self.simulation.violate("peace", f"a run in peace is {run.outcome}: {run.errors}")

    def check(self) -> None:
        self.oracle.check_whole()
        self.oracle.check_garbage()

    def _begin(self, pace: float) -> None:
        self.simulation.doors.pace = {"run": pace, "expire": pace, "rest": 0.01, "client": min(pace, 0.05)}
        self.oracle.notice_seconds = 90 + 1000 * pace

    def _collect(self, name: str, dry_run: bool, most: int | None) -> None:
        self.oracle.most[name] = 0 if dry_run else most
        self.maintenance.collect(name, {**self.config, "dry_run": dry_run, "max_delete_objects": most})


@dataclass
class IcechunkWorld:
    """See the module."""

    name: str = "icechunk"
    steps: Sequence[str] = field(default=STEPS)
    verbs: Sequence[str] = field(default=(*VERBS, *OURS))
    never: Collection[tuple[str, str]] = NEVER
    hours_max: float = 24.0 * 14
    focus: Focus = ANYTHING
    scenes: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def draw(self, chance: random.Random) -> list[Move]:
        return draw_moves(chance)

    def build(self, simulation: Simulation) -> IcechunkScene:
        chance = simulation.chance("setting")
        scheduler, bucket = simulation.scheduler, simulation.stores.bucket("bucket")
        bucket.etags = chance.choice(("md5", "opaque"))
        bucket.versioned = chance.random() < 0.3
        bucket.page_keys = chance.choice((3, 20, 1000))
        bucket.clock.whole_seconds = chance.random() < 0.7
        bucket.clock.offset = chance.choice((0.0, 0.0, -120.0, 200.0))
        off = (0.0, 0.0, 0.0, -200.0, 250.0, 3600.0)
        clocks = [Clock(lambda: scheduler.now, offset=chance.choice(off)) for _ in range(3)]
        grace_hours = chance.choice((24.0, 24.0, 24.0, 0.0))
        oracle = Oracle(simulation, bucket, grace_hours * HOUR)
        writers = Writers(simulation, bucket, chance.choice((1, 2)), oracle.may_use)
        oracle.writers = writers
        bucket.on_put, bucket.on_delete = oracle.on_put, oracle.on_delete
        writers.begin()
        workers = Workers(simulation, clocks, chance.choice((1, 2)), chance.choice((0.0, 0.0, 0.3)))
        maintenance = Maintenance(simulation, clocks, workers, writers, oracle)
        return IcechunkScene(simulation, writers, maintenance, oracle, _config(chance, grace_hours), clocks)


def _config(chance: random.Random, grace_hours: float) -> dict[str, Any]:
    return {
        "uri": URI,
        "dry_run": False,
        "min_age_hours": 24.0,
        "grace_hours": grace_hours,
        "overwritten_min_age_hours": chance.choice((None, 30.0)),
        "safety": {"canary_chunks": 3, "lease_seconds": chance.choice((600.0, 3600.0))},
        "tuning": {
            "snapshots_per_task": chance.choice((1, 3, 5000)),
            "refs_per_task": chance.choice((2, 4_000_000)),
            "ids_per_shard": chance.choice((4, 8 << 20)),
            "keys_per_task": chance.choice((3, 100_000)),
            "candidate_rows": chance.choice((2, 100_000)),
            "delete_keys": chance.choice((1, 2, 8000)),
            "threads": 2,
        },
        "mode": chance.choice(("clean", "auto", "auto")),
    }
