"""A second repository with references to objects of the first one."""

from typing import Any

from dredge.storage import open_reader
from lakefs_embedded.catalog import ImportPath
from tests.support.gc import World, make_world, seen_with

OTHER = "importer"


def with_importer(**settings: Any) -> World:
    """A world with a second repository on the same server; its imports may read the first one's namespace."""
    world = seen_with(make_world(**settings), import_from_repositories=True)
    world.rules(1)
    make_importer(world, OTHER)
    return world


def make_importer(world: World, name: str) -> None:
    root = world.lake.namespace.rpartition("/")[0]
    world.lake.catalog.repositories.create_repository(name, f"{root}/{name}")


def import_data(world: World, key: str = "data/", name: str = OTHER, branch: str = "main") -> str:
    """Import all objects of the first repository with a prefix; returns the commit."""
    started = world.lake.catalog.imports.import_start(
        name,
        branch,
        [ImportPath("common_prefix", f"{world.lake.namespace}/{key}", "in/")],
        open_reader,
        committer="importer",
    )
    status = world.lake.catalog.imports.import_status(name, started)
    assert status.commit is not None, status.error
    return status.commit.id


def stage_there(world: World, address: str, path: str = "staged", name: str = OTHER) -> None:
    world.lake.catalog.objects.stage_object(
        name, "main", path, physical_address=f"{world.lake.namespace}/{address}", checksum="c", size_bytes=6
    )


def expired(world: World, path: str = "a", content: bytes = b"imported") -> str:
    """Upload, commit, import into the other repository, delete and let expire here; returns the address."""
    address = world.upload(path, content)
    world.lake.commit()
    import_data(world)
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", path)
    world.lake.commit()
    world.upload("other", b"keeps the branch from being empty")
    world.age(days=3)
    world.lake.commit()
    world.age(days=3)
    return address
