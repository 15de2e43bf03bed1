"""Throwing uncommitted changes away.

Source: lakeFS pkg/graveler/graveler.go (Reset, ResetKey, ResetPrefix; behaviour only).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dredge.graveler.committed import Value
from dredge.graveler.errors import TooManyTriesError
from dredge.graveler.refs.branches import Branches
from dredge.graveler.refs.records import Branch, Repository, new_staging_token
from dredge.graveler.staging.area import Staged, StagingAreas
from dredge.graveler.staging.combined import staged_changes, staged_value
from dredge.graveler.staging.drop import TokenDropper
from dredge.graveler.staging.flows import write_staged
from dredge.graveler.staging.protocol import CommitProtocol
from dredge.kv import PredicateFailedError

Lookup = Callable[[str, bytes], Value | None]
"""`lookup(commit id, path)`: the committed value, or None."""


class Resets:
    """The three resets of a branch.

    Args:
        branches: branch records.
        areas: staging areas.
        protocol: changes branches.
        dropper: takes tokens that are not needed any more.
        lookup: reads committed values.
        tries: tries of one request.
    """

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
        """Give the branch a fresh token and drop all others."""
        thrown: tuple[str, ...] = ()

        def fresh(branch: Branch) -> Branch:
            nonlocal thrown
            thrown = branch.tokens
            return replace(branch, staging_token=new_staging_token(repository.name, name), sealed_tokens=())

        self._protocol.change(repository, name, fresh)
        self._dropper.queue(thrown)

    def path(self, repository: Repository, name: str, path: bytes) -> None:
        """Stage what is committed at a path, or a tombstone, on top of what is staged there.

        Nothing happens when nothing is staged there, or something of the committed identity (L45).
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
        """Put what is committed below a prefix back on top, and tombstones on what is new there.

        All goes to a token that no branch names yet; naming it is the last step, so the reset is seen whole
        or not at all. (A real server puts the tombstones into the current token before.) For the length of
        the request rows exist that look like trash and are about to be live.
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
                self._dropper.queue(
                    (token,)
                )  # certainly not named; after any other error it might be: keep it
                continue
            return
        raise TooManyTriesError


def same_identity(left: Value | None, right: Value | None) -> bool:
    """Say whether two values are no difference. Addresses and times do not count."""
    if left is None or right is None:
        return left is right
    return left.identity == right.identity
