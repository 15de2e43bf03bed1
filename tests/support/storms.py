"""A client making and deleting branches while a server writes pages of uncommitted addresses.

with Storm(world, ["mm"]): …                 # exists during each call only: the same names before and after
with Storm(world, ["mm"], remake=True): …    # exists before and after, deleted and made again during each call
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Self

from tests.support.gc import World


class Storm:
    """Deletes branches when a page reaches them."""

    def __init__(
        self,
        world: World,
        names: Sequence[str],
        *,
        remake: bool = False,
        when: Callable[[int], bool] = lambda _: True,
        slow: str = "",
    ) -> None:
        self._world = world
        self._catalog = world.lake.catalog
        self._names = names
        self._remake = remake
        self._when = when
        self._slow = slow
        self._blows = False
        self.calls = 0
        self.deleted = 0

    def __enter__(self) -> Self:
        self._prepare, self._scan = (
            self._catalog.garbage.prepare_uncommitted,
            self._catalog.refs.branches.scan,
        )
        self._catalog.garbage.prepare_uncommitted = self._preparing  # type: ignore[method-assign]
        self._catalog.refs.branches.scan = self._scanning  # type: ignore[method-assign]
        if self._remake:
            self._make()
        return self

    def __exit__(self, *_: object) -> None:
        self._catalog.garbage.prepare_uncommitted = self._prepare  # type: ignore[method-assign]
        self._catalog.refs.branches.scan = self._scan  # type: ignore[method-assign]

    def _make(self) -> None:
        for name in self._names:
            self._catalog.branches.create_branch(self._world.lake.repository, name, "main")

    def _preparing(self, *arguments: Any) -> Any:
        self.calls += 1
        if not self._when(self.calls):
            return self._prepare(*arguments)
        if not self._remake:
            self._make()
        self._blows, self._left = True, set(self._names)
        try:
            return self._prepare(*arguments)
        finally:
            self._blows = False
            for name in self._left:
                self._catalog.branches.delete_branch(self._world.lake.repository, name)
            if self._remake:
                self._make()

    def _scanning(self, *arguments: Any, **more: Any) -> Iterator[Any]:
        for branch in self._scan(*arguments, **more):
            if self._blows and branch.name in self._left:
                self._left.discard(branch.name)
                self._catalog.branches.delete_branch(self._world.lake.repository, branch.name)
                self.deleted += 1
            yield branch
            if self._blows and branch.name == self._slow:
                self._world.age(minutes=2)


@contextmanager
def recovery(world: World, path: str) -> Iterator[None]:
    """The branch is at an old commit when the re-check reads staging. Before it reads the heads, the metadata of a path
    is changed and the branch moves to the newest commit, so the old version is staged there.
    """
    catalog, name = world.lake.catalog, world.lake.repository
    newest, *_, oldest = catalog.commits.log(name, "main").results[:-1]
    recheck: Any = import_module("dredge.gc.bulk_delete.watch")  # the package has a function of that name
    honest = recheck.find_active

    def move(*arguments: Any, **more: Any) -> Any:
        catalog.objects.update_user_metadata(name, "main", path, {"recovered": "yes"})
        catalog.branches.hard_reset(name, "main", newest.id)
        return honest(*arguments, **more)

    catalog.branches.hard_reset(name, "main", oldest.id)
    recheck.find_active = move
    try:
        yield
    finally:
        recheck.find_active = honest


def old_version(world: World, path: str) -> str:
    """Commit a path, and another version of it later, so the first commit expires; returns its address."""
    world.rules(1)
    address = world.upload(path, b"old version")
    world.lake.commit()
    for content in (b"new", b"newer"):
        world.age(days=3)
        world.upload(path, content)
        world.lake.commit()
    world.age(days=3)
    return address
