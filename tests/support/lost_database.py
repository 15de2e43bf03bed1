"""lakeFS's database restored from a backup: the bucket keeps everything, the server forgets what came after.

backup = back_up(world)
world.upload("a"); world.lake.commit()
restore(world, backup)
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.support.gc import CatalogClient, World

type Backup = dict[str, Any]


def back_up(world: World) -> Backup:
    """Copy the key-value store of a world."""
    return deepcopy({name: value for name, value in vars(world.lake.kv).items() if isinstance(value, dict)})


def restore(world: World, backup: Backup) -> None:
    """Put a copy back and start the server again; other clients have made requests since the copy."""
    for name, value in deepcopy(backup).items():
        getattr(world.lake.kv, name).clear()
        getattr(world.lake.kv, name).update(value)
    world.lake = replace(world.lake, catalog=world.lake.another_server())
    world.client = CatalogClient(world.lake.catalog, world.client.url)
    for _ in range(200):
        world.client.usage()


def unreadable(world: World, branch: str = "main") -> list[str]:
    """Paths of a branch whose objects are gone."""
    lost = []
    for path in world.lake.paths(branch):
        try:
            world.lake.read(path, branch)
        except Exception:
            lost.append(path)
    return lost


def in_hook(world: World, action: Any) -> pytest.MonkeyPatch:
    """Do something whenever a merge, revert or cherry-pick has written its tree, before its branch moves: as long as
    a hook takes. Undo the patch that is returned."""
    writer = world.lake.catalog.merges._commit_writer
    honest = writer.make
    patch = pytest.MonkeyPatch()

    def make(*arguments: Any, **settings: Any) -> Any:
        made = honest(*arguments, **settings)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(writer), "make", lambda _self, *more, **others: honest(*more, **others))
            action()
        return made

    patch.setattr(type(writer), "make", lambda _self, *arguments, **settings: make(*arguments, **settings))
    return patch
