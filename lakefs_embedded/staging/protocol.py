"""The writer's, the reader's and the committer's flow, correct during concurrent commits.

    writer    read the branch (may be cached)
              write to its staging token
              read the branch again (never cached)
                 same token       no commit began while writing: done
                 another token    write again: the first write may or may not be in the commit, and writing
                                  the same value twice changes nothing

    reader    read the branch (may be cached)
              read through its tokens and its commit
              read the branch again (never cached)
                 unchanged        done
                 changed          its tokens may have been emptied during the read: read again

    committer
    1 seal       set_if: the staging token becomes the newest sealed token, a new token takes its place
    2 build      head + sealed tokens → ranges, metarange; the commit record is written
    3 fast path  set_if on the record written in step 1: head = the commit, no sealed tokens
    4 full       if 3 failed: read the branch, and compare its sealed tokens with ours

In step 4 the tokens (newest first) overlap: some first ones of ours are the last ones of the branch's.

    ours            t3 t2 t1
    branch    t5 t4 t3 t2 t1    others sealed meanwhile: take ours out, set_if
    branch    t5 t4 t3          an earlier commit took t1 and t2 and moved the head: build again on it, set_if
    branch    t5                a later commit took all of ours: an empty commit

A set_if fails only because another one succeeded, so at least one committer makes progress. After any failure or
crash, the branch keeps a token until the commit with the token's changes is its head. Possible leftovers are a
dangling commit and, after the last set_if, tokens not queued for dropping.

Source: design "lakeFS on KV", writer flow, reader flow and committer flow; lakeFS pkg/graveler/graveler.go.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.errors import DirtyBranchError, TooManyTriesError
from lakefs_embedded.kv import PredicateFailedError
from lakefs_embedded.refs.branches import Branches, Stored
from lakefs_embedded.refs.records import Commit, new_staging_token, sealed

READ_TRIES = 10


def write_staged(
    branches: Branches,
    repository: Repository,
    name: str,
    write: Callable[[Branch], None],
    tries: int,
) -> None:
    """Write to a branch by the writer's flow; `write` writes to `branch.staging_token` and must be idempotent.

    After TooManyTriesError (429, a commit began during every try) the write may have taken effect.
    """
    branch = branches.cached(repository, name).branch
    for _ in range(tries):
        write(branch)
        after = branches.current(repository, name).branch
        if after.staging_token == branch.staging_token:
            return
        branch = after
    raise TooManyTriesError


def read_branch[T](branches: Branches, repository: Repository, name: str, read: Callable[[Branch], T]) -> T:
    """Read by the reader's flow, through `branch.tokens` and `branch.commit_id`; no result may be lazy."""
    branch = branches.cached(repository, name).branch
    for _ in range(READ_TRIES):
        result = read(branch)
        after = branches.current(repository, name).branch
        if after == branch:
            return result
        branch = after
    raise TooManyTriesError


COMMIT_TRIES = 10  # of the last step of a commit, before it fails with 429
_BACKOFF_SECONDS_MAX = 5.0

Build = Callable[[str, Sequence[str]], Commit]
"""`build(head commit id, tokens)` writes a commit's tables, then its record; tokens are newest first.

Raises NoChangesError if the tokens change nothing (unless allowed).
"""


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit; rows of the `dropped` tokens are garbage."""

    commit: Commit
    dropped: tuple[str, ...]


class CommitProtocol:
    """Commits on branches, safe with any number of concurrent commits."""

    def __init__(self, branches: Branches, tries: int, sleep: Callable[[float], None]) -> None:
        self._branches = branches
        self._tries = tries
        self._sleep = sleep

    def commit_staged(self, repository: Repository, name: str, build: Build) -> Committed:
        """Commit the changes staged before this call, and possibly some staged during it.

        After NoChangesError, also when a concurrent commit took all changes, the token stays sealed; after
        TooManyTriesError the changes stay on the branch.
        """
        sealed = self.seal(repository, name)
        ours = sealed.branch.sealed_tokens
        base = sealed.branch.commit_id
        commit = build(base, ours)
        try:
            self._branches.change(
                repository, sealed, replace(sealed.branch, commit_id=commit.id, sealed_tokens=())
            )
        except PredicateFailedError:
            return self._full_commit(repository, name, build, ours, base, commit)
        return Committed(commit, ours)

    def commit_tree(
        self,
        repository: Repository,
        name: str,
        build: Callable[[str], Commit],
        is_dirty: Callable[[Branch], bool],
    ) -> Committed:
        """Commit unstaged content (a merge, a revert, a metarange), built on top of a head commit id.

        Raises DirtyBranchError; if `is_dirty` before the token is sealed, the branch stays as it was.
        """
        if is_dirty(self._branches.current(repository, name).branch):
            raise DirtyBranchError
        self.seal(repository, name)
        for attempt in range(self._tries):
            stored = self._branches.current(repository, name)
            if is_dirty(replace(stored.branch, staging_token="")):
                raise DirtyBranchError
            commit = build(stored.branch.commit_id)
            new = replace(stored.branch, commit_id=commit.id, sealed_tokens=())
            if self._try_change(repository, stored, new, attempt):
                return Committed(commit, stored.branch.sealed_tokens)
        raise TooManyTriesError

    def seal(self, repository: Repository, name: str) -> Stored:
        """Seal the staging token and put a new one in its place."""
        return self.change(
            repository, name, lambda branch: sealed(branch, new_staging_token(repository.name, name))
        )

    def change(self, repository: Repository, name: str, new: Callable[[Branch], Branch]) -> Stored:
        """Change a branch; `new` makes the new value from the present one, again after each lost race."""
        for attempt in range(self._tries):
            stored = self._branches.current(repository, name)
            try:
                return self._branches.change(repository, stored, new(stored.branch))
            except PredicateFailedError:
                self._back_off(attempt)
        raise TooManyTriesError

    def _full_commit(
        self,
        repository: Repository,
        name: str,
        build: Build,
        ours: tuple[str, ...],
        base: str,
        commit: Commit,
    ) -> Committed:
        for attempt in range(self._tries):
            stored = self._branches.current(repository, name)
            mine = overlap(ours, stored.branch.sealed_tokens)
            if stored.branch.commit_id != base or mine != ours:
                base, ours = stored.branch.commit_id, mine
                commit = build(base, ours)  # no tokens are left if a later commit or a reset took them all
            kept = stored.branch.sealed_tokens[: len(stored.branch.sealed_tokens) - len(mine)]
            new = replace(stored.branch, commit_id=commit.id, sealed_tokens=kept)
            if self._try_change(repository, stored, new, attempt):
                return Committed(commit, mine)
        raise TooManyTriesError

    def _try_change(self, repository: Repository, stored: Stored, new: Branch, attempt: int) -> bool:
        try:
            self._branches.change(repository, stored, new)
        except PredicateFailedError:
            self._back_off(attempt)
            return False
        return True

    def _back_off(self, attempt: int) -> None:
        self._sleep(min(_BACKOFF_SECONDS_MAX, random.random() * 0.002 * 2**attempt))


def overlap(ours: tuple[str, ...], present: tuple[str, ...]) -> tuple[str, ...]:
    """The longest prefix of `ours` (newest first) which is a suffix of the branch's sealed tokens `present`.

    Returns () when they do not overlap.
    """
    for length in range(min(len(ours), len(present)), 0, -1):
        if ours[:length] == present[-length:]:
            return ours[:length]
    return ()
