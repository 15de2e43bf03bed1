"""Branch records: the only ones changed by compare-and-set.

To change a branch, read it, make a new value, and set it on condition of an unchanged record. A `cached` read may be
a few hundred milliseconds old and serves as the first read of a request; `current` is never older than its call. Both
flows end with a `current` read, so a stale first read costs a retry, never a wrong result.

Source: design "lakeFS on KV", writer and reader flow; lakeFS pkg/graveler/ref/manager.go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.errors import BranchExistsError, BranchNotFoundError
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store
from lakefs_embedded.refs.amortized import AmortizedReads
from lakefs_embedded.refs.records import branch_key

PREFIX = b"branches/"
_CACHED_BRANCHES = 1024


@dataclass(frozen=True, slots=True)
class Stored:
    """A branch and its stored bytes, the condition of a change."""

    branch: Branch
    raw: bytes


class Branches:
    """The branches of all repositories."""

    def __init__(self, kv: Store, clock: Callable[[], datetime], cache_age_max: timedelta) -> None:
        self._kv = kv
        self._clock = clock
        self._age_max = cache_age_max
        self._cache: dict[tuple[bytes, str], tuple[datetime, Stored]] = {}
        self._lock = threading.Lock()
        self._reads: AmortizedReads[tuple[bytes, str], Stored] = AmortizedReads(self._read)

    def current(self, repository: Repository, name: str) -> Stored:
        """Read a branch, including every change finished before the call."""
        return self._reads.get((repository.partition, name))

    def cached(self, repository: Repository, name: str) -> Stored:
        """Read a branch, maybe slightly out of date."""
        with self._lock:
            found = self._cache.get((repository.partition, name))
        if found is not None and abs(self._clock() - found[0]) < self._age_max:
            return found[1]
        return self.current(repository, name)

    def create(self, repository: Repository, branch: Branch) -> None:
        """Write a new branch."""
        try:
            self._kv.set_if(repository.partition, branch_key(branch.name), branch.encode(), None)
        except PredicateFailedError:
            raise BranchExistsError from None

    def change(self, repository: Repository, old: Stored, new: Branch) -> Stored:
        """Replace an unchanged branch, or raise PredicateFailedError."""
        raw = new.encode()
        self._kv.set_if(repository.partition, branch_key(new.name), raw, old.raw)
        stored = Stored(new, raw)
        self._remember((repository.partition, new.name), stored)
        return stored

    def delete(self, repository: Repository, name: str) -> None:
        """Remove a branch; the caller drops its tokens."""
        self._kv.delete(repository.partition, branch_key(name))
        self._forget((repository.partition, name))

    def scan(self, repository: Repository, start: str = "") -> Iterator[Branch]:
        """Branches in name order from a name on, including hidden ones."""
        for entry in self._kv.scan(repository.partition, branch_key(start)):
            if not entry.key.startswith(PREFIX):
                return
            yield Branch.decode(entry.value)

    def _read(self, key: tuple[bytes, str]) -> Stored:
        partition, name = key
        try:
            raw = self._kv.get(partition, branch_key(name))
        except KeyNotFoundError:
            self._forget(key)
            raise BranchNotFoundError from None
        stored = Stored(Branch.decode(raw), raw)
        self._remember(key, stored)
        return stored

    def _remember(self, key: tuple[bytes, str], stored: Stored) -> None:
        with self._lock:
            if len(self._cache) >= _CACHED_BRANCHES:
                self._cache.clear()
            self._cache[key] = (self._clock(), stored)

    def _forget(self, key: tuple[bytes, str]) -> None:
        with self._lock:
            self._cache.pop(key, None)
