"""Resets: discard uncommitted changes.

Source: lakeFS pkg/graveler/graveler.go (Reset, ResetKey, ResetPrefix; behaviour only).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.errors import TooManyTriesError
from lakefs_embedded.kv import PredicateFailedError
from lakefs_embedded.refs.branches import Branches
from lakefs_embedded.refs.records import new_staging_token
from lakefs_embedded.staging.area import Staged, StagingAreas
from lakefs_embedded.staging.combined import staged_changes, staged_value
from lakefs_embedded.staging.drop import TokenDropper
from lakefs_embedded.staging.flows import write_staged
from lakefs_embedded.staging.protocol import CommitProtocol

Lookup = Callable[[str, bytes], Value | None]
"""`lookup(commit id, path)`: the committed value, or None."""


class Resets:
    """The three resets of a branch."""

    def __init__(
        self,
        branches: Branches,
        areas: StagingAreas,
        protocol: CommitProtocol,
        dropper: TokenDropper,
        lookup: Lookup,
        tries: int,
    ) -> None:
        self._branches = branches
        self._areas = areas
        self._protocol = protocol
        self._dropper = dropper
        self._lookup = lookup
        self._tries = tries

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
                self._branches.change(repository, stored, branch.sealed(token))
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
