"""Creation and deletion of repositories as by today's server; life_cycle.py has the design's two steps.

    creating    initial commit → default branch → repository record (must be absent)

A record always has its branch; a create leaves an unreferenced partition if it fails or loses a race.

    deleting    record says "in deletion" → branches, tags, commits, metadata removed → record removed

After an interrupted deletion the name answers 410 until it is deleted again. Staging partitions, settings, tasks and
all objects stay. The record is marked and removed unconditionally: a stalled deletion may destroy a later repository
of the same name.

Source: design "Repository operations error handling"; lakeFS pkg/graveler/ref/manager.go.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.kv import KeyNotFoundError, PredicateFailedError, Store
from dredge.lakefs.files.records import (
    REPOSITORIES_PARTITION,
    Branch,
    Repository,
    RepositoryState,
    repository_key,
)
from dredge.xid import new_xid
from lakefs_embedded.errors import (
    NotUniqueError,
    ReadOnlyError,
    RepositoryInDeletionError,
    RepositoryNotFoundError,
)
from lakefs_embedded.refs.commits import new_commit
from lakefs_embedded.refs.records import branch_key, commit_key, new_staging_token

_PREFIX = b"repos/"
METADATA_KEY = b"repo-metadata"
_DELETED_PREFIXES = (b"branches/", b"tags/", b"commits/")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A repository and its stored bytes, the condition of a change."""

    repository: Repository
    raw: bytes


class Repositories:
    """All repositories of a key-value store."""

    def __init__(self, kv: Store, clock: Callable[[], datetime]) -> None:
        self._kv = kv
        self._clock = clock

    def get(self, name: str) -> Repository:
        """Look up an active repository."""
        repository = self.peek(name)
        if repository is None:
            raise RepositoryNotFoundError
        if repository.state != "active":
            raise RepositoryInDeletionError
        return repository

    def writable(self, name: str, force: bool = False) -> Repository:
        """Look up an active repository to change it."""
        repository = self.get(name)
        if repository.read_only and not force:
            raise ReadOnlyError
        return repository

    def peek(self, name: str) -> Repository | None:
        """Look up a repository in any state."""
        found = self._read(name)
        return None if found is None else found.repository

    def listed(self, start: str = "") -> Iterator[Repository]:
        """Repositories of a listing, in name order from a name on, including those in deletion."""
        return self.scan(start)

    def scan(self, start: str = "") -> Iterator[Repository]:
        """Repositories in any state, in name order from a name on."""
        for entry in self._kv.scan(REPOSITORIES_PARTITION, repository_key(start)):
            if not entry.key.startswith(_PREFIX):
                return
            yield Repository.decode(entry.value)

    def create(
        self,
        name: str,
        storage_namespace: str,
        default_branch: str,
        *,
        bare: bool = False,
        read_only: bool = False,
        storage_id: str = "",
    ) -> Repository:
        """Create a repository; the caller checks arguments. Raises NotUniqueError also after a lost race."""
        self._require_free(name)
        now = self._clock()
        repository = Repository(
            name=name,
            storage_namespace=storage_namespace,
            default_branch=default_branch,
            creation_date=now,
            instance_uid=new_xid(now),
            read_only=read_only,
            storage_id=storage_id,
        )
        self._begin(repository, bare)
        return repository

    def refuse_early(self, name: str) -> None:
        """Refuse an existing name before a create begins.

        A name in deletion is refused later, after the check of its namespace.
        """
        present = self.peek(name)
        if present is not None and not present.in_deletion:
            raise NotUniqueError

    def delete(self, name: str) -> None:
        """Delete a repository's records, or continue an interrupted deletion."""
        repository = self.peek(name)
        if repository is None:
            raise RepositoryNotFoundError
        self._kv.set(
            REPOSITORIES_PARTITION, repository_key(name), in_state(repository, "in-deletion").encode()
        )
        for prefix in _DELETED_PREFIXES:
            for key in self._keys(repository.partition, prefix):
                self._kv.delete(repository.partition, key)
        self._kv.delete(repository.partition, METADATA_KEY)
        self._kv.delete(REPOSITORIES_PARTITION, repository_key(name))

    def settle(self) -> None:
        """Finish creates and deletions left unfinished by other processes. A real server does not."""

    def _require_free(self, name: str) -> None:
        present = self.peek(name)
        if present is not None:
            raise RepositoryInDeletionError if present.in_deletion else NotUniqueError

    def _begin(self, repository: Repository, bare: bool) -> None:
        if not bare:
            self._write_contents(repository)
        self._record(repository)

    def _record(self, repository: Repository) -> None:
        try:
            self._kv.set_if(
                REPOSITORIES_PARTITION, repository_key(repository.name), repository.encode(), None
            )
        except PredicateFailedError:
            raise NotUniqueError from None

    def _write_contents(self, repository: Repository) -> None:
        commit = new_commit(
            committer="",
            message="Repository created",
            creation_date=repository.creation_date,
            metarange_id="",
            metadata={},
            parents=(),
        )
        branch = Branch(
            repository.default_branch,
            commit.id,
            new_staging_token(repository.name, repository.default_branch),
        )
        self._kv.set(repository.partition, commit_key(commit.id), commit.encode())
        self._kv.set_if(repository.partition, branch_key(branch.name), branch.encode(), None)

    def _read(self, name: str) -> Recorded | None:
        try:
            raw = self._kv.get(REPOSITORIES_PARTITION, repository_key(name))
        except KeyNotFoundError:
            return None
        return Recorded(Repository.decode(raw), raw)

    def _keys(self, partition: bytes, prefix: bytes) -> list[bytes]:
        keys = (entry.key for entry in self._kv.scan(partition, prefix))
        return list(itertools.takewhile(lambda key: key.startswith(prefix), keys))


def in_state(repository: Repository, state: RepositoryState) -> Repository:
    """The same repository in another state."""
    return replace(repository, state=state)
