"""What young commits keep alive to which no ref leads, and the server's walk may lose (L19).

    x ◀── old ✗            a walk that comes by x from the old commit first leaves it out: our own over the lines of
     ▲                     branches finds it again, unless no branch leads to the young one
     └─── young ✗          but the young one is in the server's list, so it can be asked for its parent

It takes a request for each such commit of the list. As a rule there are few: what was merged is in the history of a
branch. The staging records' store has them all, so where it is read nothing is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from dredge.gc.list_committed.graph import SLACK, Graph, known_commit
from dredge.gc.list_committed.sources import SERVER, Found
from dredge.gc.retention.policy.model import main_parent
from dredge.gc.run import Run
from dredge.graveler.retention import rules as retention
from dredge.lakefs import Commit
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_AT_ONCE = 16
REQUESTS_MAX = 20_000
"""More commits of the list are not asked for; the run warns."""


def kept_by_dangling(run: Run, found: Found, looked_at: Collection[str]) -> Graph:
    """Find the main parents of young commits to which no ref leads, and theirs as long as they are young as well.

    Args:
        run: the run.
        found: what the server says; takes a warning when not all are asked for.
        looked_at: active commits whose parents were found before.

    Raises:
        RefusedError: a commit of the server's list, or its parent, does not exist.
    """
    if found.rules is None or SERVER not in found.listed:
        return {}
    known = found.records | found.graph
    waiting = sorted(found.listed[SERVER].keys() - known.keys() - set(looked_at))
    if len(waiting) > REQUESTS_MAX:
        found.warnings.append(
            f"{len(waiting) - REQUESTS_MAX:,} active commits to which no ref leads were not asked for: what they keep"
            " alive and the server's walk left out is not kept. Name lakeFS's own key-value store (kv_conn_id), which"
            " tells of all"
        )
        del waiting[REQUESTS_MAX:]
    if waiting:
        log.info(
            "run %s: %d active commits to which no ref leads are asked for", run.plan.run_id, len(waiting)
        )
    # Such lines have the default rule. Times are whole seconds, and clocks differ: in doubt a commit is young.
    threshold = retention.Rules(found.rules.default_retention_days).threshold(
        run.plan.created_at - SLACK, None
    )
    looked, kept = set(looked_at), set[str]()
    while waiting:
        unknown = [commit_id for commit_id in waiting if commit_id not in known]
        for commit in ordered_map(lambda commit_id: _ask(run, commit_id), unknown, _AT_ONCE):
            known[commit.id] = commit
        looked.update(waiting)
        young = [known[commit_id] for commit_id in waiting if known[commit_id].created_at > threshold]
        parents = {parent for commit in young if (parent := main_parent(commit)) is not None}
        kept |= parents
        waiting = sorted(parents - looked)
    return {commit_id: known[commit_id] for commit_id in kept if commit_id in known}


def _ask(run: Run, commit_id: str) -> Commit:
    told = f"the server's list of active commits leads to {commit_id}, and lakeFS does not know that"
    return known_commit(run.client, run.plan.repository, commit_id, told)
