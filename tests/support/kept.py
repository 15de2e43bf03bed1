"""Worlds that are built once in a process; each test gets one as it was when it was built."""

import functools
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.support.gc import CatalogClient, World
from tests.support.lost_database import back_up, put_back
from tests.support.undo import Moment, store_of


def keep(world: World) -> Callable[[], World]:
    """Return a function that puts lake, database and clock back as they are now, and gives a world on them."""
    objects, database, now = Moment.of(store_of(world)), back_up(world), world.lake.clock.now
    settings = deepcopy(world.settings)

    def as_it_was() -> World:
        objects.put_back(store_of(world))
        put_back(world.lake.kv, database)
        world.lake.clock.now = now
        lake = replace(world.lake, catalog=world.lake.another_server())
        return World(lake, CatalogClient(lake.catalog, world.client.url), settings=deepcopy(settings))

    return as_it_was


def built_once[**P, *Ts](build: Callable[P, tuple[World, *Ts]]) -> Callable[P, tuple[World, *Ts]]:
    """Call a builder once for each choice of arguments. A test has one such world of a choice at a time."""
    built: dict[str, tuple[Callable[[], World], Any]] = {}

    @functools.wraps(build)
    def get(*arguments: P.args, **more: P.kwargs) -> tuple[World, *Ts]:
        choice = repr((arguments, more))
        if choice not in built:
            world, *rest = build(*arguments, **more)
            built[choice] = keep(world), rest
        as_it_was, rest = built[choice]
        return (as_it_was(), *deepcopy(rest))

    return get
