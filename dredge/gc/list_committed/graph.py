"""The history of refs, and what it says of the active commits.

History is read through the API, each commit once. The walk of `retention.active` over it marks a commit before it asks
whether the commit was walked through, so it finds what a real server's walk can lose. More active commits than
needed only keep data longer.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.retention.active import active_commits
from dredge.lakefs import Commit, LakeFS, Ref, Rules
from dredge.lakefs.files import gc_files as retention
from dredge.lakefs.files import records

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
