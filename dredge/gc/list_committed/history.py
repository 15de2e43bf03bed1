"""The refs and the history of a repository, and the commits active by lakeFS's rules.

    server     its branches, tags and logs, and its own list of active commits (prepare_commits)
    records    branches, tags and commits of the key-value store; the walk over them is done here

Both walks cover every commit, with dangling ones, by the same rules. Ours follows every line to its root, and takes the
store's time less some minutes, so it includes the server's result and the commits that the server's walk loses (L19).
prepare_commits can run out of memory on the server; our walk does not need the server.

Records are read in the order branches, tags, commits. PostgreSQL and SQLite give a snapshot. In DynamoDB each read is
later than the read before: a commit is written before a ref is at it and never removed, so the commits include all that
the refs lead to. Later changes of refs are like changes after the mark: heads of the time when staging was read count
too, range files written meanwhile count without a commit, and the re-check and the watch of branch heads find the rest.

In doubt (`StoreCheck`) the server is asked, and the commits of the records count as well.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.config import AUTO
from dredge.gc.mark_uncommitted import ReadCommits, RecordedCommits, StoreCheck, read_checked
from dredge.gc.namespaces import key_of
from dredge.gc.retention.active import find_lines
from dredge.gc.retention.policy import main_parent
from dredge.gc.run import Run
from dredge.lakefs import Commit, LakeFSClient, Ref, Rules
from dredge.storage.parallel import at_once

log = logging.getLogger("dredge")

# Commits by id, closed: with a commit all its ancestors.
type Graph = dict[str, Commit]

# A commit may be younger than its date by this much.
SLACK = timedelta(minutes=5)
SERVER, RECORDS = "server", "records"


@dataclass(slots=True)
class Found:
    """Refs, history and active commits of a repository."""

    branches: list[Ref]  # with hidden branches
    tags: list[Ref]
    graph: Graph  # commits reachable from branches, and from tags if tags are kept
    rules: Rules | None  # the repository's; None without rules
    all_commits: bool  # whether every commit is active, because there are no rules
    # metarange id by commit id, of the active commits of each source
    listed: dict[str, dict[str, str]] = field(default_factory=dict)
    records: Graph = field(default_factory=dict)  # commits of the key-value store; empty without it
    warnings: list[str] = field(default_factory=list)  # for the report


def find_history(
    run: Run, read: ReadCommits | None = None, rules: Future[Rules | None] | None = None
) -> Found:
    """Read refs and history, and find the commits active by lakeFS's rules; `read` are those of the key-value store,
    and `rules` the repository's, if read before."""
    if not run.plan.config.read_kv:
        return _from_server(run)
    with at_once() as ask:
        rules = rules or ask(run.client.rules, run.plan.repository)
        recorded, check = read or read_checked(
            run.client, run.plan.repository, run.plan.namespace, RecordedCommits
        )
    found = _from_records(run, recorded, rules.result())
    if run.plan.config.live_source == AUTO and not check.doubt:
        return found
    return _unite(found, _from_server(run), check)


def _from_records(run: Run, recorded: RecordedCommits, rules: Rules | None) -> Found:
    plan = run.plan
    branches = _in_order(run, recorded.branches)
    refs = [*branches, *(recorded.tags if plan.config.keep_tags else ())]
    graph = close_graph(recorded.commits, refs, plan.repository)
    found = Found(branches, recorded.tags, graph, rules, rules is None, records=recorded.commits)
    if rules is not None:
        # Reachable commits also alone: a dangling commit with an old date must not hide the end of a line.
        active = active_by_rules(graph, branches, rules, plan.created_at)
        active |= active_by_rules(recorded.commits, branches, rules, plan.created_at)
        found.listed[RECORDS] = {commit: recorded.commits[commit].metarange_id for commit in active}
    return found


