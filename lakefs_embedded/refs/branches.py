"""Branch records, the only ones changed by compare-and-set; protected branches, open only to merges; tag records.

To change a branch, read it, make a new value, and set it on condition of an unchanged record. A `cached` read may be
a few hundred milliseconds old and serves as the first read of a request; `current` is never older than its call. Both
flows end with a `current` read, so a stale first read costs a retry, never a wrong result.

`current` reads are amortised: requests for the same branch share one look-up. A request may only share a look-up begun
after the request, or it could miss an earlier write. So one look-up runs, and all later requests share the next one.

Source: design "lakeFS on KV", writer and reader flow, caching branch pointers and amortized reads; lakeFS
pkg/graveler/ref/manager.go, pkg/graveler/branch/protection_manager.go (behaviour only).
"""

from __future__ import annotations

import fnmatch
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime, timedelta

from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.errors import (
    BranchExistsError,
    BranchNotFoundError,
    PreconditionError,
    ProtectedBranchError,
    TagExistsError,
    TagNotFoundError,
)
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store
from lakefs_embedded.refs.records import Tag, branch_key, branch_record, tag_key

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
            self._kv.set_if(repository.partition, branch_key(branch.name), branch_record(branch), None)
        except PredicateFailedError:
            raise BranchExistsError from None

    def change(self, repository: Repository, old: Stored, new: Branch) -> Stored:
        """Replace an unchanged branch, or raise PredicateFailedError."""
        raw = branch_record(new)
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


class AmortizedReads[K: Hashable, T]:
    """Runs look-ups, one at a time for each key; errors of `read` are raised in all requests sharing it."""

    def __init__(self, read: Callable[[K], T]) -> None:
        self._read = read
        self._running: dict[K, Future[T]] = {}
        self._next: dict[K, Future[T]] = {}
        self._lock = threading.Lock()

    def get(self, key: K) -> T:
        """Look a key up; the look-up begins after this call does."""
        before: Future[T] | None
        with self._lock:
            before = self._running.get(key)
            shared = self._next.get(key)
            if before is None:
                mine = self._running[key] = Future()
            elif shared is None:
                mine = self._next[key] = Future()
        if before is not None and shared is not None:
            return shared.result()
        if before is not None:
            wait([before])
            with self._lock:
                self._running[key] = self._next.pop(key)
        return self._lead(key, mine)

    def _lead(self, key: K, mine: Future[T]) -> T:
        try:
            mine.set_result(self._read(key))
        except BaseException as error:  # raised in all requests sharing the look-up
            mine.set_exception(error)
        with self._lock:
            # A leader that waited takes the place, and may have done so already: then it is not ours to clear.
            if key not in self._next and self._running.get(key) is mine:
                del self._running[key]
        return mine.result()


_KEY = b"settings/protected_branches"
_CACHE_AGE_MAX = timedelta(seconds=3)  # a real server's
_ACTIONS = [
    messages.BranchProtectionBlockedAction.STAGING_WRITE,
    messages.BranchProtectionBlockedAction.COMMIT,
]


class Protection:
    """The branch protection rules of all repositories."""

    def __init__(self, kv: Store, clock: Callable[[], datetime]) -> None:
        self._kv = kv
        self._clock = clock
        self._cache: dict[bytes, tuple[datetime, list[str]]] = {}
        self._lock = threading.Lock()

    def patterns(self, repository: Repository) -> tuple[list[str], str]:
        """Read the patterns in order, and an ETag of the record ("" when there is none)."""
        raw = self._raw(repository)
        patterns = sorted(_decode(raw).branch_pattern_to_blocked_actions) if raw else []
        with self._lock:
            self._cache[repository.partition] = (self._clock(), patterns)
        return patterns, _etag(raw)

    def replace(self, repository: Repository, patterns: Sequence[str], if_match: str | None) -> None:
        """Set the patterns; raises PreconditionError (412) when `if_match` is not their current ETag."""
        raw = self._raw(repository)
        if if_match is not None and if_match != _etag(raw):
            raise PreconditionError
        rules = messages.BranchProtectionRules()
        for pattern in patterns:
            rules.branch_pattern_to_blocked_actions[pattern].value.extend(_ACTIONS)
        try:
            self._kv.set_if(repository.partition, _KEY, messages.encode(rules), raw)
        except PredicateFailedError:
            raise PreconditionError from None
        with self._lock:
            self._cache.pop(repository.partition, None)

    def require_writable(self, repository: Repository, branch: str) -> None:
        """Refuse to stage on a protected branch."""
        if self._is_protected(repository, branch):
            raise ProtectedBranchError

    def require_committable(self, repository: Repository, branch: str) -> None:
        """Refuse to commit on a protected branch."""
        if self._is_protected(repository, branch):
            raise ProtectedBranchError("cannot commit to protected branch")

    def _is_protected(self, repository: Repository, branch: str) -> bool:
        with self._lock:
            found = self._cache.get(repository.partition)
        if found is None or abs(self._clock() - found[0]) >= _CACHE_AGE_MAX:
            patterns = self.patterns(repository)[0]
        else:
            patterns = found[1]
        return any(fnmatch.fnmatchcase(branch, pattern) for pattern in patterns)

    def _raw(self, repository: Repository) -> bytes | None:
        try:
            return self._kv.get(repository.partition, _KEY)
        except KeyNotFoundError:
            return None


def _decode(raw: bytes) -> messages.BranchProtectionRules:
    return messages.decode(messages.BranchProtectionRules, raw, "branch protection rules")


def _etag(raw: bytes | None) -> str:
    return "" if raw is None else hashlib.sha256(raw).hexdigest()


_TAGS = b"tags/"


class Tags:
    """The tags of all repositories."""

    def __init__(self, kv: Store) -> None:
        self._kv = kv

    def get(self, repository: Repository, name: str) -> Tag:
        """Look up a tag."""
        try:
            return Tag.decode(self._kv.get(repository.partition, tag_key(name)))
        except KeyNotFoundError:
            raise TagNotFoundError from None

    def create(self, repository: Repository, tag: Tag) -> None:
        """Write a new tag."""
        try:
            self._kv.set_if(repository.partition, tag_key(tag.name), tag.encode(), None)
        except PredicateFailedError:
            raise TagExistsError from None

    def delete(self, repository: Repository, name: str) -> None:
        """Remove a tag."""
        self.get(repository, name)
        self._kv.delete(repository.partition, tag_key(name))

    def scan(self, repository: Repository, start: str = "") -> Iterator[Tag]:
        """Tags in name order, from a name on."""
        for entry in self._kv.scan(repository.partition, tag_key(start)):
            if not entry.key.startswith(_TAGS):
                return
            yield Tag.decode(entry.value)
