"""The hunt: a busy lakeFS on PostgreSQL, a cleaner beside it that waits seconds instead of days, and a model.

Workers create, write, commit, reset, delete and create again, each in repositories and branches of its
own, so that each knows what it must see. Operations are slowed at random points, and the server "dies"
now and then before it queues a token. The cleaner runs all the time. Nothing that was acknowledged may
ever be missing; when all is quiet the cleaner has to bring the store back to what the living
repositories need.

`./run test long` hunts for ten minutes with a seed of its own. The seed is printed; DREDGE_HUNT_SEED repeats it,
DREDGE_HUNT_SECONDS sets another time.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import pytest

from dredge.errors import UnavailableError
from dredge.trash.apply import NamedAgainError
from dredge.undo.alarms import acknowledge_alarms
from lakefs_embedded.errors import GravelerError, NotUniqueError
from tests.support.depth import depth
from tests.support.kv_hunt import Crash, Ground, hunting_ground
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.system, pytest.mark.hunt]

SECONDS = depth(15, 600, "DREDGE_HUNT_SECONDS")
SEED = depth(1, random.SystemRandom().randrange(10**6), "DREDGE_HUNT_SEED")
GRACE = 4.0  # far above the longest pause below, also on a machine that is busy with other things
LONGEST_PAUSE = 0.08


class Trouble:
    """Slows the server's operations down at random, and ends its process before it queues tokens."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.crashes = 0

    def __call__(self, operation: str, partition: bytes, key: bytes) -> None:
        with self._lock:
            pause = self._random.random() * LONGEST_PAUSE if self._random.random() < 0.2 else 0
            dies = self._random.random() < 0.3
        if operation in ("set", "set_if", "delete"):
            time.sleep(pause)
        if operation == "set" and partition == b"cleanup-tokens" and dies:
            self.crashes += 1
            raise Crash


class Worker(threading.Thread, ABC):
    """Does things to the lake, and checks that it sees what it did.

    Args:
        ground: the lake.
        number: makes names and chances its own.
        stop: when to end.
    """

    def __init__(self, ground: Ground, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"worker-{number}")
        self.ground = ground
        self.number = number
        self.chance = random.Random(SEED * 100 + number)
        self.stop_event = stop
        self.operations = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop_event.is_set():
                self.turn()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def turn(self) -> None:
        """Do one thing, and look at what came of it."""

    def do(self, call: Callable[[], object]) -> None:
        """Make a call; where the server died in it, its visible part had happened before."""
        self.operations += 1
        with contextlib.suppress(Crash):
            call()

    def check(self, repository: str, branch: str, expected: dict[str, int]) -> None:
        self.operations += 1
        found = self.ground.files(repository, branch)
        assert found == expected, f"{repository}/{branch} after {self.operations} operations"


class BranchWorker(Worker):
    def run(self) -> None:
        self.repository = f"branches-{self.number}"
        self.ground.create(self.repository)
        self.ground.upload(self.repository, "main", "base", 1)
        self.do(lambda: self.ground.commit(self.repository, "main"))
        self.turns = 0
        super().run()

    def turn(self) -> None:
        self.turns += 1
        ground, repository, branch = self.ground, self.repository, f"b{self.turns}"
        ground.catalog.branches.create_branch(repository, branch, "main")
        committed = {"base": 1}
        for _ in range(self.chance.randrange(1, 4)):
            staged = dict(committed)
            for path in self.chance.sample(["x/1", "x/2", "y/1", "base"], self.chance.randrange(1, 4)):
                size = self.chance.randrange(2, 50)
                self.do(lambda path=path, size=size: ground.upload(repository, branch, path, size))  # type: ignore[misc]
                staged[path] = size
            self.check(repository, branch, staged)
            choice = self.chance.choice(["commit", "reset", "prefix", "prefix", "leave"])
            if choice == "commit":
                self.do(lambda: ground.commit(repository, branch))
                committed = staged
            elif choice == "reset":
                self.do(lambda: ground.catalog.branches.reset_branch(repository, branch))
                staged = committed
            elif choice == "prefix":
                self.do(
                    lambda: ground.catalog.branches.reset_branch(
                        repository, branch, kind="common_prefix", path="x/"
                    )
                )
                below = {path: size for path, size in committed.items() if path.startswith("x/")}
                staged = {path: size for path, size in staged.items() if not path.startswith("x/")} | below
            self.check(repository, branch, staged)
            committed = dict(staged) if choice == "leave" else committed
            if choice in ("leave", "prefix"):
                break  # what is staged differs from the head now: the next round would have to know both
        if self.chance.random() < 0.7:
            self.do(lambda: ground.catalog.branches.delete_branch(repository, branch))
        self.check(repository, "main", {"base": 1})


