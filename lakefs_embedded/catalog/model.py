"""Parts of the data model: records of refs, staging areas, storage namespaces."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from lakefs_embedded.catalog.settings import Settings
from lakefs_embedded.committed import RangeStore
from lakefs_embedded.kv import Store
from lakefs_embedded.refs.branches import Branches, Protection, Tags
from lakefs_embedded.refs.commits import Commits, MistakenIds
from lakefs_embedded.refs.expressions import Resolver
from lakefs_embedded.refs.repositories import Repositories, open_repositories
from lakefs_embedded.staging.area import StagingAreas
from lakefs_embedded.staging.protocol import CommitProtocol
from lakefs_embedded.staging.reset import TokenDropper

Clock = Callable[[], datetime]
"""The current time, aware UTC."""


@dataclass(frozen=True, slots=True)
class Refs:
    """The records of repositories and their refs, all in one key-value store."""

    repositories: Repositories
    branches: Branches
    commits: Commits
    tags: Tags
    protection: Protection
    resolver: Resolver
    mistaken_ids: MistakenIds

    @classmethod
    def open(cls, kv: Store, clock: Clock, settings: Settings) -> Self:
        """Open the records of a store."""
        branches, commits, tags = Branches(kv, clock, settings.branch_cache), Commits(kv), Tags(kv)
        mistaken_ids = MistakenIds(clock, enabled=settings.defect("cherry_pick_cache"))
        return cls(
            repositories=open_repositories(settings.life_cycle, kv, clock),
            branches=branches,
            commits=commits,
            tags=tags,
            protection=Protection(kv, clock),
            resolver=Resolver(branches, tags, commits, mistaken_ids),
            mistaken_ids=mistaken_ids,
        )


@dataclass(frozen=True, slots=True)
class Staging:
    """Staged changes of branches, and the commit protocol."""

    areas: StagingAreas
    protocol: CommitProtocol
    dropper: TokenDropper

    @classmethod
    def open(cls, kv: Store, refs: Refs, settings: Settings, sleep: Callable[[float], None]) -> Self:
        """Open the staging areas of a store."""
        return cls(
            areas=StagingAreas(kv),
            protocol=CommitProtocol(refs.branches, settings.commit_tries, sleep),
            dropper=TokenDropper(kv, refs.repositories, refs.branches, background=settings.background),
        )


@dataclass(frozen=True, slots=True)
class Namespace:
    """A repository's storage namespace: its objects, and its ranges."""

    objects: ObjectWriter
    ranges: RangeStore


class Namespaces:
    """The storage namespaces of all repositories, each opened once. Safe for use from many threads."""

    def __init__(self, open_namespace: Callable[[str], ObjectWriter]) -> None:
        self.open = open_namespace
        self._opened: dict[str, Namespace] = {}
        self._lock = threading.Lock()

    def of(self, repository: Repository) -> Namespace:
        """The namespace of a repository."""
        uri = repository.storage_namespace
        with self._lock:
            namespace = self._opened.get(uri)
        if namespace is None:
            objects = self.open(uri)
            namespace = Namespace(objects, RangeStore(objects))
            with self._lock:
                namespace = self._opened.setdefault(uri, namespace)
        return namespace
