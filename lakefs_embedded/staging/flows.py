"""The writer's and the reader's flow, correct during concurrent commits.

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

Source: design "lakeFS on KV", writer flow and reader flow.
"""

from __future__ import annotations

from collections.abc import Callable

from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.errors import TooManyTriesError
from lakefs_embedded.refs.branches import Branches

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
