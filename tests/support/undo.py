"""Restores and purges of deletions, in a lake in memory.

world, kept, gone = undo_world("quarantine")
run = world.plan()
world.run(run)
restore(world, run, all=True)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

import pyarrow as pa

from dredge.gc.config import PurgeConfig, RestoreConfig
from dredge.gc.run import Run
from dredge.gc.steps import purge as purge_leftovers
from dredge.gc.undo import restore as restore_deleted
from dredge.hashing import hash64
from dredge.runs.clock import BEGINNING, END, Coverage
from dredge.runs.payload import StepSummary
from dredge.sets.hashes import unite, write_hashes
from dredge.sets.live import LocatedSet, ShardedSet
from dredge.storage import ObjectWriter
from dredge.undo.pins import Pin, pin_folder, write_pin
from tests.support.gc import World, busy_world, make_world
from tests.support.memory_store import MemoryStore, MemoryVersionDeleter, memory_store
from tests.support.memory_versions import OlderVersions
from tests.support.stand_ins import standing_in

WAYS = ("versions", "quarantine")


def store_of(world: World) -> MemoryStore:
    return memory_store(world.lake.namespace.removeprefix("memory://").partition("/")[0])


def undo_world(way: str, **settings: object) -> tuple[World, set[str], set[str]]:
    """Objects of every kind, with store versions if the undo way needs them."""
    world, kept, gone = busy_world(undo=way, **settings)
    if way == "versions":
        store_of(world).older = OlderVersions()
    return world, kept, gone


def small_world(way: str) -> tuple[World, set[str], set[str]]:
    """A minimal world with one of each possible loss: a sweep of two requests, one of them for two keys."""
    world = make_world(undo=way, tuning={"delete_keys": 2, "candidate_rows": 3})
    if way == "versions":
        store_of(world).older = OlderVersions()
    kept = {world.upload("a", b"committed")}
    world.lake.commit()
    kept.add(world.upload("b", b"staged"))
    gone = {world.orphan(f"data/slice{number % 2}/orphan{number}", b"x%d" % number) for number in range(3)}
    world.age(days=2)
    return world, kept, gone


def data_bytes(world: World) -> dict[str, bytes]:
    """Everything below `data/`, byte for byte."""
    root = world.lake.namespace.removeprefix("memory://").partition("/")[2] + "/"
    objects = store_of(world).objects
    return {
        key.removeprefix(root): data
        for key, (data, _) in objects.items()
        if key.removeprefix(root).startswith("data/")
    }


def pin_down(state: ObjectWriter, addresses: Collection[str], now: datetime) -> None:
    """Pin addresses for an hour, like the beginning of a restore."""
    folder = pin_folder(state.uri, "late")
    part = write_hashes(folder, "hashes-0.u64", unite([hash64(pa.array(sorted(addresses)))]))
    pin = Pin(
        pin_id="late",
        run_id="an earlier one",
        reason="brought back",
        created_at=now,
        until=now + timedelta(hours=1),
        objects=len(addresses),
        size_bytes=6,
        sets=(LocatedSet(folder.uri, ShardedSet(0, {0: part})),),
        slices=Coverage(((BEGINNING, END),)),
    )
    write_pin(state, pin)


def restore(world: World, run: Run | None, /, holder: str | None = "a person", **params: Any) -> StepSummary:
    """Restore deletions of a run; further arguments are those of `RestoreConfig`."""
    named = {} if run is None else {"run": run.plan.run_id}
    asked = {"repository": world.lake.repository, **named, **params}
    config = RestoreConfig.from_params(asked)
    return restore_deleted(config, world.runner, holder, world.client, None, world.lake.clock)


def purge(world: World, holder: str | None = "a person", **params: Any) -> StepSummary:
    """Purge leftovers; further arguments are those of `PurgeConfig`, by default no dry run."""
    config = PurgeConfig.from_params({"repository": world.lake.repository, "dry_run": False, **params})
    return purge_leftovers(config, world.runner, holder, world.client, None, world.lake.clock)


@dataclass(frozen=True)
class Moment:
    objects: dict[str, tuple[bytes, datetime]]
    older: OlderVersions | None

    @classmethod
    def of(cls, store: MemoryStore) -> Moment:
        with store.lock:
            return cls(dict(store.objects), deepcopy(store.older))

    def put_back(self, store: MemoryStore) -> None:
        with store.lock:
            store.objects, store.older = dict(self.objects), deepcopy(self.older)


@contextmanager
def moments(store: MemoryStore) -> Iterator[list[Moment]]:
    """Yield the store's content right before each write and before each single deletion, also between those of one
    request: every possible state after a kill. Before the next write it is the state after the last deletion.
    """
    found: list[Moment] = []

    def kept(honest, *arguments, **more):  # type: ignore[no-untyped-def]
        found.append(Moment.of(store))
        return honest(*arguments, **more)

    with ExitStack() as stack:
        for change in (MemoryStore.write, MemoryStore.remove, MemoryVersionDeleter._delete):
            stack.enter_context(standing_in(change, kept))
        yield found
        found.append(Moment.of(store))


@contextmanager
def moments_in(store: MemoryStore, module: ModuleType, name: str) -> Iterator[list[Moment]]:
    """The same, during a function of a module; its callers run undisturbed before and after."""
    found: list[Moment] = []
    honest = getattr(module, name)

    def watched(*arguments: Any, **more: Any) -> Any:
        with moments(store) as seen:
            try:
                return honest(*arguments, **more)
            finally:
                found.extend(seen)

    setattr(module, name, watched)
    try:
        yield found
    finally:
        setattr(module, name, honest)
