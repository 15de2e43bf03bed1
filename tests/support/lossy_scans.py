"""A server losing rows from a scan of staging."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from lakefs_embedded.catalog.uncommitted import Mark
from tests.support.gc import World, make_world, seen_with


def stormy_world(clean: int = 20, staged: int = 50, **settings: Any) -> tuple[World, set[str], str]:
    """Clean branches around one with old staged objects, an orphan, and a server losing rows."""
    world = seen_with(make_world(**settings), defects=frozenset({"rows_lost_on_branch_delete"}))
    catalog, name = world.lake.catalog, world.lake.repository
    for branch in ("aa", "zz", *(f"n{number:03d}" for number in range(clean))):
        catalog.branches.create_branch(name, branch, "main")
    living = {world.upload(f"path/{number:04d}", b"%d" % number, "aa") for number in range(staged)}
    orphan = world.orphan("data/slice/orphan")
    world.age(days=2)
    return world, living, orphan


def spoken(path: str) -> str:
    """A path in the JSON of a real server: invalid UTF-8 is replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def latin_1(name: str) -> str:
    """A path of the embedded server with the bytes of another encoding."""
    return name.encode("latin-1").decode("utf-8", "surrogateescape")


def over_json(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers and tokens spell paths like a real server."""
    for name in ("changes", "objects"):
        honest = getattr(world.client, name)

        def answer(*arguments: Any, honest: Callable[..., Any] = honest) -> list[Any]:
            return [structs.replace(found, path=spoken(found.path)) for found in honest(*arguments)]

        setattr(world.client, name, answer)
    honest_encode = Mark.encode
    monkeypatch.setattr(Mark, "encode", lambda mark: honest_encode(replace(mark, path=spoken(mark.path))))
