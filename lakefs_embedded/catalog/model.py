"""The settings of a catalog, and the parts of its data model: records of refs, staging areas, storage namespaces."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Self, get_args

from dredge.errors import ConfigError
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from lakefs_embedded.committed.store import RangeStore
from lakefs_embedded.kv import Store
from lakefs_embedded.refs.branches import Branches, Protection, Tags
from lakefs_embedded.refs.commits import Commits, MistakenIds
from lakefs_embedded.refs.expressions import Resolver
from lakefs_embedded.refs.repositories import LifeCycle, Repositories, open_repositories
from lakefs_embedded.staging.area import StagingAreas
from lakefs_embedded.staging.protocol import COMMIT_TRIES, CommitProtocol
from lakefs_embedded.staging.reset import TokenDropper

# Faults of real servers that tests switch on. All are off by default, and stay off in production.
CATALOG_DEFECTS = frozenset(
    {
        "rows_lost_on_branch_delete",  # a branch deleted during prepare makes its page lose rows
        "empty_last_page",  # the last page of a prepare run has no rows, hence no location
        "repeated_token",  # prepare returns the token it was given, for ever
        "page_missing",  # prepare returns a location that lacks a file
        "active_walk_early_stop",  # the walk over commits stops before marking a commit
        "cherry_pick_cache",  # a picked commit is not found by its full id; a branch made from it has no head
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Behaviour of a catalog; the defaults are those of a real server.

    Args:
        profile: `lakefs` for today's server, `design` for the stricter rules of the first design.
        life_cycle: creation and deletion of repositories: `lakefs` as today's server, `step-1` or `step-2` of the
            design (refs/repositories.py).
        signing_key: secret of the signatures on handed-out addresses.
        link_expiry: maximum age of a handed-out address to link.
        copy_expiry: life of the record of a shared copy (profile `design`); a prepare run may take half as long.
        slice_names_max: names in one slice below `data/`.
        prepare_file_bytes_max: flushed parquet bytes at the end of a prepare page.
        prepare_interval: maximum time of a prepare page.
        prepare_flush_rows: rows between two flushes of a prepare page.
        prepare_branch_time: minimum time of a prepare page on a branch, for benchmarks. A real server needs about
            11 ms (measured with 500 branches of 150 staged entries).
        range_raggedness: one key in this many closes a range.
        branch_cache: maximum age of a cached branch record for the first read of a request.
        write_tries: tries of a write before it fails with 429.
        import_from_repositories: allow imports from another repository's namespace, as a real server does. A
            collection of the other repository must protect this one, or it deletes the imported objects.
        presign: sign URLs to read and write objects, if the store can.
        background: run tasks and drop tokens in threads; False does so before a call returns.
        defects: names from CATALOG_DEFECTS to switch on; others are ignored.
    """

    profile: Literal["lakefs", "design"] = "lakefs"
    life_cycle: LifeCycle = "lakefs"
    signing_key: str = field(default="local-signing-secret", repr=False)
    link_expiry: timedelta = timedelta(hours=24)
    copy_expiry: timedelta = timedelta(hours=48)
    slice_names_max: int = 50_000
    prepare_file_bytes_max: int = 20 << 20
    prepare_interval: timedelta = timedelta(minutes=1)
    prepare_flush_rows: int = 100_000
    prepare_branch_time: timedelta = timedelta(0)
    range_raggedness: int = 50_000
    branch_cache: timedelta = timedelta(milliseconds=500)
    write_tries: int = 3
    import_from_repositories: bool = False
    presign: bool = False
    background: bool = True
    defects: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.profile not in ("lakefs", "design"):
            raise ConfigError(f"profile {self.profile!r} is unknown; use 'lakefs' or 'design'")
        if self.life_cycle not in get_args(LifeCycle):
            raise ConfigError(f"life_cycle {self.life_cycle!r} is unknown; use one of {get_args(LifeCycle)}")
        for name in ("slice_names_max", "prepare_flush_rows", "write_tries"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        if self.prepare_branch_time < timedelta(0):
            raise ConfigError("prepare_branch_time must not be negative")

    def defect(self, name: str) -> bool:
        """Whether a defect is switched on."""
        return name in self.defects


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
            protocol=CommitProtocol(refs.branches, COMMIT_TRIES, sleep),
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
