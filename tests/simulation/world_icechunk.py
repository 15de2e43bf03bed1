"""The world of Icechunk: a repository of either spec, writers, expirations and collections, and weather."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.clock import HOUR, Clock
from tests.simulation.history import Move, Scene, Simulation, World
from tests.simulation.icechunk.damage import Damage
from tests.simulation.icechunk.drawing import draw_moves
from tests.simulation.icechunk.late import Late
from tests.simulation.icechunk.maintenance import STEPS, Maintenance
from tests.simulation.icechunk.oracle import Oracle
from tests.simulation.icechunk.people import People
from tests.simulation.icechunk.rollback import Rollback
from tests.simulation.icechunk.scenes import SCENES
from tests.simulation.icechunk.writers import URI, VERBS, Writers
from tests.simulation.workers import Workers

SETTINGS: Mapping[str, Sequence[Any]] = {
    "spec": (1, 2),
    "etags": ("md5", "opaque"),
    "grace": (24.0, 24.0, 24.0, 0.0),
    "mode": ("clean", "auto", "auto"),
    "undo": ("off", "off", "auto", "quarantine"),
    "rest": ("clean", "clean", "auto"),
    "overwritten": (None, 30.0),
    "canaries": (3, 3, 0),
    "keep lost": (0.0, 30.0),
}
"""Parts of the setting available to a focus, and their values."""
REST = "rest"


@dataclass
class IcechunkScene(Scene):
    simulation: Simulation
    writers: Writers
    maintenance: Maintenance
    oracle: Oracle
    config: dict[str, Any]
    clocks: list[Clock]
    late: Late
    damage: Damage
    people: People
    rollback: Rollback
    rest: str
    last: str = ""

    def moves(self) -> Mapping[str, Callable[..., Any]]:
        return {
            **self.writers.moves((*VERBS, "commit virtually")),
            "pace": self._begin,
            "collect": self._collect,
            "expire": self.maintenance.expire,
            "again": self.maintenance.again,
            **self.late.verbs,
            **self.damage.verbs,
            **self.people.verbs,
            **self.rollback.verbs,
        }

    def settle(self) -> None:
        """Repair everything, and collect with more than a day between, until all objects are old and seen twice."""
        scheduler = self.simulation.scheduler
        for clock in self.clocks:
            clock.offset = 0.0
        self.simulation.doors.pace = {}
        self.maintenance.workers.twice = 0.0
        self.damage.mend()
        rest = "clean" if self.damage.was_damaged else self.rest
        waits = [26.0, 26.0, 26.0]
        for number, hours in enumerate(waits):
            scheduler.wait(hours * HOUR)
            if self.oracle.forgiven:
                return
            # What no manifest names only a clean run finds.
            self.last = f"{REST}{number}"
            run = self.maintenance.collect(self.last, {**self.config, "mode": rest})
            while run.refused and self.people.end_refusal():
                self.last += "b"
                run = self.maintenance.collect(self.last, {**self.config, "mode": rest})
            if run.outcome == "success":
                continue
            if not self.oracle.has_torn_ones() or len(waits) == 5:
                self.simulation.violate("peace", f"a run in peace is {run.outcome}: {run.errors}")
            waits.append(26.0)  # it waits until those are old enough to go

    def check(self) -> None:
        self.oracle.check_whole()
        listed = self.maintenance.was_clean(self.last) if not self.oracle.forgiven else True
        self.oracle.check_garbage(listed)

    def _begin(self, pace: float) -> None:
        self.simulation.doors.pace = {"run": pace, "expire": pace, "rest": 0.01, "client": min(pace, 0.05)}
        self.oracle.notice_seconds = 90 + 1000 * pace

    def _collect(self, name: str, dry_run: bool, most: int | None, more: tuple[tuple[str, Any], ...]) -> None:
        while name in self.maintenance.runs:  # a move may call its run as another one does
            name += "b"
        self.oracle.most[name] = 0 if dry_run else most
        config = {**self.config, "dry_run": dry_run, "max_delete_objects": most}
        for what, value in more:
            part, _, setting = what.rpartition(".")
            if part:
                config[part] = {**config[part], setting: value}
            else:
                config[what] = value
        self.maintenance.collect(name, config)


class IcechunkWorld(World):
    name = "icechunk"
    steps = STEPS
    hours_max = 24.0 * 14
    scenes = SCENES
    settings = SETTINGS

    def draw(self, chance: random.Random) -> list[Move]:
        return draw_moves(chance, self.focus)

    def build(self, simulation: Simulation) -> IcechunkScene:
        chance = simulation.chance("setting")
        drawn = {name: self.focus.draw(chance, SETTINGS, name) for name in SETTINGS}
        scheduler, bucket = simulation.scheduler, simulation.stores.bucket("bucket")
        bucket.etags = drawn["etags"]
        bucket.versioned = chance.random() < 0.3
        bucket.page_keys = chance.choice((3, 20, 1000))
        bucket.clock.whole_seconds = chance.random() < 0.7
        bucket.clock.offset = chance.choice((0.0, 0.0, -120.0, 200.0))
        off = (*(0.0,) * 7, -200.0, 250.0, 3600.0)
        clocks = [Clock(lambda: scheduler.now, offset=chance.choice(off)) for _ in range(3)]
        oracle = Oracle(simulation, bucket, drawn["grace"] * HOUR)
        oracle.keeps_lost = drawn["keep lost"] > 0
        writers = Writers(simulation, bucket, drawn["spec"], oracle.may_use)
        oracle.writers = writers
        bucket.on_put, bucket.on_delete = oracle.on_put, oracle.on_delete
        writers.begin()
        workers = Workers(simulation, clocks, chance.choice((1, 2)), chance.choice((0.0, 0.0, 0.3)))
        maintenance = Maintenance(simulation, clocks, workers, writers, oracle)
        late, damage = Late(writers, oracle), Damage(writers, oracle)
        people = People(simulation, maintenance, oracle)
        config = _config(chance, drawn)
        return IcechunkScene(
            simulation,
            writers,
            maintenance,
            oracle,
            config,
            clocks,
            late,
            damage,
            people,
            Rollback(writers, oracle),
            drawn["rest"],
        )


def _config(chance: random.Random, drawn: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "uri": URI,
        "dry_run": False,
        "min_age_hours": 24.0,
        "max_delete_percent": None,
        "grace_hours": drawn["grace"] or None,
        "unsafe_grace_seconds": None if drawn["grace"] else 0,
        "keep_lost_days": drawn["keep lost"],
        "overwritten_min_age_hours": drawn["overwritten"],
        "undo": drawn["undo"],
        "safety": {"canary_chunks": drawn["canaries"], "lease_seconds": chance.choice((600.0, 3600.0))},
        "tuning": {
            "snapshots_per_task": chance.choice((1, 3, 5000)),
            "refs_per_task": chance.choice((2, 4_000_000)),
            "ids_per_shard": chance.choice((4, 8 << 20)),
            "keys_per_task": chance.choice((3, 100_000)),
            "candidate_rows": chance.choice((2, 100_000)),
            "delete_keys": chance.choice((1, 2, 8000)),
        },
        "mode": drawn["mode"],
    }
