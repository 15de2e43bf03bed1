"""The world of the lakeFS collector: one repository, some servers, writers, runs, and all kinds of weather."""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from dredge.errors import ConfigError, DredgeError, UnavailableError
from dredge.gc.run import Run
from dredge.lakefs.transport import Response
from dredge.storage.location import parse_uri
from dredge.storage.options import StorageOptions
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.committed.store import RangeReader
from tests.simulation.buckets import Stored
from tests.simulation.clock import DAY, Clock
from tests.simulation.gc.asked import Asked
from tests.simulation.gc.database import Database
from tests.simulation.gc.drawing import draw_moves
from tests.simulation.gc.gateway import S3_DRAWS, S3Client
from tests.simulation.gc.mishaps import Mishaps
from tests.simulation.gc.people import People
from tests.simulation.gc.scenes import BY_NAME
from tests.simulation.gc.setting import (
    LIVED_WITH,
    POLICIES,
    config_of_run,
    draw_config,
    in_peace,
    make_rows,
    make_servers,
    prepare_bucket,
)
from tests.simulation.gc.settings import ALL_SETTINGS, Drawing
from tests.simulation.gc.statements import Statements
from tests.simulation.history import Move, Scene, Simulation, World
from tests.simulation.kv import WatchedKV
from tests.simulation.lakefs import OWNER, Server, make_client, make_writer
from tests.simulation.oracle import GRACE_LEAST, Oracle
from tests.simulation.orchestrator import STEPS, Orchestrator
from tests.simulation.scheduler import Process
from tests.simulation.stores import SimReader
from tests.simulation.truth import Truth
from tests.simulation.workers import Workers
from tests.simulation.writers import DRAWS as API_DRAWS
from tests.simulation.writers import Writer

REPOSITORY, ROOT = "lake", "lake"
NAMESPACE = f"memory://bucket/{ROOT}"
MIN_AGE = timedelta(hours=25)
REFUSALS = 3
"""Maximum number of a person's checks of the last run's refusal."""
INGESTED = 200
"""Maximum number of commits during the last sweep."""
BESIDE = "lake-main"
"""Another repository: its name and namespace begin like this one's, and with a name of one of its branches."""


class PeacefulReader(SimReader):
    """A reader without doors, of undamaged tables."""

    whole: Mapping[str, Stored] = MappingProxyType({})

    def _call[T](self, name: str, key: str, deed: Callable[[], T]) -> T:
        return deed()

    def _find(self, key: str) -> Stored:
        return self.whole.get(self._root + key) or super()._find(key)


GRACE = 3.5 * DAY
"""Longer than the default wait of candidates."""


