"""The commits of a repository, by whether a branch or tag leads to them or a rule keeps them, and what is at work."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from dredge.gc.insight.base_run import all_commits
from dredge.gc.list_committed import Graph, active_by_rules, load_graph
from dredge.gc.mark_uncommitted import KVAccess, RepositoryRecords
from dredge.kv.rows import show_key
from dredge.lakefs import LakeFS
from dredge.lakefs.files import messages

_IMPORTS, _TASKS, _PREPARE = b"imports/", b"tasks/", b"GCPC"


@dataclass(slots=True)
class History:
    """Commits, and what may be about to make some.

    Attributes:
        kept: that a branch or a tag leads to, expired or not, or that the rules keep.
        unreachable: all others that are known.
        complete: whether every commit is known; else only those that refs lead to are.
        named: metaranges that other records name.
        at_work: imports and tasks that have not ended, in words.
    """

    kept: Graph
    unreachable: Graph = field(default_factory=dict)
    complete: bool = False
    named: set[str] = field(default_factory=set)
    at_work: list[str] = field(default_factory=list)


def read_history(
    client: LakeFS, repository: str, namespace: str, now: datetime, access: KVAccess | None
) -> History:
    """Read the commits of a repository: those that refs lead to, and all others where the records can be read.

    Args:
        client: the lakeFS server.
        repository: name.
        namespace: URI of its storage namespace.
        now: for the rules.
        access: to lakeFS's key-value store; None knows only what refs lead to.

    Raises:
        RefusedError: history cannot be read to its root, or the store is another installation's.
    """
    branches, tags = client.branches(repository), client.tags(repository)
    graph = load_graph(client, repository, branches)
    load_graph(client, repository, tags, graph)
    if access is None:
        return History(graph)
    known = {**all_commits(access, repository, namespace), **graph}
    rules = client.rules(repository)
    active = known.keys() if rules is None else active_by_rules(known, branches, rules, now)
    found = History(
        kept={item: commit for item, commit in known.items() if item in graph or item in active},
        unreachable={
            item: commit for item, commit in known.items() if item not in graph and item not in active
        },
        complete=True,
    )
    with access.open() as store, store.view() as view:
        records = RepositoryRecords(repository, namespace, view, store.location)
        found.named, found.at_work = read_work(records)
    return found


def read_work(records: RepositoryRecords) -> tuple[set[str], list[str]]:
    """Read what imports and tasks say: metaranges that they name, and those that have not ended, in words."""
    named, at_work = set[str](), list[str]()
    for name, value in records.rows(_IMPORTS):
        status = messages.decode(messages.ImportStatusData, value, show_key(_IMPORTS, name))
        if status.metarange_id:
            named.add(status.metarange_id)
        if not status.completed and not status.error:
            at_work.append(f"import {status.id}")
    for name, value in records.rows(_TASKS):
        # Every kind of task begins with the same member. Those that prepare a collection write no ranges.
        of_task = messages.decode(messages.RepositoryRestoreStatus, value, show_key(_TASKS, name))
        if not of_task.task.done and not name.startswith(_PREPARE):
            at_work.append(f"{of_task.task.operation or 'task'} {of_task.task.id}")
    return named, at_work
