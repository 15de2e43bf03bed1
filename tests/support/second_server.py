"""A second lakeFS installation on a namespace: a copy of production's database with another Dredge.

production = busy_production()
copy = copy_of(production, url="http://rehearsal:8000")
"""

from copy import deepcopy
from dataclasses import replace

from lakefs_embedded.kv import MemoryKV
from tests.support.gc import CatalogClient, World, make_world


def copy_of(production: World, url: str | None = None) -> World:
    """Copy the present database, and start a server on the copy; the bucket is the same one."""
    database = MemoryKV()
    database._partitions = deepcopy(production.lake.kv._partitions)  # type: ignore[attr-defined]
    lake = replace(production.lake, kv=database, catalog=production.lake.another_server(database))
    client = CatalogClient(lake.catalog, url or production.client.url)
    return World(lake, client, settings=dict(production.settings))


def busy_production(**settings: object) -> World:
    """A production with rules and two days old objects; Dredge has never run."""
    world = make_world(**settings)
    world.rules(30)
    for number in range(20):
        world.upload(f"a/{number:03d}", b"old %d" % number)
    world.lake.commit("old")
    world.age(days=2)
    return world


def work_on(production: World, day: int = 0) -> set[str]:
    """A day of production unknown to the copy: 10 objects; returns their addresses."""
    made = {
        production.upload(f"new/{day}/{number:03d}", b"day %d, %d" % (day, number)) for number in range(10)
    }
    production.lake.commit(f"day {day}")
    production.age(days=2)
    return made
