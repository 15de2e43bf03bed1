"""Dropping staging partitions that no branch names any more, in the background.

A token to drop is first queued under `cleanup-tokens`; then its rows go, then the queue's record, so a crash
at any point leaves a record from which the next process goes on. Unlike a real server's, this drainer begins
at start-up, and never believes the queue: a token that a branch still names is left alone and its record
removed (facts 6.7: a lost answer during a reset can queue a token in use, and a real server then deletes
uncommitted data).

Source: lakeFS pkg/graveler/staging/manager.go
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator

from dredge.errors import DredgeError
from dredge.graveler.errors import BranchNotFoundError
from dredge.graveler.refs.branches import Branches
from dredge.graveler.refs.repositories import Repositories
from dredge.kv import Store

QUEUE_PARTITION = b"cleanup-tokens"
_MARKER = b"stub-value"  # what a real server writes

log = logging.getLogger(__name__)


class TokenDropper:
    """Queues tokens and drains the queue.

    Args:
        kv: where both are.
        repositories: to look references up.
        branches: to look references up.
        background: drain in a thread; False drains before `queue` returns.
    """

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
        """Queue tokens that the caller has just taken off a branch."""
        tokens = list(tokens)
        for token in tokens:
            self._kv.set(QUEUE_PARTITION, token.encode(), _MARKER)
        if tokens:
            self.wake()

    def wake(self) -> None:
        """Drain what is queued, also by others and by earlier processes."""
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
        """Drop every queued token that nothing names.

        Returns:
            How many partitions were emptied.
        """
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
        """Say whether a branch of that name in a repository of that name uses a token.

        The text `<repository>-<branch>:<uuid>` can be read in several ways, as both names may hold "-".
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
            except DredgeError as error:  # the queue keeps what is left; the next wake goes on
                log.warning("dropping staging tokens stopped: %s", error)