@dataclass
class GcScene(Scene):
    simulation: Simulation
    kv: WatchedKV
    servers: list[Server]
    writer: Writer
    orchestrator: Orchestrator
    oracle: Oracle
    config: dict[str, Any]
    clocks: list[Clock]
    database: Database = field(init=False)
    mishaps: Mishaps = field(init=False)
    people: People = field(init=False)
    statements: Statements = field(init=False)
    s3: S3Client = field(init=False)
    beside: Writer = field(init=False)
    requests: int = 0
    rest: tuple[str, int] = ("clean", 0)
    haste: float = 1.0
    busy: tuple[str, float] | None = None

    def moves(self) -> Mapping[str, Callable[..., Any]]:
        return {
            **self.writer.moves(API_DRAWS),
            **self.s3.moves(S3_DRAWS),
            "pace": self._begin,
            "run": self._run,
            "rest": self._rest,
            "clear": self.orchestrator.clear,
            "redo": self.orchestrator.redo,
            "mark failed": self.orchestrator.mark_failed,
            "beside": self._beside,
            "clocks off": self._set_clocks,
            "clients hurry": self._hurry,
            "servers have": self._give_defect,
            **self.people.verbs,
            **self.statements.verbs,
            **self.mishaps.verbs,
            **self.database.verbs,
            "run of clone": self._run_of_clone,
            "busy": self._keep_busy,
        }

    def serve(self, ask: Callable[[Catalog], Any]) -> Any:
        """Call a catalog, as a request in the process of its server."""
        return self.serve_by(lambda server: ask(server.catalog))

    def serve_by(self, ask: Callable[[Server], Any]) -> Any:
        scheduler = self.simulation.scheduler
        self.requests += 1
        server = self.servers[self.requests % len(self.servers)]
        if scheduler.current is None:
            return ask(server)
        actor = scheduler.spawn(
            f"{server.process.name} for {scheduler.current.name}", lambda: ask(server), server.process
        )
        scheduler.join(actor)
        if isinstance(actor.error, Exception):
            raise actor.error
        if actor.error is not None or not actor.ended:
            raise UnavailableError("the server is gone")
        return actor.result

    def settle(self) -> None:
        """Repair intolerable damage, let all objects grow old, and do one complete run."""
        scheduler = self.simulation.scheduler
        self.oracle.bucket.clock.offset = 0.0
        for clock in [*self.clocks, *(server.clock for server in self.servers)]:
            # The remaining errors are tolerated by every run.
            clock.offset, clock.drift, clock.jumps = max(-140.0, min(140.0, clock.offset)), 0.0, []
        for server in self.servers:
            defects = server.settings.catalog.defects | server.settings.defects
            catalog = replace(server.settings.catalog, defects=frozenset())
            server.settings = replace(server.settings, catalog=catalog, defects=defects & LIVED_WITH)
            server.start()
        self.mishaps.leave()
        self.mishaps.mend()
        self.simulation.doors.pace = {}
        self.orchestrator.workers.twice = 0.0
        scheduler.wait(4 * DAY)
        mode, policy = self.rest
        if self.config.get("unsafe_grace_seconds", 0) is None:
            # What the last run is to delete, another one finds.
            found = config_of_run(in_peace(self.config), scheduler.now, mode, True, None, policy, None)
            self.oracle.asked["finds"] = self._asked("finds", found, policy)
            self.orchestrator.start("finds", found)
            scheduler.wait(GRACE)
        config = config_of_run(in_peace(self.config), scheduler.now, mode, False, None, policy, None)
        self.oracle.asked["rest"] = self._asked("rest", config, policy)
        if self.busy is not None:
            scheduler.spawn("busy", self._ingest, Process("client ingest", scheduler, role="client"))
        run = self.orchestrator.start("rest", config)
        for _ in range(REFUSALS):
            if not run.refused:
                break
            self.simulation.states["refusal ended by a person"] += 1
            self.statements.end_refusal(self.simulation.chance("person").random() < 0.5)
            run = self.orchestrator.start("rest", config)
        if run.outcome != "success":
            self.simulation.violate("peace", f"a run in peace is {run.outcome}: {run.errors}")

    def check(self) -> None:
        self.simulation.states["moves refused by servers"] += self.writer.refused + self.s3.refused
        opened = {}
        for name, run in self.orchestrator.runs.items():
            with suppress(ConfigError):  # it has no plan, or its old folder was removed
                opened[name] = Run.open(run.run_uri)
        self.oracle.check_readable()
        self.oracle.check_garbage(opened["rest"])
        self.oracle.check_ends(self.orchestrator.runs.values())
        for name, found in opened.items():
            self.oracle.check_figures(found, self.orchestrator.runs[name])
        self.oracle.check_secrets()

    def _begin(self, pace: float) -> None:
        doors = self.simulation.doors
        doors.pace = {"rest ": 0.01, "server": min(pace, 0.05), "client": min(pace, 0.05), "": pace}
        doors.haste = self.haste
        self.oracle.fences.grace_seconds = 90 + 1000 * pace
        self.oracle.truth.follow()

    def _asked(self, name: str, config: Mapping[str, Any], policy: int) -> Asked:
        return Asked(
            self.simulation.scheduler.now,
            POLICIES[policy],
            config["read_kv"],
            config["approval"],
            config["max_delete_objects"],
            config["dry_run"],
            lambda: self.orchestrator.runs[name],
            config["undo"],
            config["approval_hours"],
            config["unsafe_grace_seconds"] is None,
        )

    def _set_clocks(self, seconds: float) -> None:
        for server in self.servers:
            server.clock.offset = seconds
        self.oracle.clocks_set = self.simulation.scheduler.now

    def _hurry(self) -> None:
        self.simulation.doors.haste = 0.05

    def _give_defect(self, defect: str) -> None:
        for server in self.servers:
            catalog = replace(server.settings.catalog, prepare_file_bytes_max=20 << 20)
            defects = server.settings.defects | {defect}
            server.settings = replace(server.settings, catalog=catalog, defects=defects)
            server.start()

    def _beside(self, verb: str, *args: Any) -> None:
        if not self.beside.made:
            with suppress(DredgeError):
                self.serve(
                    lambda catalog: catalog.repositories.create_repository(BESIDE, self.beside.namespace)
                )
            self.beside.made.append("")
        self.beside.make(verb, args)

    def _run_of_clone(self, name: str, *args: Any) -> None:
        orchestrator = self.database.other_orchestrator()
        if orchestrator is not None:
            self._run(f"clone{name}", *args, orchestrator=orchestrator)

    def _keep_busy(self, branch: str, seconds: float) -> None:
        self.busy = branch, seconds

    def _ingest(self) -> None:
        assert self.busy is not None
        branch, seconds = self.busy
        scheduler, runs = self.simulation.scheduler, self.orchestrator.runs
        while "rest" not in runs or (not runs["rest"].begun.get("bulk_delete") and not runs["rest"].ended):
            scheduler.wait(seconds)
        for _ in range(INGESTED):
            if runs["rest"].ended:
                break
            self.writer.make("ingest", (branch,))
            scheduler.wait(seconds)

    def _rest(self, mode: str, policy: int) -> None:
        self.rest = mode, policy

    def _run(
        self,
        name: str,
        mode: str,
        dry_run: bool,
        most: int | None,
        policy: int,
        window: tuple[float, float] | None,
        by: str,
        approval: tuple[str, float] = ("over_limits", 12.0),
        undo: str = "off",
        root: str = "",
        orchestrator: Orchestrator | None = None,
    ) -> None:
        now = self.simulation.scheduler.now
        while name in self.orchestrator.runs:  # two scenes may call theirs the same; Airflow does not
            name += "b"
        config = config_of_run(self.config, now, mode, dry_run, most, policy, window, approval, undo)
        if root:
            config["run_root"] = f"memory://bucket/{root}"
        if orchestrator is not None:
            config["read_kv"] = False  # its store is another one
        self.oracle.asked[name] = self._asked(name, config, policy)
        collector = orchestrator or self.orchestrator
        (collector.start if by == "dag" else collector.by_person)(name, config)