class RepositoryWorker(Worker):
    turns = 0

    def turn(self) -> None:
        self.turns += 1
        ground, name = self.ground, f"again-{self.number}"
        namespaces = [f"{name}-{self.turns}-{rival}" for rival in range(self.chance.randrange(1, 4))]
        rivals = [threading.Thread(target=self.create, args=(name, namespace)) for namespace in namespaces]
        for rival in rivals:
            rival.start()
        for rival in rivals:
            rival.join()
        self.do(
            lambda: ground.catalog.repositories.set_branch_protection(name, ["never-*"])
        )  # outlives the repository
        files = {}
        for path in ("a", "b"):
            size = self.chance.randrange(1, 50)
            self.do(lambda path=path, size=size: ground.upload(name, "main", path, size))  # type: ignore[misc]
            files[path] = size
        self.check(name, "main", files)
        if self.chance.random() < 0.5:
            self.do(lambda: ground.commit(name, "main"))
            self.check(name, "main", files)
            self.do(lambda: ground.upload(name, "main", "c", 60))
            files["c"] = 60
        time.sleep(self.chance.random() * 0.2)
        self.check(name, "main", files)
        self.do(lambda: ground.catalog.repositories.delete_repository(name))

    def create(self, name: str, namespace: str) -> None:
        with contextlib.suppress(NotUniqueError):  # another one was first; our commit and branch stay behind
            self.ground.catalog.repositories.create_repository(name, self.ground.lake.namespace(namespace))


class CleanerLoop(threading.Thread):
    """Cleans all the time."""

    def __init__(self, ground: Ground, stop: threading.Event) -> None:
        super().__init__(name="cleaner")
        self.ground = ground
        self.stop_event = stop
        self.runs = self.rows = 0
        self.put_back: list[str] = []
        self.failure: BaseException | None = None
        self.kinds: dict[str, int] = {}

    def run(self) -> None:
        try:
            while not self.stop_event.is_set():
                self.once()
        except BaseException as error:
            self.failure = error

    def once(self) -> None:
        try:
            report = self.ground.clean()
        except NamedAgainError as error:
            self.put_back.append(str(error))
            acknowledge_alarms(self.ground.state.writer, "trash", "looked into")
            return
        except UnavailableError:
            return  # a writer held a row for too long; the next run goes on
        self.runs += 1
        self.rows += report.rows_removed
        for outcome in report.outcomes:
            if outcome.rows:
                self.kinds[outcome.finding.kind] = self.kinds.get(outcome.finding.kind, 0) + 1


def test_nothing_live_is_lost_beside_a_busy_server(postgres: PostgresServer, tmp_path: Path) -> None:
    print(f"DREDGE_HUNT_SEED={SEED} DREDGE_HUNT_SECONDS={SECONDS}")
    with hunting_ground(postgres.new_database(), tmp_path, GRACE) as ground:
        ground.create("keeper")
        ground.upload("keeper", "main", "never/touched", 3)
        trouble = Trouble(SEED)
        ground.store.before = trouble
        stop, enough = threading.Event(), threading.Event()
        workers: list[Worker] = [BranchWorker(ground, n, stop) for n in range(2)]
        workers += [RepositoryWorker(ground, n, stop) for n in range(2)]
        cleaner = CleanerLoop(ground, enough)
        threads: list[threading.Thread] = [*workers, cleaner]
        for thread in threads:
            thread.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and all(worker.is_alive() for worker in threads):
            time.sleep(0.1)
        stop.set()
        for worker in workers:
            worker.join()
        enough.set()
        cleaner.join()
        for each in (*workers, cleaner):
            if each.failure is not None:
                raise each.failure
        operations = sum(worker.operations for worker in workers)
        print(f"{operations} operations, {trouble.crashes} crashes, {cleaner.runs} runs, {cleaner.rows} rows")
        print(cleaner.kinds)
        assert cleaner.put_back == []
        assert {"staging-orphan", "deleted-repository-leftovers", "zombie-create"} <= set(cleaner.kinds)
        assert cleaner.rows > 0

        # All is quiet: two looks a grace apart leave nothing but what lives, and what lives still works.
        ground.store.before = lambda *_: None
        for _ in range(3):
            ground.clean()
            ground.rest()
        assert [f for f in ground.scan().findings if f.verdict == "trash"] == []
        named = {b"graveler", b"kv-internal-metadata", b"auth", b"basicAuth", b"usage", b"catalog"}
        with ground.rows.view() as view:
            left = {p for p in view.partitions() if p not in named and not _is_small(p)}
        references = ground.scan().plan
        assert references.findings == ()
        live = live_partitions(ground)
        assert left <= live, f"left behind: {sorted(left - live)}"
        assert ground.files("keeper", "main") == {"never/touched": 3}
        for worker in workers[:2]:
            assert isinstance(worker, BranchWorker)
            assert ground.files(worker.repository, "main") == {"base": 1}


def live_partitions(ground: Ground) -> set[bytes]:
    live: set[bytes] = set()
    for repository in ground.catalog.repositories.list_repositories(amount=1000).results:
        live.add(repository.partition)
        try:
            branches = ground.catalog.branches.list_branches(
                repository.name, amount=1000, show_hidden=True
            ).results
        except GravelerError:
            continue
        live |= {token.encode() for branch in branches for token in branch.tokens}
    return live


def _is_small(partition: bytes) -> bool:
    return partition in (b"cleanup-tokens", b"pulls", b"actions", b"multiparts", b"mc-ownership")
