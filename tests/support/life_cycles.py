"""Repositories under one of the life-cycles, on a store open to tests."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from lakefs_embedded.kv import Entry, KeyNotFoundError, PredicateFailedError, Store, open_store
from lakefs_embedded.refs.records import (
    DELETED_PARTITION,
    Tag,
    branch_key,
    branch_record,
    new_staging_token,
    tag_key,
)
from lakefs_embedded.refs.repositories import METADATA_KEY, LifeCycle, Repositories, open_repositories
from tests.support.faulty import CrashError, Operation
from tests.support.lakes import ManualClock
from tests.support.turns import Actor, Stage

NAME = "lake"


class ListedStore:
    def __init__(self) -> None:
        self.inner = open_store("memory://")

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def partitions(self) -> dict[bytes, dict[bytes, bytes]]:
        return {name: dict(found.values) for name, found in self.inner._partitions.items()}  # type: ignore[attr-defined]


@dataclass
class Ground:
    life_cycle: LifeCycle
    clock: ManualClock = field(default_factory=ManualClock)
    store: ListedStore = field(default_factory=ListedStore)

    @property
    def kv(self) -> Store:
        return self.store  # type: ignore[return-value]

    def server(self, kv: Store | None = None, later: timedelta = timedelta()) -> Repositories:
        def clock() -> datetime:
            return self.clock() + later

        return open_repositories(self.life_cycle, kv or self.kv, clock)

    def create(self, kv: Store | None = None, **more: bool) -> Repository:
        return self.server(kv).create(NAME, "memory://ground/lake", "main", **more)

    def populated(self) -> Repository:
        """Create the repository and write the rows of normal use."""
        repository = self.create()
        token = new_staging_token(NAME, "side")
        self.kv.set(repository.partition, branch_key("side"), branch_record(Branch("side", "0" * 64, token)))
        self.kv.set(repository.partition, tag_key("v1"), Tag("v1", "0" * 64).encode())
        self.kv.set(repository.partition, b"settings/protected_branches", b"")
        self.kv.set(repository.partition, METADATA_KEY, b"")
        self.kv.set(token.encode(), b"path", b"staged")
        return repository

    def record(self) -> Repository | None:
        try:
            return Repository.decode(self.kv.get(REPOSITORIES_PARTITION, repository_key(NAME)))
        except KeyNotFoundError:
            return None

    @property
    def state(self) -> str:
        """The record's state, or "none"."""
        found = self.record()
        return "none" if found is None else found.state

    def rows(self, partition: bytes) -> list[Entry]:
        return list(self.kv.scan(partition))

    def lives(self) -> set[bytes]:
        return {name for name in self.store.partitions() if name.startswith(b"lake-") and b":" not in name}

    def handed_over(self) -> set[bytes]:
        """Partitions in `graveler_deleted`."""
        return {b"-".join(entry.key.split(b"/")[1:]) for entry in self.kv.scan(DELETED_PARTITION)}


def clean_handed_over(kv: Store, is_named: Callable[[bytes], bool]) -> None:
    """The trash cleaner as worded in the design, on a store of few operations."""
    for entry in list(kv.scan(DELETED_PARTITION)):
        partition = b"-".join(entry.key.split(b"/")[1:])
        if is_named(partition):
            continue
        for row in list(kv.scan(partition)):
            kv.delete(partition, row.key)
        with contextlib.suppress(PredicateFailedError):
            kv.delete_if(DELETED_PARTITION, entry.key, entry.value)


def crash_everywhere(make: Callable[[], Ground], act: Actor) -> Iterator[tuple[list[Operation], Ground]]:
    """Let an actor die after 0, 1, 2 … operations, each time in a new world, the last time not at all."""
    count = 0
    while True:
        ground = make()
        stage = Stage(ground.kv)
        stage.start("actor", act)
        done = [stage.step("actor") for _ in range(count) if stage.pending()]
        ended = not stage.pending()
        stage.abandon()
        result = stage.results["actor"]
        if isinstance(result, Exception) and not isinstance(result, CrashError):
            raise result
        yield done, ground
        if ended:
            return
        count += 1