@dataclass
class GcWorld(World):
    name = "gc"
    steps = STEPS
    hours_max = 24.0 * 14
    scenes = BY_NAME
    settings = ALL_SETTINGS
    waits: bool = False

    def draw(self, chance: random.Random) -> list[Move]:
        return draw_moves(chance, self.focus)

    def build(self, simulation: Simulation) -> GcScene:
        draw = Drawing(simulation.chance("setting"), self.focus)
        scheduler, kv = simulation.scheduler, WatchedKV()
        off = prepare_bucket(simulation.stores.bucket("bucket"), draw)
        servers = make_servers(simulation, draw, kv, off)
        rows = simulation.stores.rows = make_rows(simulation, draw, kv)
        clocks = [Clock(lambda: scheduler.now, offset=draw.of("workers off")) for _ in range(3)]
        servers[0].catalog.repositories.create_repository(REPOSITORY, NAMESPACE)
        reader = PeacefulReader(parse_uri(NAMESPACE, StorageOptions()))
        oracle = _oracle(simulation, kv, servers[0], RangeReader(reader))
        kept: dict[str, Response] = {}
        workers = Workers(simulation, clocks, draw.of("at once"), draw.of("twice"))
        orchestrator = Orchestrator(
            simulation, lambda: make_client(servers, simulation.doors, kept), clocks, workers
        )
        writer = Writer(
            scheduler,
            REPOSITORY,
            NAMESPACE,
            lambda ask: scene.serve(ask),
            oracle.acknowledged,
            oracle.committed,
            oracle.brought_back,
        )
        beside = Writer(
            scheduler,
            BESIDE,
            f"memory://bucket/{BESIDE}",
            lambda ask: scene.serve(ask),
            lambda _verb, _address: None,
            lambda _commit, _since: None,
            lambda _commit, _since: None,
        )
        oracle.clocks = [server.clock for server in servers]
        config = draw_config(draw, REPOSITORY)
        if self.waits:
            config["unsafe_grace_seconds"] = None
            oracle.serving.given = GRACE_LEAST
        oracle.latecomers.margin = timedelta(hours=config["slice_margin_hours"])
        scene = GcScene(simulation, kv, servers, writer, orchestrator, oracle, config, clocks)
        scene.haste = draw.of("haste")
        scene.mishaps = Mishaps(
            oracle.bucket,
            f"{ROOT}/",
            NAMESPACE,
            oracle.note_twin,
            scene.serve,
            oracle.note_other,
            rows,
            oracle.note_copy,
        )
        scene.database = Database(kv, servers, oracle.truth, orchestrator)
        scene.people = People(simulation, REPOSITORY, orchestrator, oracle)
        scene.statements = Statements(
            scene.people, oracle, NAMESPACE, lambda: make_writer(servers, simulation.doors, kept)
        )
        scene.s3 = S3Client(scheduler, REPOSITORY, scene.serve_by)
        scene.beside = beside
        reader.whole = scene.mishaps.whole
        return scene


def _oracle(simulation: Simulation, kv: WatchedKV, server: Server, ranges: RangeReader) -> Oracle:
    repository = server.catalog.refs.repositories.get(REPOSITORY)
    truth = Truth(repository, simulation.scheduler, ranges)
    bucket = simulation.stores.bucket("bucket")
    oracle = Oracle(simulation, truth, bucket, f"{ROOT}/", MIN_AGE, (OWNER[2].encode(),))
    for entry in kv.scan(repository.partition):
        truth.changed(repository.partition, entry.key, entry.value)
    kv.on_change, bucket.on_delete, bucket.on_put = truth.changed, oracle.on_delete, oracle.on_put
    bucket.on_purge, bucket.on_replace = oracle.on_purge, oracle.undone.on_replace
    return oracle
