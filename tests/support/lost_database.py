"""lakeFS's database restored from a backup: the bucket keeps all objects, the server lacks later records.

backup = back_up(world)
world.upload("a"); world.lake.commit()
restore(world, backup)
"""

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import ConflictError
from dredge.lakefs import Commit, Ref
from lakefs_embedded.kv import Store
from lakefs_embedded.refs.records import Commit as Record
from tests.support.gc import CatalogClient, World

type Backup = dict[str, Any]


def back_up(world: World) -> Backup:
    return copied(world.lake.kv)


def copied(store: Store) -> Backup:
    return deepcopy({name: value for name, value in vars(store).items() if isinstance(value, dict)})


def put_back(store: Store, backup: Backup) -> None:
    for name, value in deepcopy(backup).items():
        getattr(store, name).clear()
        getattr(store, name).update(value)


def restore(world: World, backup: Backup) -> None:
    """Restore a copy and restart the server; other clients have made requests since the copy."""
    put_back(world.lake.kv, backup)
    world.lake = replace(world.lake, catalog=world.lake.another_server())
    world.client = CatalogWriter(world.lake.catalog, world.client.url)
    for _ in range(200):
        world.client.usage()


def unreadable(world: World, branch: str = "main") -> list[str]:
    lost = []
    for path in world.lake.paths(branch):
        try:
            world.lake.read(path, branch)
        except Exception:
            lost.append(path)
    return lost


def in_hook(world: World, action: Any) -> None:
    """Run a callable once, after the tree of a merge, revert or cherry-pick is written and before its branch moves."""
    writer = world.lake.catalog.merges._commit_writer
    honest = writer.make
    patch = pytest.MonkeyPatch()

    def make(_self: Any, *arguments: Any, **settings: Any) -> Any:
        made = honest(*arguments, **settings)
        patch.undo()
        action()
        return made

    patch.setattr(type(writer), "make", make)


class CatalogWriter(CatalogClient):
    makes_records = True

    def branch(self, repository: str, name: str) -> Ref:
        self.before("branch", (repository, name))
        return Ref(name, self.catalog.branches.get_branch(repository, name).commit_id)

    def create_branch(self, repository: str, name: str, source: str) -> Ref:
        self.before("create_branch", (repository, name, source))
        return Ref(name, self.catalog.branches.create_branch(repository, name, source))

    def create_commit_record(self, repository: str, commit: Commit) -> bool:
        self.before("create_commit_record", (repository, commit.id))
        if not self.makes_records or commit.text is None:
            return False
        record = Record(
            id=commit.id,
            committer=commit.text.committer,
            message=commit.text.message,
            creation_date=commit.created_at,
            metarange_id=commit.metarange_id,
            metadata=commit.text.metadata,
            parents=commit.parents,
            version=commit.version,
            generation=commit.text.generation,
        )
        with suppress(ConflictError):
            self.catalog.commits.create_commit_record(repository, record)
        return True

    def commit_metarange(self, repository: str, branch: str, metarange_id: str, message: str) -> str:
        self.before("commit_metarange", (repository, branch, metarange_id))
        made = self.catalog.commits.commit(
            repository, branch, committer="dredge", message=message, source_metarange=metarange_id
        )
        return made.id
