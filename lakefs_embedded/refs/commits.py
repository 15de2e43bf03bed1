"""Commit records, written once and never changed, and walks over their graph: the log, the merge base of two commits.

`MistakenIds` is a real server's fault after a cherry-pick, for tests: the server adds the new commit's metadata to its
cached record of the picked commit, and resolves a full id to the hash of the cached record. Until the cache entry
expires (10 minutes, or a restart), the full id resolves to a missing commit. A shorter prefix of the id, branches and
the log still find the commit.

Source: lakeFS pkg/graveler/ref/commit_iterator.go, merge_base_finder.go, manager.go; pkg/graveler/graveler.go
(CherryPick; behaviour only).
"""

import heapq
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from dredge.lakefs.files.records import Repository
from lakefs_embedded.committed.entries import commit_id
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


GetCommit = Callable[[str], Commit]


def walk(get: GetCommit, start: str, *, first_parent: bool = False) -> Iterator[Commit]:
    """Yield a commit and its ancestors (`first_parent`: first parents only), each once.

    The next commit is always the youngest commit reached so far. The order is not by creation date alone: a commit can
    only follow one of its children.
    """
    first = get(start)
    heap = [_rank(first)]
    known = {start: first}
    while heap:
        commit = known[heapq.heappop(heap)[-1]]
        yield commit
        parents = commit.parents[:1] if first_parent else commit.parents
        for parent_id in parents:
            if parent_id not in known:
                known[parent_id] = get(parent_id)
                heapq.heappush(heap, _rank(known[parent_id]))


def merge_base(get: GetCommit, left: str, right: str) -> Commit | None:
    """Find the youngest common ancestor, by generation. Returns the commit, or None when there is none."""
    sides: dict[str, int] = {}
    heap: list[tuple[int, str]] = []

    def reach(commit_id: str, side: int) -> None:
        if sides.get(commit_id, 0) | side != sides.get(commit_id, 0):
            sides[commit_id] = sides.get(commit_id, 0) | side
            heapq.heappush(heap, (-get(commit_id).generation, commit_id))

    reach(left, 1)
    reach(right, 2)
    while heap:
        _, commit_id = heapq.heappop(heap)
        commit = get(commit_id)
        if sides[commit_id] == 3:
            return commit
        for parent in commit.parents:
            reach(parent, sides[commit_id])
    return None


def _rank(commit: Commit) -> tuple[float, int, str]:
    return (-commit.creation_date.timestamp(), -commit.generation, commit.id)


CACHED_FOR = timedelta(minutes=10)


class MistakenIds:
    """Full commit ids with a wrong resolution; unless `enabled`, each id resolves to itself."""

    def __init__(self, clock: Callable[[], datetime], *, enabled: bool) -> None:
        self._clock = clock
        self._enabled = enabled
        self._mistaken: dict[tuple[bytes, str], tuple[str, datetime]] = {}

    def picked(self, repository: Repository, commit: Commit, added: Mapping[str, str]) -> None:
        """Spoil the id of a cherry-picked commit; `added` is the new commit's additional metadata."""
        if self._enabled:
            spoilt = replace(commit, metadata={**commit.metadata, **added})
            until = self._clock() + CACHED_FOR
            self._mistaken[repository.partition, commit.id] = expected_id(spoilt), until

    def resolve(self, repository: Repository, commit_id: str) -> str:
        """Resolve a full commit id, maybe wrongly."""
        mistaken, until = self._mistaken.get((repository.partition, commit_id), ("", None))
        return mistaken if until is not None and self._clock() < until else commit_id
