"""Lakes in memory: a catalog on a new key-value store and a new object store, with a settable clock.

lake = make_lake()
lake.upload("a/b", b"content")
lake.commit("first")
lake.clock.advance(days=3)
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from dredge.storage import ObjectWriter, open_writer
from lakefs_embedded.catalog import Catalog, Commit, ObjectStats, Settings
from lakefs_embedded.kv import Store, open_store
from tests.support.memory_store import memory_store

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REPOSITORY = "lake"
BRANCH = "main"
_numbers = itertools.count()


class ManualClock:
    """A clock that only moves by `advance`."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **parts: float) -> datetime:
        """Advance; arguments as for timedelta."""
        self.now += timedelta(**parts)
        return self.now


@dataclass
class Lake:
    catalog: Catalog
    kv: Store
    clock: ManualClock
    namespace: str
    repository: str = REPOSITORY
    settings: Settings = field(default_factory=Settings)
    open_namespace: Callable[[str], ObjectWriter] = open_writer

    @property
    def objects(self) -> ObjectWriter:
        return self.open_namespace(self.namespace)

    def upload(
        self, path: str, content: bytes = b"content", branch: str = BRANCH, **more: object
    ) -> ObjectStats:
        return self.catalog.objects.upload_object(self.repository, branch, path, content, **more)  # type: ignore[arg-type]

    def commit(
        self,
        message: str = "commit",
        branch: str = BRANCH,
        metadata: Mapping[str, str] | None = None,
        **more: object,
    ) -> Commit:
        return self.catalog.commits.commit(
            self.repository,
            branch,
            committer="tester",
            message=message,
            metadata=metadata,
            **more,  # type: ignore[arg-type]
        )

    def address(self, stats: ObjectStats) -> str:
        assert stats.physical_address.startswith(self.namespace + "/")
        return stats.physical_address.removeprefix(self.namespace + "/")

    def read(self, path: str, ref: str = BRANCH) -> bytes:
        return self.catalog.reading.get_object(self.repository, ref, path).read(0, None)

    def paths(self, ref: str = BRANCH, prefix: str = "") -> list[str]:
        return [stats.path for stats in self.listing(ref, prefix)]

    def listing(self, ref: str = BRANCH, prefix: str = "") -> Iterator[ObjectStats]:
        after = ""
        while True:
            page = self.catalog.reading.list_entries(self.repository, ref, prefix=prefix, after=after)
            yield from page.results
            if not page.has_more:
                return
            after = page.next_offset

    def keys(self, prefix: str = "data/") -> list[str]:
        return [key for batch in self.objects.list(prefix) for key in batch.column("key").to_pylist()]

    def rows(self, partition: str) -> list[bytes]:
        return [entry.key for entry in self.kv.scan(partition.encode())]

    def tokens(self, branch: str = BRANCH) -> tuple[str, ...]:
        return self.catalog.branches.get_branch(self.repository, branch).tokens

    def another_server(self, kv: Store | None = None) -> Catalog:
        """A second catalog on the same stores, like a second server."""
        return Catalog(kv or self.kv, self.open_namespace, self.clock, self.settings, sleep=no_sleep)


def make_lake(
    *,
    settings: Settings | None = None,
    kv: Store | None = None,
    namespace: str | None = None,
    repository: str = REPOSITORY,
    create: bool = True,
) -> Lake:
    """Make a lake with one empty repository; by default nothing runs in the background."""
    settings = settings or Settings(background=False)
    clock = ManualClock()
    if namespace is None:
        store = f"lakes-{next(_numbers)}"
        memory_store(store).clock = clock
        namespace = f"memory://{store}/{repository}"
    kv = kv or open_store("memory://")
    catalog = Catalog(kv, open_writer, clock, settings, sleep=no_sleep)
    if create:
        catalog.repositories.create_repository(repository, namespace)
    return Lake(catalog, kv, clock, namespace, repository, settings)


def with_settings(lake: Lake, **changes: object) -> Lake:
    settings = replace(lake.settings, **changes)  # type: ignore[arg-type]
    catalog = Catalog(lake.kv, lake.open_namespace, lake.clock, settings, sleep=no_sleep)
    return replace(lake, catalog=catalog, settings=settings)


def no_sleep(_seconds: float) -> None:
    """Do not wait between tries."""
