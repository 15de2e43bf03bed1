"""Drops staging partitions without a branch, in the background.

A token is first queued under `cleanup-tokens`; then its rows are deleted, then the queue's record. A crash at
any point leaves a record for the next process. Unlike a real server's, this drain runs at start-up too, and checks
the queue: a token still in use by a branch is kept, and its record removed. (A lost response during a reset can queue
a token in use; a real server then deletes uncommitted data.)

Source: lakeFS pkg/graveler/staging/manager.go
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator

from dredge.errors import DredgeError
from lakefs_embedded.errors import BranchNotFoundError
from lakefs_embedded.kv import Store
from lakefs_embedded.refs.branches import Branches
from lakefs_embedded.refs.repositories import Repositories

QUEUE_PARTITION = b"cleanup-tokens"
_MARKER = b"stub-value"  # what a real server writes

log = logging.getLogger(__name__)


class TokenDropper:
    """Queues tokens, and drops queued ones."""

    def __init__(
        self, kv: Store, repositories: Repositories, branches: Branches, *, background: bool
    ) -> None:
        self._kv = kv
        self._repositories = repositories
        self._branches = branches
        self._background = background
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False

    def queue(self, tokens: Iterable[str]) -> None:
        """Queue tokens just removed from a branch."""
        tokens = list(tokens)
        for token in tokens:
            self._kv.set(QUEUE_PARTITION, token.encode(), _MARKER)
        if tokens:
            self.wake()

    def wake(self) -> None:
        """Drain the queue, including tokens of other and earlier processes."""
        if not self._background:
            self.drain()
            return
        with self._lock:
            self._again = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="token-dropper", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Wait until the running drain has ended."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def drain(self) -> int:
        """Drop every queued token without a branch. Returns their number."""
        dropped = 0
        for key in [entry.key for entry in self._kv.scan(QUEUE_PARTITION)]:
            token = key.decode("utf-8", "surrogateescape")
            if self.is_named(token):
                log.warning("token %s was queued for dropping but a branch names it; kept", token)
            else:
                self._empty(key)
                dropped += 1
            self._kv.delete(QUEUE_PARTITION, key)
        return dropped

    def is_named(self, token: str) -> bool:
        """Whether the token's branch still has it.

        `<repository>-<branch>:<uuid>` is ambiguous because both names may contain "-": every split is tried.
        """
        return any(token in tokens for tokens in self._named_tokens(token))

    def _named_tokens(self, token: str) -> Iterator[tuple[str, ...]]:
        names = token.rpartition(":")[0]
        for cut in (index for index, char in enumerate(names) if char == "-"):
            repository = self._repositories.peek(names[:cut])
            if repository is None:
                continue
            try:
                yield self._branches.current(repository, names[cut + 1 :]).branch.tokens
            except BranchNotFoundError:
                continue

    def _empty(self, partition: bytes) -> None:
        for key in [entry.key for entry in self._kv.scan(partition)]:
            self._kv.delete(partition, key)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._again:
                    self._thread = None
                    return
                self._again = False
            try:
                self.drain()
            except DredgeError as error:  # the queue keeps the rest for the next wake
                log.warning("dropping staging tokens stopped: %s", error)
