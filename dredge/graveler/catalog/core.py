"""What all calls share: the stores, the clock, the parts of the model, and who may write."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import DredgeError
from dredge.graveler.catalog.settings import Settings
from dredge.graveler.catalog.slices import PathProvider
from dredge.graveler.committed import RangeStore, SplitRule, Value
from dredge.graveler.errors import ReadOnlyError
from dredge.graveler.refs.branches import Branches
from dredge.graveler.refs.commits import Commits, new_commit
from dredge.graveler.refs.expressions import Resolver
from dredge.graveler.refs.life_cycle import open_repositories
from dredge.graveler.refs.protection import Protection
from dredge.graveler.refs.records import Branch, Commit, Repository
from dredge.graveler.refs.tags import Tags
from dredge.graveler.staging.area import StagingAreas
from dredge.graveler.staging.combined import staged_changes, staged_value
from dredge.graveler.staging.drop import TokenDropper
from dredge.graveler.staging.protocol import CommitProtocol
from dredge.graveler.staging.reset import Resets, same_identity
from dredge.graveler.xid import new_xid
from dredge.kv import Store
from dredge.storage import ObjectWriter

log = logging.getLogger(__name__)

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Namespace:
    """A repository's objects: all of them, and the ranges among them."""

    objects: ObjectWriter
    ranges: RangeStore


@dataclass(frozen=True, slots=True)
class CommitWords:
    """What a caller says of a commit.

    Args:
        committer: who.
        message: why.
        metadata: kept with it.
        date: creation date; None is now.
    """

    committer: str
    message: str
    metadata: Mapping[str, str]
    date: datetime | None = None


class CatalogCore:
    """Wiring; see Catalog.

    Args:
        kv: mutable metadata.
        open_namespace: gives a writer for a storage namespace URI, or for the folder of an address outside.
        clock: the time, aware UTC.
        settings: see Settings.
        sleep: waits so many seconds between tries of a commit.
    """

    def __init__(
        self,
        kv: Store,
        open_namespace: Callable[[str], ObjectWriter],
        clock: Clock,
        settings: Settings | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings or Settings()
        self.clock = clock
        self._kv = kv
        self._open_namespace = open_namespace
        self._repositories = open_repositories(self.settings.life_cycle, kv, clock)
        self._branches = Branches(kv, clock, self.settings.branch_cache)
        self._commits = Commits(kv)
        self._tags = Tags(kv)
        self._protection = Protection(kv, clock)
        self._resolver = Resolver(self._branches, self._tags, self._commits)
        self._areas = StagingAreas(kv)
        self._protocol = CommitProtocol(self._branches, self.settings.commit_tries, sleep)
        self._dropper = TokenDropper(
            kv, self._repositories, self._branches, background=self.settings.background
        )
        self._paths = PathProvider(clock, self.settings.slice_names_max, self.settings.slice_age_max)
        self._rule = SplitRule(
            self.settings.range_bytes_min, self.settings.range_bytes_max, self.settings.range_raggedness
        )
        self._namespaces: dict[str, Namespace] = {}
        self._tasks: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._instance_id = new_xid(clock())

    def resume(self) -> None:
        """Go on with what an earlier process left: repositories half made or half deleted, staging tokens to
        drop.
        """
        try:
            self._repositories.settle()
        except DredgeError as error:
            log.warning("repositories half made or half deleted are left as they are: %s", error)
        self._dropper.wake()

    def close(self) -> None:
        """Wait for background work; the stores stay open."""
        with self._lock:
            tasks = list(self._tasks)
        for task in tasks:
            task.join()
        self._dropper.close()

    def _start(self, work: Callable[[], None]) -> None:
        """Do something in the background."""

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("background work failed")
            finally:
                with self._lock:
                    self._tasks.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="catalog-task", daemon=True)
        with self._lock:
            self._tasks.add(thread)
        thread.start()

    def _writable(self, name: str, force: bool = False) -> Repository:
        repository = self._repositories.get(name)
        if repository.read_only and not force:
            raise ReadOnlyError
        return repository

    def _namespace(self, repository: Repository) -> Namespace:
        uri = repository.storage_namespace
        with self._lock:
            namespace = self._namespaces.get(uri)
        if namespace is None:
            objects = self._open_namespace(uri)
            namespace = Namespace(objects, RangeStore(objects))
            with self._lock:
                namespace = self._namespaces.setdefault(uri, namespace)
        return namespace

    def _resets(self, repository: Repository) -> Resets:
        return Resets(
            self._branches,
            self._areas,
            self._protocol,
            self._dropper,
            lambda commit_id, path: self._committed_value(repository, commit_id, path),
            self.settings.write_tries,
        )

    def _add_commit(
        self, repository: Repository, words: CommitWords, metarange_id: str, parents: Sequence[Commit]
    ) -> Commit:
        """Write a commit's record, after everything it names."""
        commit = new_commit(
            committer=words.committer,
            message=words.message,
            creation_date=words.date or self.clock(),
            metarange_id=metarange_id,
            metadata=words.metadata,
            parents=parents,
        )
        self._commits.add(repository, commit)
        return commit

    def _committed_value(self, repository: Repository, commit_id: str, path: bytes) -> Value | None:
        metarange_id = self._commits.get(repository, commit_id).metarange_id
        return self._namespace(repository).ranges.get_entry(metarange_id, path)

    def _value_on(self, repository: Repository, branch: Branch, path: bytes) -> Value | None:
        """What a path of a branch reads as, staged or committed."""
        staged = staged_value(self._areas, branch.tokens, path)
        if staged is not None:
            return staged.value
        return self._committed_value(repository, branch.commit_id, path)

    def _is_dirty(self, repository: Repository, branch: Branch) -> bool:
        """Whether a branch's tokens differ from its head."""
        return any(
            not same_identity(change.value, self._committed_value(repository, branch.commit_id, change.path))
            for change in staged_changes(self._areas, branch.tokens)
        )
