"""Commit records: written once, never changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from dredge.lakefs.files.records import Repository
from lakefs_embedded.committed import commit_id
from lakefs_embedded.errors import CommitNotFoundError, RefAmbiguousError
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store
from lakefs_embedded.refs.records import COMMIT_VERSION, FIRST_GENERATION, Commit, commit_key

_CACHED_COMMITS = 4096
_PREFIX = b"commits/"


def new_commit(
    *,
    committer: str,
    message: str,
    creation_date: datetime,
    metarange_id: str,
    metadata: Mapping[str, str],
    parents: Sequence[Commit],
) -> Commit:
    """Make a commit; its id is the hash of its other fields, with whole seconds of the date."""
    ids = tuple(parent.id for parent in parents)
    return Commit(
        id=commit_id(committer, message, metarange_id, creation_date, metadata, ids),
        committer=committer,
        message=message,
        creation_date=creation_date,
        metarange_id=metarange_id,
        metadata=dict(metadata),
        parents=ids,
        version=COMMIT_VERSION,
        generation=max((parent.generation for parent in parents), default=FIRST_GENERATION - 1) + 1,
    )


def expected_id(commit: Commit) -> str:
    """Compute the required id of a commit record."""
    return commit_id(
        commit.committer,
        commit.message,
        commit.metarange_id,
        commit.creation_date,
        commit.metadata,
        commit.parents,
    )


class Commits:
    """The commit records of all repositories.

    Records never change, so cached ones stay valid: a repository that reuses a name has another partition.
    """

    def __init__(self, kv: Store) -> None:
        self._kv = kv
        self._cache: OrderedDict[tuple[bytes, str], Commit] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, repository: Repository, commit_id: str) -> Commit:
        """Read a commit by its full id."""
        cache_key = (repository.partition, commit_id)
        with self._lock:
            cached = self._cache.get(cache_key)
            if cached is not None:
                self._cache.move_to_end(cache_key)
                return cached
        try:
            commit = Commit.decode(self._kv.get(repository.partition, commit_key(commit_id)))
        except KeyNotFoundError:
            raise CommitNotFoundError from None
        with self._lock:
            self._cache[cache_key] = commit
            while len(self._cache) > _CACHED_COMMITS:
                self._cache.popitem(last=False)
        return commit

    def exists(self, repository: Repository, commit_id: str) -> bool:
        """Whether a commit with a full id exists."""
        try:
            self.get(repository, commit_id)
        except CommitNotFoundError:
            return False
        return True

    def add(self, repository: Repository, commit: Commit) -> None:
        """Write a commit. An existing record has the same content, because its id is the hash."""
        try:
            self._kv.set_if(repository.partition, commit_key(commit.id), commit.encode(), None)
        except PredicateFailedError:
            return

    def find(self, repository: Repository, prefix: str) -> Commit:
        """Read the only commit with a prefix of the id."""
        found: Commit | None = None
        for commit in self._scan(repository, prefix):
            if found is not None:
                raise RefAmbiguousError
            found = commit
        if found is None:
            raise CommitNotFoundError
        return found

    def all(self, repository: Repository) -> Iterator[Commit]:
        """Every commit in id order, read from the store, including dangling ones."""
        return self._scan(repository, "")

    def _scan(self, repository: Repository, prefix: str) -> Iterator[Commit]:
        start = commit_key(prefix)
        for entry in self._kv.scan(repository.partition, start):
            if not entry.key.startswith(start):
                return
            yield Commit.decode(entry.value)
