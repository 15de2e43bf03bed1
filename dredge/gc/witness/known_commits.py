"""Known commits: what the last complete mark called active, the server must still know.

lakeFS never removes the record of a commit. So a commit that a mark called active and the server does not know any more
means that this server has an older or another database.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from dredge.errors import NotFoundError
from dredge.gc.run import Run
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_AT_ONCE = 16


def find_unknown(run: Run, commits: Iterable[str]) -> list[str]:
    """Ask the server for commits, each by a request.

    A 404 counts only if the server also denies the commit under a shorter prefix of its id (L42), which
    `LakeFS.commit` asks for.

    Args:
        run: the run.
        commits: ids.

    Returns:
        Ids of those that the server does not know, sorted.
    """
    asked: Sequence[str] = sorted(commits)
    if asked:
        log.info(
            "run %s: lakeFS is asked for %d commits that the last mark called active",
            run.plan.run_id,
            len(asked),
        )
    known = ordered_map(lambda commit_id: _is_known(run, commit_id), asked, _AT_ONCE)
    return [commit_id for commit_id, found in zip(asked, known, strict=True) if not found]


def _is_known(run: Run, commit_id: str) -> bool:
    try:
        run.client.commit(run.plan.repository, commit_id)
    except NotFoundError:
        return False
    return True
