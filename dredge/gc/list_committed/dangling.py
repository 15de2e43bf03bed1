"""What young commits keep alive to which no ref leads, and the server's walk may lose (L19).

    x ◀── old ✗            a walk that comes by x from the old commit first leaves it out: our own over the lines of
     ▲                     branches finds it again, unless no branch leads to the young one
     └─── young ✗          but the young one is in the server's list, so it can be asked for its parent

It takes a request for each such commit of the list. As a rule there are few: what was merged is in the history of a
branch. The staging records' store has them all, so where it is read nothing is asked. A re-check does not ask: what its
mark found is subtracted, and what a commit keeps since it lost its branch, or since rules are longer, is found by the
mark of the run that would delete it.
"""

from __future__ import annotations

import logging

from dredge.errors import NotFoundError
from dredge.gc.list_committed.graph import SLACK, Graph, known_commit
from dredge.gc.list_committed.sources import SERVER, Found
from dredge.gc.retention.policy.model import main_parent
from dredge.gc.run import Run
from dredge.lakefs import Commit
from dredge.lakefs.files import gc_files as retention
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_AT_ONCE = 16
PLENTY = 20_000
"""When more commits of the list are asked for, the run says what would save that."""


def kept_by_dangling(run: Run, found: Found) -> Graph:
    """Find the main parents of young commits on the lines of those to which no ref leads, down to their roots: a commit
    may claim any date, so a young one may come after an old one.

    Args:
        run: the run.
        found: what the server says; takes a warning when very many are asked for.

    Raises:
        RefusedError: a commit of the server's list, or its parent, does not exist.
    """
    if found.rules is None or SERVER not in found.listed:
        return {}
    known = found.records | found.graph
    waiting = sorted(found.listed[SERVER].keys() - known.keys())
    if len(waiting) > PLENTY:
        found.warnings.append(
            f"{len(waiting):,} active commits to which no ref leads are asked for, each by a request; lakeFS's own"
            " key-value store (kv_conn_id) would tell of all"
        )
    if waiting:
        log.info(
            "run %s: %d active commits to which no ref leads are asked for", run.plan.run_id, len(waiting)
        )
    # Such lines have the default rule. Times are whole seconds, and clocks differ: in doubt a commit is young.
    threshold = retention.Rules(found.rules.default_retention_days).threshold(
        run.plan.created_at - SLACK, None
    )
    done, kept = set[str](), set[str]()
    for commit in ordered_map(lambda commit_id: _ask(run, commit_id), waiting, _AT_ONCE):
        known[commit.id] = commit
    while waiting:
        commit_id = waiting.pop()
        done.add(commit_id)
        if commit_id not in known:
            _read_line(run, commit_id, known)
        parent = main_parent(known[commit_id])
        if parent is not None and known[commit_id].created_at > threshold:
            kept.add(parent)
        if parent is not None and parent not in done:
            waiting.append(parent)
    return {commit_id: known[commit_id] for commit_id in kept if commit_id in known}


def _read_line(run: Run, commit_id: str, known: Graph) -> None:
    """Read a commit that the server's list does not name, and by pages what is behind it, until its line comes to what
    is known. What a page lacks is asked for by itself in its turn."""
    known[commit_id] = _ask(run, commit_id)
    found: Graph = {}
    wanted = main_parent(known[commit_id])
    if wanted is None or wanted in known:
        return
    try:
        for commit in run.client.log(run.plan.repository, commit_id):
            found[commit.id] = commit
            while wanted in found:
                wanted = main_parent(found[wanted])
            if wanted is None or wanted in known:
                break
    except NotFoundError:
        log.info("run %s: lakeFS has no log of commit %s", run.plan.run_id, commit_id)
    known |= found


def _ask(run: Run, commit_id: str) -> Commit:
    told = f"the server's list of active commits leads to {commit_id}, and lakeFS does not know that"
    return known_commit(run.client, run.plan.repository, commit_id, told)
