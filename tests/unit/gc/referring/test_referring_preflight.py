"""The preflight warns where another repository refers to this one, in few requests."""

from __future__ import annotations

from typing import Any

from dredge.errors import RefusedError
from dredge.gc.config import GCConfig
from dredge.gc.referring import check_referring
from dredge.runs.preflight import Line
from tests.support.gc import World
from tests.support.referring import OTHER, import_data, make_importer, with_importer


def lines(world: World, names: str | None = None, **bounds: Any) -> list[Line]:
    config = GCConfig(repository=world.lake.repository, referring_repositories=names)
    return list(check_referring(config, world.client, world.lake.namespace, None, **bounds))


def test_a_repository_that_imported_from_here_is_named_until_the_settings_name_it() -> None:
    world = with_importer()
    world.orphan("data/slice/x")
    make_importer(world, "bystander")
    assert [line.level for line in lines(world)] == ["ok"]
    import_data(world)
    (line,) = lines(world)
    assert line.level == "warning"
    assert OTHER in line.todo
    assert [line.level for line in lines(world, OTHER)] == ["ok"]
    assert [line.level for line in lines(world, "*")] == ["ok"]


def test_an_import_below_the_first_folders_is_seen_and_requests_are_few() -> None:
    world = with_importer()
    world.orphan("data/slice/x")
    for number in range(250):
        world.lake.catalog.objects.upload_object(OTHER, "main", f"a/{number:03d}", b"")
    world.lake.catalog.commits.commit(OTHER, "main", committer="c", message="m")
    import_data(world)
    asked: list[str] = []
    world.client.before = lambda name, _arguments: asked.append(name)
    assert [line.level for line in lines(world)] == ["warning"]
    assert asked.count("objects_page") == 2
    for number in range(5):
        make_importer(world, f"more-{number}")
    asked.clear()
    lines(world, repositories_max=2)
    assert asked.count("objects_page") <= 10


def test_a_named_repository_that_cannot_be_read_is_an_error() -> None:
    world = with_importer()
    world.client.before = refuse_branches
    assert [line.level for line in lines(world, OTHER)] == ["error", "ok"]


def refuse_branches(name: str, _arguments: tuple[Any, ...]) -> None:
    if name == "branches":
        raise RefusedError("not allowed to fs:ListBranches")
