"""Where the refs and the history of a repository come from, and which commits are active by lakeFS's rules.

    server     its branches, tags and logs, and its own list of active commits (prepare_commits)
    records    the key-value store's branches, tags and commits; the walk over them is done here

The server's walk goes over every commit, dangling ones too, and so does the one here, by the same rules (they lie in
the object store; the server only hands them out). Ours marks a commit before it asks whether another walk came by, and
takes the store's time less some minutes, so it finds what the server finds and what the server's walk loses (L19).
Nothing is computed by the server, which prepare_commits can end for want of memory.

Records are read in the order branches, tags, commits. In PostgreSQL and SQLite they are of one moment. In DynamoDB each
read is later than the one before: a commit is written before a ref names it and is never removed, so the commits have
all that the refs lead to. What refs do after their turn is the same as what they do after the mark: heads of the time
when staging was read count besides, range files that a commit wrote meanwhile count whatever names them, and the
re-check and the watch over branch heads find the rest. So branches before commits, and both after staging.

In doubt (`kv_standing`) the server is asked, and what the records name counts besides.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.config import AUTO
from dredge.gc.list_committed.graph import (
    Graph,
    active_by_rules,
    check_against_graph,
    close_graph,
    load_graph,
    read_commits_csv,
)
from dredge.gc.mark_uncommitted import RepositoryRecords, Standing, look
from dredge.gc.namespaces import key_of
from dredge.gc.run import Run
from dredge.lakefs import Ref, Rules
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

SERVER, RECORDS = "server", "records"


@dataclass(slots=True)
class Found:
    """Refs, history and active commits of a repository.

    Attributes:
        branches: hidden ones too.
        tags: all of them.
        graph: every commit that branches lead to, and tags where these are kept.
        rules: the repository's; None where it has none.
        all_commits: whether there are no rules, so that nothing ever expires.
        listed: metarange id by commit, of the commits that each source calls active.
        records: every commit of the key-value store; empty where it was not read.
        warnings: for the report.
    """

    branches: list[Ref]
    tags: list[Ref]
    graph: Graph
    rules: Rules | None
    all_commits: bool
    listed: dict[str, dict[str, str]] = field(default_factory=dict)
    records: Graph = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def find_history(run: Run) -> Found:
    """Read refs and history, and find what is active by lakeFS's rules.

    Raises:
        RefusedError: an answer that could hide active commits, or a head without its commit.
        FormatError: a damaged answer or record.
    """
    if not run.plan.config.read_kv:
        return _from_server(run)
    with at_once() as ask:
        rules = ask(run.client.rules, run.plan.repository)
        recorded, standing = look(run, _Recorded)
    found = _from_records(run, recorded, rules.result())
    if run.plan.config.live_source == AUTO and not standing.doubt:
        return found
    return _besides(found, _from_server(run), standing)


class _Recorded:
    """What the key-value store has of refs and commits."""

    def __init__(self, records: RepositoryRecords) -> None:
        self.branches = [Ref(branch.name, branch.commit_id) for branch in records.branches()]
        self.tags = records.tags()
        self.commits = records.commits()  # last: they have what the refs lead to


def _from_records(run: Run, recorded: _Recorded, rules: Rules | None) -> Found:
    plan = run.plan
    branches = _in_order(run, recorded.branches)
    refs = [*branches, *(recorded.tags if plan.config.keep_tags else ())]
    graph = close_graph(recorded.commits, refs, plan.repository)
    found = Found(branches, recorded.tags, graph, rules, rules is None, records=recorded.commits)
    if rules is not None:
        # Of what refs lead to also by itself: a dangling commit with an old date must not hide the end of a line.
        active = active_by_rules(graph, branches, rules, plan.created_at)
        active |= active_by_rules(recorded.commits, branches, rules, plan.created_at)
        found.listed[RECORDS] = {commit: recorded.commits[commit].metarange_id for commit in active}
    return found


def _from_server(run: Run) -> Found:
    """Heads are proved to exist first, then the server is asked for the active commits."""
    client, plan = run.client, run.plan
    branches = _in_order(run, client.branches(plan.repository))
    tags = client.tags(plan.repository)
    graph = load_graph(client, plan.repository, branches)
    if plan.config.keep_tags:
        load_graph(client, plan.repository, tags, graph)
    log.info(
        "run %s: lakeFS computes the active commits (branches: %d); usually seconds, some minutes in long histories",
        plan.run_id,
        len(branches),
    )
    prepared = client.prepare_commits(plan.repository, plan.config.safety.prepare_deadline_seconds)
    rules = client.rules(plan.repository)
    found = Found(branches, tags, graph, rules, prepared is None or rules is None)
    if prepared is not None:
        found.listed[SERVER] = _read_server_list(run, prepared.location, branches)
        check_against_graph(found.listed[SERVER], graph, prepared.location)
        if rules is None:
            found.warnings.append(
                "the rules were deleted while the run went on; every commit counts as active"
            )
    return found


def _besides(records: Found, server: Found, standing: Standing) -> Found:
    """What the server says, and what the records call active besides."""
    if standing.doubt:
        server.warnings.append(
            f"commits were not read from the key-value store alone, but lakeFS was asked, too: {standing.doubt}"
        )
    # Without rules, everything that the records' refs lead to.
    every = {commit.id: commit.metarange_id for commit in records.graph.values()}
    server.listed[RECORDS] = records.listed.get(RECORDS, every)
    check_against_graph(server.listed[RECORDS], server.graph, standing.location)
    server.records = records.records
    return server


def _in_order(run: Run, branches: Collection[Ref]) -> list[Ref]:
    """All branches, the default one first: as a rule it has the longest history."""
    plan = run.plan
    if not branches:
        raise RefusedError(
            f"lakeFS lists no branches of {plan.repository}; every repository has one. Nothing was deleted."
        )
    return sorted(branches, key=lambda branch: (branch.id != plan.default_branch, branch.id))


def _read_server_list(run: Run, location: str, branches: list[Ref]) -> dict[str, str]:
    try:
        data = run.reader.get(key_of(location, run.plan.namespace))
    except NotFoundError:
        raise RefusedError(
            f"lakeFS says that it wrote the active commits to {location}, but there is no such object."
            " Nothing was deleted."
        ) from None
    server = read_commits_csv(data, location)
    if not server:
        raise RefusedError(
            f"the server's list of active commits ({location}) is empty although there are {len(branches)}"
            " branches. Nothing was deleted. Read the lakeFS log."
        )
    return server
