"""The writer's and the reader's flow: how both live with commits that start meanwhile.

Writer: read the branch (the cache will do) → write to its staging token → read the branch again (never the
    cache). Same token: no commit began while writing, done. Another token: do it again; the first write may
    or may not have made it into the commit, and writing the same value twice changes nothing.

Reader: read the branch (the cache will do) → read through its tokens and commit → read the branch again.
    Unchanged: done. Changed: tokens may have been emptied under the reader, so read again.

Source: design "lakeFS on KV", writer flow and reader flow.
"""

from __future__ import annotations

from collections.abc import Callable

from dredge.graveler.errors import TooManyTriesError
from dredge.graveler.refs.branches import Branches
from dredge.graveler.refs.records import Branch, Repository

READ_TRIES = 10


def write_staged(
    branches: Branches,
    repository: Repository,
    name: str,
    write: Callable[[Branch], None],
    tries: int,
) -> None:
    """Run the writer's flow.

    Args:
        branches: branch records.
        repository: where.
        name: branch.
        write: writes to `branch.staging_token`; must be idempotent.
        tries: how often at most.

    Raises:
        BranchNotFoundError: 404; also when the branch was deleted while writing.
        TooManyTriesError: 429, commits began during every try. The write may have happened.
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
    """Run the reader's flow.

    Args:
        branches: branch records.
        repository: where.
        name: branch.
        read: reads through `branch.tokens` and `branch.commit_id`, to the end: no lazy results.

    Raises:
        BranchNotFoundError: 404.
        TooManyTriesError: 429, the branch changed during every try.
    """
    branch = branches.cached(repository, name).branch
    for _ in range(READ_TRIES):
        result = read(branch)
        after = branches.current(repository, name).branch
        if after == branch:
            return result
        branch = after
    raise TooManyTriesError