def _from_server(run: Run) -> Found:
    client, plan = run.client, run.plan
    branches = _in_order(run, client.branches(plan.repository))
    tags = client.tags(plan.repository)
    # First, because a head without its commit ends lakeFS's process in prepare_commits.
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
            found.warnings.append("the rules were deleted during the run; every commit counts as active")
    return found


def _unite(recorded: Found, server: Found, check: StoreCheck) -> Found:
    if check.doubt:
        server.warnings.append(
            f"commits were read from the key-value store and from lakeFS as well: {check.doubt}"
        )
    # Without rules, every commit reachable from the records' refs.
    every = {commit.id: commit.metarange_id for commit in recorded.graph.values()}
    server.listed[RECORDS] = recorded.listed.get(RECORDS, every)
    check_against_graph(server.listed[RECORDS], server.graph, check.location)
    server.records = recorded.records
    return server


def _in_order(run: Run, branches: Collection[Ref]) -> list[Ref]:
    """All branches, the default branch first: it usually has the longest history."""
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


def read_commits_csv(data: bytes, name: str) -> dict[str, str]:
    """Parse the server's list of active commits: metarange id by commit id."""
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
    """Compare a list of commits with the API; raises FormatError if their metaranges differ."""
    for commit_id, metarange_id in server.items():
        commit = graph.get(commit_id)
        if commit is not None and commit.metarange_id != metarange_id:
            raise FormatError(
                f"{name}: commit {commit_id} has metarange {metarange_id!r} there and"
                f" {commit.metarange_id!r} in its log. Nothing was deleted."
            )


def known_commit(client: LakeFSClient, repository: str, commit_id: str, about: str) -> Commit:
    """Read a commit; raises RefusedError, beginning with `about`, if it does not exist."""
    try:
        return client.commit(repository, commit_id)
    except NotFoundError as error:
        raise RefusedError(f"{about}: {error}. Nothing was deleted. Start a new run.") from None


def load_graph(
    client: LakeFSClient, repository: str, refs: Sequence[Ref], graph: Graph | None = None
) -> Graph:
    """Read the history of refs (the longest first) into `graph`, each commit once, and prove that each ref's commit
    exists."""
    read: Graph = {} if graph is None else graph
    for ref in refs:
        if ref.commit_id in read:
            continue
        try:
            missing = _read(client.log(repository, ref.id), ref.commit_id, read)
        except NotFoundError:
            missing = {ref.commit_id}  # the ref was deleted, or the server's cache denies its commit
        if missing:
            _read_by_id(client, repository, ref, read)
    return read


def _read(log: Iterable[Commit], wanted: str, graph: Graph) -> set[str]:
    """Add commits of a log until the graph has the wanted commit with all ancestors; return the ids still missing."""
    found: Graph = {}
    missing = {wanted}
    for commit in log:
        missing.discard(commit.id)
        found[commit.id] = commit
        missing.update(parent for parent in commit.parents if parent not in found and parent not in graph)
        if not missing:
            break
    # If only the wanted commit is missing, the ref has moved, and its log is closed as well.
    if not missing or missing == {wanted}:
        graph.update(found)
    return missing


def _read_by_id(client: LakeFSClient, repository: str, ref: Ref, graph: Graph) -> None:
    """Read the history of a ref's commit with one request for each commit: slow, but independent of caches and refs."""
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
    """Return the history of refs, taken from known commits."""
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
    """Compute the active commits of a history and all its branches; an earlier time keeps more."""
    heads = {branch.commit_id for branch in branches}
    if not graph.keys() >= heads | {parent for commit in graph.values() if (parent := main_parent(commit))}:
        raise RefusedError(
            "a commit has a parent without a record, so the commits that it keeps alive are unknown. Nothing was"
            " deleted. Asked for active commits, lakeFS would end its process."
        )
    # Times from the API are whole seconds, and clocks differ a little: in doubt a commit is young.
    at = now - SLACK
    return {
        commit_id for commit_id, line in find_lines(graph, branches, rules, at).items() if line.is_active(at)
    }
