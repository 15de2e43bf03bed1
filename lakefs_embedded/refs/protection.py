"""Protected branches: name patterns of branches open only to merges.

Source: lakeFS pkg/graveler/branch/protection_manager.go (behaviour only).
"""

from __future__ import annotations

import fnmatch
import hashlib
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository
from lakefs_embedded.errors import PreconditionError, ProtectedBranchError
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store

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
