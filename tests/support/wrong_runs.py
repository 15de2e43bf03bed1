"""A run with live objects of another server as its garbage, and repositories with expired data in use again.

prod, lost = wrong_run("quarantine")
prod.collect()      # raises AlarmError
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from types import ModuleType
from typing import Any

from dredge.gc.bulk_delete import step as bulk_delete
from dredge.gc.check_limits import step as check_limits
from dredge.gc.run import open_state
from dredge.gc.witness import mark, owner
from dredge.gc.witness.mark import Unnamed
from dredge.storage import ObjectWriter
from dredge.undo.alarms import Alarm, acknowledge_alarms
from lakefs_embedded.kv import MemoryKV
from tests.support.gc import CatalogClient, World, make_world
from tests.support.kept import built_once
from tests.support.memory_versions import OlderVersions
from tests.support.undo import store_of


def undo_store(way: str, **settings: object) -> World:
    """A world with restorable deletions; its store keeps versions if the undo way needs them."""
    world = make_world(undo=way, **settings)
    if way == "versions":
        store_of(world).older = OlderVersions()
    return world


def rehearsal_of(world: World) -> World:
    """A second server on a copy of the database, with the same namespace and separate collections."""
    copy = MemoryKV()
    assert isinstance(world.lake.kv, MemoryKV)
    copy._partitions = deepcopy(world.lake.kv._partitions)
    lake = replace(world.lake, kv=copy, catalog=world.lake.another_server(copy))
    return World(lake, CatalogClient(lake.catalog), settings=world.settings)


def two_servers(
    way: str = "quarantine", objects: int = 20, **settings: object
) -> tuple[World, World, set[str]]:
    """Production, a rehearsal with an older database on the same namespace, and the live objects known only to
    production.
    """
    world = undo_store(way, **settings)
    world.rules(30)
    for number in range(6):
        world.upload(f"a/{number:03d}", b"old %d" % number)
    world.lake.commit("old")
    world.age(days=2)
    rehearsal = rehearsal_of(world)
    live = {world.upload(f"new/{number:03d}", b"production goes on %d" % number) for number in range(objects)}
    world.lake.commit("production goes on")
    world.age(days=2)
    return world, rehearsal, live


@built_once
def wrong_run(way: str = "quarantine", objects: int = 20, **settings: object) -> tuple[World, set[str]]:
    """Production after a collection of a rehearsal with an older database on production's namespace."""
    world, rehearsal, lost = two_servers(way, objects, **settings)
    with blind_witnesses():
        rehearsal.collect(mode="auto")
    assert not lost & world.data()
    world.age(days=1)
    return world, lost


@built_once
def expired_world(way: str = "quarantine", **settings: object) -> tuple[World, str, set[str]]:
    """A table was replaced, its commit has expired, and a run has deleted the objects of this commit only."""
    world = undo_store(way, **settings)
    world.rules(7)
    gone = {world.upload(f"t/{number}", b"version 1 of %d" % number) for number in range(4)}
    world.upload("other", b"other")
    expired = world.lake.commit("version 1").id
    for number in range(4):
        world.upload(f"t/{number}", b"version 2 is longer, %d" % number)
    world.age(days=1)
    world.lake.commit("version 2")
    world.age(days=20)
    world.upload("more", b"more")
    world.lake.commit("version 3")
    world.age(days=20)
    world.collect()
    assert not gone & world.data()
    world.age(days=1)
    return world, expired, gone


type Reuse = Callable[[World, str], object]

REUSES: dict[str, Reuse] = {
    "rule made longer": lambda world, _: world.rules(365),
    "branch": lambda world, commit: world.lake.catalog.branches.create_branch(
        world.lake.repository, "old", commit
    ),
    "tag": lambda world, commit: world.lake.catalog.tags.create_tag(world.lake.repository, "v1", commit),
    "revert": lambda world, commit: world.lake.catalog.merges.revert(
        world.lake.repository, "main", "main~1", committer="somebody"
    ),
}
"""Operations that reuse entries of the expired commit, each allowed by lakeFS."""


def say_acknowledged(world: World, why: str = "the rehearsal is stopped") -> list[Alarm]:
    return acknowledge_alarms(state_of(world), "lake", why, "somebody")


def state_of(world: World) -> ObjectWriter:
    return open_state(world.lake.namespace)


@contextmanager
def blind_witnesses() -> Iterator[None]:
    """During the block runs skip the witnesses and leave no record: undetected losses."""
    doors: list[tuple[ModuleType, str, Any]] = [
        (mark, "check_known", lambda *_: None),
        (mark, "sort_out", lambda *_: Unnamed(set(), set(), {})),
        (owner, "check_owner", lambda *_: True),
        (owner, "check_id", lambda *_: None),
        (check_limits, "claim_namespace", lambda *_: False),
        (bulk_delete, "check_before_deleting", lambda *_: None),
    ]
    honest = [getattr(module, name) for module, name, _ in doors]
    for module, name, blind in doors:
        setattr(module, name, blind)
    try:
        yield
    finally:
        for (module, name, _), found in zip(doors, honest, strict=True):
            setattr(module, name, found)
