"""A writer moving a staged object to another branch while a scan of staging is between the two.

    scan reads `a`, …  →  commit on `b`  →  its content is staged on `a` (other metadata, while `a` is at that commit)
                       →  both branches move back to their earlier heads  →  scan reads `b`: nothing

The scan misses the object, the branches have their earlier heads, and the commit is dangling. With an old date (set by
the client) the commit is not active either.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tests.support.gc import World

PATH = "x"


class Detours:
    """Moves the object of `PATH` from the last of some branches to the one before, and so on."""

    def __init__(self, world: World, times: int, others: int = 0) -> None:
        self._world = world
        self._branches = "abcdefgh"[: times + 1]
        world.lake.upload("keep", b"k")
        self.start = world.lake.commit().id
        for branch in self._branches:
            world.lake.catalog.branches.create_branch(world.lake.repository, branch, "main")
            for number in range(others if branch != self._branches[-1] else 0):
                world.upload(f"y{number:03d}", f"{branch} {number}".encode(), branch)
        self.address = world.upload(PATH, b"carried along", self._branches[-1])
        self.made = 0

    @property
    def at(self) -> str:
        return self._branches[-1 - self.made]

    @property
    def is_over(self) -> bool:
        return self.made == len(self._branches) - 1

    @property
    def token(self) -> bytes:
        return self._world.lake.tokens(self.at)[0].encode()

    def make(self) -> None:
        """Move it to the branch before."""
        lake, source = self._world.lake, self.at
        old = lake.clock.now - timedelta(days=50)
        left = lake.commit("c", source, date=old)
        self.made += 1
        reset, name = lake.catalog.branches.hard_reset, lake.repository
        reset(name, self.at, left.id)
        metadata = {"carried": str(self.made)}
        lake.catalog.objects.update_user_metadata(name, self.at, PATH, metadata)
        reset(name, self.at, self.start)
        reset(name, source, self.start)

    @contextmanager
    def while_the_server_scans(self) -> Iterator[None]:
        """Move it during each of the server's scans, right before the scan reads its branch."""
        with during_the_scan(self._world, lambda: "" if self.is_over else self.at, self.make):
            yield

    def before_the_records(self, partition: bytes) -> None:
        """Move it right before the records of its token are read; a hook of `WithoutSnapshots`."""
        if not self.is_over and partition == self.token:
            self.make()


@contextmanager
def during_the_scan(world: World, before: Callable[[], str], action: Callable[[], None]) -> Iterator[None]:
    """Run a callable once during each page of the server's scan."""
    catalog = world.lake.catalog
    prepare, scan = catalog.garbage.prepare_uncommitted, catalog.refs.branches.scan
    waiting: list[str] = []

    def preparing(*arguments: Any) -> Any:
        waiting[:] = [before()]
        try:
            return prepare(*arguments)
        finally:
            waiting.clear()

    def scanning(*arguments: Any, **more: Any) -> Iterator[Any]:
        for found in scan(*arguments, **more):
            if found.name in waiting:
                waiting.clear()
                action()
                yield from (branch for branch in scan(*arguments, **more) if branch.name == found.name)
            else:
                yield found

    catalog.garbage.prepare_uncommitted = preparing  # type: ignore[method-assign]
    catalog.refs.branches.scan = scanning  # type: ignore[method-assign]
    try:
        yield
    finally:
        catalog.garbage.prepare_uncommitted = prepare  # type: ignore[method-assign]
        catalog.refs.branches.scan = scan  # type: ignore[method-assign]
