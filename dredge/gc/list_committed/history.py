"""The history of refs, and what it says of the active commits.

History is read through the API, each commit once. The walk of `retention.active` over it marks a commit before it asks
whether the commit was walked through, so it finds what a real server's walk can lose. More active commits than
needed only keep data longer.

Where the refs and the history of a repository come from, and which commits are active by lakeFS's rules.

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

import csv
import io
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.config import AUTO
from dredge.gc.mark_uncommitted import RepositoryRecords, Standing, look
from dredge.gc.namespaces import key_of
from dredge.gc.retention.active import active_commits
from dredge.gc.run import Run
from dredge.lakefs import Commit, LakeFS, Ref, Rules
from dredge.lakefs.files import gc_files as retention
from dredge.lakefs.files import records
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

type Graph = dict[str, Commit]
"""Commits by id, closed: with a commit all its ancestors."""

SLACK = timedelta(minutes=5)
"""So much younger than its date says a commit may be."""


def known_commit(client: LakeFS, repository: str, commit_id: str, told: str) -> Commit:
    """Read a commit that there must be.

    Args:
        client: of the server.
        repository: its name.
        commit_id: of the commit.
        told: for the message: who leads there, and that lakeFS does not know it.

    Raises:
        RefusedError: it does not exist.
    """
    try:
        return client.commit(repository, commit_id)
    except NotFoundError as error:
        raise RefusedError(f"{told}: {error}. Nothing was deleted. Start a new run.") from None


def load_graph(client: LakeFS, repository: str, refs: Sequence[Ref], graph: Graph | None = None) -> Graph:
    """Read the history of refs, each commit once, and prove that each ref's commit exists.

    A branch head without its record ends lakeFS's process when it is asked for active commits, so this comes
    first.

    Args:
        client: the server.
        repository: name.
        refs: branches or tags; put the one with the longest history first.
        graph: commits that were read already; it grows.

    Returns:
        The graph.

    Raises:
        RefusedError: a ref's commit does not exist, or history cannot be read to its root.
    """
    read: Graph = {} if graph is None else graph
    for ref in refs:
        if ref.commit_id in read:
            continue
        try:
            missing = _read(client.log(repository, ref.id), ref.commit_id, read)
        except NotFoundError:
            missing = {ref.commit_id}  # the ref has gone, or the server's cache denies its commit
        if missing:
            _read_by_id(client, repository, ref, read)
    return read


def _read(log: Iterable[Commit], wanted: str, graph: Graph) -> set[str]:
    """Take commits from a log until the graph has the wanted one and all its ancestors; gives the ids that are still
    missing."""
    found: Graph = {}
    missing = {wanted}
    for commit in log:
        missing.discard(commit.id)
        found[commit.id] = commit
        missing.update(parent for parent in commit.parents if parent not in found and parent not in graph)
        if not missing:
            break
    # Where only the wanted commit is missing, the ref has moved: what it shows now is closed, too.
    if not missing or missing == {wanted}:
        graph.update(found)
    return missing


def _read_by_id(client: LakeFS, repository: str, ref: Ref, graph: Graph) -> None:
    """Follow the history of a ref's commit by ids, with a request for each commit: slow, but independent of caches and
    of what became of the ref."""
    found: Graph = {}
    waiting = [ref.commit_id]
    while waiting:
        commit_id = waiting.pop()
        if commit_id in graph or commit_id in found:
            continue
        try:
            commit = client.commit(repository, commit_id)
        except NotFoundError:
            raise RefusedError(
                f"{ref.id} of {repository} leads to commit {commit_id}, which does not exist, also not"
                " under a shorter prefix of its id. Asked for active commits, lakeFS would end its process."
                " Nothing was deleted. Repair the branch by a hard reset to a sound ref, then start a new"
                " run."
            ) from None
        found[commit_id] = commit
        waiting.extend(commit.parents)
    graph.update(found)


def close_graph(every: Graph, refs: Iterable[Ref], repository: str) -> Graph:
    """The history of refs, taken from commits that were read already.

    Args:
        every: commits by id.
        refs: branches or tags.
        repository: name, for the message.

    Raises:
        RefusedError: a ref's commit, or an ancestor of it, is not among them.
    """
    graph: Graph = {}
    for ref in refs:
        waiting = [ref.commit_id]
        while waiting:
            commit_id = waiting.pop()
            if commit_id in graph:
                continue
            if commit_id not in every:
                raise RefusedError(
                    f"{ref.id} of {repository} leads to commit {commit_id}, of which the key-value store has no record."
                    " Asked for active commits, lakeFS would end its process. Nothing was deleted. Repair the branch by"
                    " a hard reset to a sound ref, then start a new run."
                )
            graph[commit_id] = every[commit_id]
            waiting.extend(every[commit_id].parents)
    return graph


def active_by_rules(graph: Graph, branches: Sequence[Ref], rules: Rules, now: datetime) -> set[str]:
    """Compute the active commits of what refs lead to.

    Args:
        graph: closed.
        branches: all of them, hidden ones too.
        rules: days by branch, and the default.
        now: the store's time; earlier is safer.
    """
    commits = [
        records.Commit(
            id=commit.id,
            committer="",
            message="",
            creation_date=commit.created_at,
            metarange_id=commit.metarange_id,
            parents=commit.parents,
            version=commit.version,
        )
        for commit in graph.values()
    ]
    heads = [records.Branch(branch.id, branch.commit_id, "") for branch in branches]
    days = retention.Rules(rules.default_retention_days, rules.branches)
    # Times from the API are whole seconds, and clocks differ a little: in doubt a commit is young.
    try:
        return set(active_commits(commits, heads, days, now - SLACK))
    except NotFoundError:
        raise RefusedError(
            "a commit has a parent of which there is no record, so what it keeps alive cannot be told. Nothing was"
            " deleted. Asked for active commits, lakeFS would end its process."
        ) from None


def read_commits_csv(data: bytes, name: str) -> dict[str, str]:
    """Read the server's list of active commits.

    Args:
        data: the file, CSV.
        name: what to call it in errors.

    Returns:
        Metarange id by commit id.

    Raises:
        FormatError: not such a file.
    """
    try:
        rows = csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), strict=True)
        if rows.fieldnames != ["commit_id", "expired", "metarange_id"]:
            raise FormatError(f"{name}: the columns are {rows.fieldnames}. Nothing was deleted.")
        commits = {}
        for row in rows:
            commit_id, metarange_id = row["commit_id"], row["metarange_id"]
            if not commit_id or metarange_id is None or None in row:
                raise FormatError(f"{name}: line {rows.line_num} is damaged. Nothing was deleted.")
            if row["expired"] != "false":
                raise FormatError(
                    f"{name}: commit {commit_id} is marked {row['expired']!r}, which this version does not"
                    " know. Nothing was deleted."
                )
            commits[commit_id] = metarange_id
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{name}: not a list of commits: {error}. Nothing was deleted.") from None
    return commits


def check_against_graph(server: Mapping[str, str], graph: Graph, name: str) -> None:
    """Compare the server's list with what the API says of the same commits.

    Args:
        server: metarange id by commit id.
        graph: commits as the API gave them.
        name: of the list, for the message.

    Raises:
        FormatError: they differ, so one of them was damaged on the way.
    """
    for commit_id, metarange_id in server.items():
        commit = graph.get(commit_id)
        if commit is not None and commit.metarange_id != metarange_id:
            raise FormatError(
                f"{name}: commit {commit_id} has metarange {metarange_id!r} there and"
                f" {commit.metarange_id!r} in its log. Nothing was deleted."
            )


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
