"""lakeFS's key-value store for a collection of a world in memory: with snapshot views, or without."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from dredge.gc.mark_uncommitted import KVAccess
from lakefs_embedded.kv import Entry, MemoryKV
from tests.support.gc import World
from tests.support.memory_rows import MemoryRows


@dataclass
class WithoutSnapshots:
    """A store like DynamoDB: each read returns the present rows."""

    world: World
    before: Callable[[bytes], None] = lambda _: None  # called with the partition before it is scanned
    kv: MemoryKV | None = None  # another store than the world's
    location: str = "test://"
    consistent: bool = False
    scanned: list[bytes] = field(default_factory=list)

    def open(self) -> contextlib.closing[WithoutSnapshots]:
        return contextlib.closing(self)

    def close(self) -> None:
        pass

    @contextlib.contextmanager
    def view(self) -> Iterator[WithoutSnapshots]:
        yield self

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        self.scanned.append(partition)
        self.before(partition)
        return (self.kv or self.world.lake.kv).scan(partition, start)


@dataclass
class Snapshots:
    """A store like PostgreSQL: all reads of a view return the rows at its opening."""

    world: World
    kv: MemoryKV | None = None  # another store than the world's

    def open(self) -> contextlib.closing[MemoryRows]:
        kv = self.kv or self.world.lake.kv
        assert isinstance(kv, MemoryKV)
        return contextlib.closing(MemoryRows(kv))


def copy_of(world: World) -> MemoryKV:
    kv = MemoryKV()
    assert isinstance(world.lake.kv, MemoryKV)
    kv._partitions = copy.deepcopy(world.lake.kv._partitions)
    return kv


def store_of(world: World, monkeypatch: pytest.MonkeyPatch) -> WithoutSnapshots:
    store = WithoutSnapshots(world)
    open_as(store, monkeypatch)
    return store


def open_as(store: Snapshots | WithoutSnapshots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KVAccess, "from_env", classmethod(lambda cls: store))


HEAVY = ("prepare_uncommitted", "prepare_commits", "log")
"""Expensive calls of a server, or one request for each branch and commit."""


@contextlib.contextmanager
def never_asked(world: World, *calls: str) -> Iterator[None]:
    def refuse(called: str, _arguments: object) -> None:
        assert called not in calls, f"the server was asked for {called}"

    before, world.client.before = world.client.before, refuse
    try:
        yield
    finally:
        world.client.before = before
