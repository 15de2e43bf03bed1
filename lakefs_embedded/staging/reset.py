"""Resets discard uncommitted changes; staging partitions without a branch are dropped in the background.

A token is first queued under `cleanup-tokens`; then its rows are deleted, then the queue's record. A crash at
any point leaves a record for the next process. Unlike a real server's, this drain runs at start-up too, and checks
the queue: a token still in use by a branch is kept, and its record removed. (A lost response during a reset can queue
a token in use; a real server then deletes uncommitted data.)

Source: lakeFS pkg/graveler/staging/manager.go, pkg/graveler/graveler.go (Reset, ResetKey, ResetPrefix; behaviour only).
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from dredge.errors import DredgeError
from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.errors import BranchNotFoundError, TooManyTriesError
from lakefs_embedded.kv import PredicateFailedError, Store
from lakefs_embedded.refs.branches import Branches
from lakefs_embedded.refs.records import new_staging_token, sealed
from lakefs_embedded.refs.repositories import Repositories
from lakefs_embedded.staging.area import Staged, StagingAreas, staged_changes, staged_value
from lakefs_embedded.staging.protocol import CommitProtocol, write_staged

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


Lookup = Callable[[str, bytes], Value | None]
"""`lookup(commit id, path)`: the committed value, or None."""


@dataclass(eq=False)
class Resets:
    """The three resets of a branch."""

    _branches: Branches
    _areas: StagingAreas
    _protocol: CommitProtocol
    _dropper: TokenDropper
    _lookup: Lookup
    _tries: int

    def everything(self, repository: Repository, name: str) -> None:
        """Give the branch a new token and drop all others."""
        thrown: tuple[str, ...] = ()

        def fresh(branch: Branch) -> Branch:
            nonlocal thrown
            thrown = branch.tokens
            return replace(branch, staging_token=new_staging_token(repository.name, name), sealed_tokens=())

        self._protocol.change(repository, name, fresh)
        self._dropper.queue(thrown)

    def path(self, repository: Repository, name: str, path: bytes) -> None:
        """Stage the committed value of a path, or a tombstone, on top of its staged value.

        Does nothing without a staged value, or if it has the committed identity (L45).
        """

        def write(branch: Branch) -> None:
            staged = staged_value(self._areas, branch.tokens, path)
            if staged is None:
                return
            committed = self._lookup(branch.commit_id, path)
            if same_identity(staged.value, committed):
                return
            self._areas.put(branch.staging_token, Staged(path, committed))

        write_staged(self._branches, repository, name, write, self._tries)

    def prefix(self, repository: Repository, name: str, prefix: bytes) -> None:
        """Stage the committed values below a prefix, and tombstones for new paths.

        All rows are written to a new token, which is added to the branch at the end: the reset is visible as a whole or
        not at all. (A real server first puts the tombstones into the current token.) During the request these rows look
        like trash, but will be live.
        """
        for _ in range(self._tries):
            stored = self._branches.current(repository, name)
            branch = stored.branch
            token = new_staging_token(repository.name, name)
            for staged in staged_changes(self._areas, branch.tokens, prefix):
                if not staged.path.startswith(prefix):
                    break
                committed = self._lookup(branch.commit_id, staged.path)
                self._areas.put(token, Staged(staged.path, committed))
            try:
                self._branches.change(repository, stored, sealed(branch, token))
            except PredicateFailedError:
                # No branch names the token. After any other error one might, so the token is kept.
                self._dropper.queue((token,))
                continue
            return
        raise TooManyTriesError


def same_identity(left: Value | None, right: Value | None) -> bool:
    """Whether two values have the same content; addresses and times may differ."""
    if left is None or right is None:
        return left is right
    return left.identity == right.identity
