"""Active commits: what the server says, and what is kept beyond that.

    base    branch heads ∪ the server's list          (every commit, where there are no rules)
    kept    our own walk over the branches' lines · commits of tags · each rule of the user's policy

All of it is active, but for rules about paths: of their commits only some entries stay (`kept`). Nothing here
ever makes the server's answer smaller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.list_committed.graph import (
    Graph,
    active_by_rules,
    check_against_graph,
    load_graph,
    read_commits_csv,
)
from dredge.gc.namespaces import key_of
from dredge.gc.run import Run
from dredge.lakefs import Commit, Ref
from dredge.runs.summary import PartInfo

log = logging.getLogger("dredge")


OWN, TAGS = "own walk", "tags"
PATH_COMMITS = "path-commits"


@dataclass(frozen=True, slots=True)
class KeptSet:
    """Commits that something besides the server keeps.

    Attributes:
        name: for the report; unique.
        why: half a sentence for the report.
        commits: ids; some of them may be kept by others, or by the server, as well.
        paths: only entries whose path matches one of these patterns; () is every entry.
    """

    name: str
    why: str
    commits: frozenset[str]
    paths: tuple[str, ...] = ()


@dataclass(slots=True)
class ActiveCommits:
    """What keeps data alive.

    Attributes:
        metaranges: metarange id ("" is the content without entries) by commit id, all active commits.
        base: ids of those that are active without the kept sets.
        kept: what is kept beyond that.
        sources: how many commits each source named, alone or with others.
        all_commits: there are no rules, so nothing ever expires.
        branches: name and head.
        tags: name and commit.
        graph: every commit that refs lead to.
        warnings: for the report.
    """

    metaranges: dict[str, str]
    base: set[str]
    kept: list[KeptSet]
    sources: dict[str, int]
    all_commits: bool
    branches: list[Ref]
    tags: list[Ref]
    graph: Graph
    warnings: list[str] = field(default_factory=list)

    @property
    def expired(self) -> list[Commit]:
        """Commits that refs lead to and that are not active any more, newest first."""
        found = [commit for commit_id, commit in self.graph.items() if commit_id not in self.metaranges]
        return sorted(found, key=lambda commit: commit.created_at, reverse=True)

    @property
    def heads(self) -> set[str]:
        """Commit ids of the branch heads."""
        return {branch.commit_id for branch in self.branches}


def find_active(run: Run) -> ActiveCommits:
    """Find every commit whose objects must stay.

    Heads are proved to exist first, then the server is asked; its answer is only ever added to.

    Raises:
        RefusedError: an answer that could hide active commits.
        FormatError: a damaged answer.
    """
    client, plan = run.client, run.plan
    branches = _branches(run)
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
    warnings: list[str] = []
    sources: dict[str, set[str]] = {"heads": {branch.commit_id for branch in branches}}
    server: dict[str, str] = {}
    all_commits = prepared is None or rules is None
    kept: list[KeptSet] = []
    if all_commits:
        sources["all"] = set(graph)
        if prepared is not None:
            warnings.append("the rules were deleted while the run went on; every commit counts as active")
    if prepared is not None:
        server = _read_server_list(run, prepared.location, branches)
        check_against_graph(server, graph, prepared.location)
        sources["server"] = set(server)
    base = set[str]().union(*sources.values())
    if rules is not None and prepared is not None:
        own = active_by_rules(graph, branches, rules, plan.created_at)
        kept.append(KeptSet(OWN, "the server's walk over commits left them out", frozenset(own)))
        if lost := own - set(server):
            warnings.append(
                f"the server's walk left out {len(lost)} commits that a young child keeps alive; they are"
                " kept"
            )
    kept += _by_tags(run, tags) + _by_policy(run, branches, graph, warnings)
    sources |= {found.name: set(found.commits) for found in kept}
    active = base.union(*(found.commits for found in kept if not found.paths))
    metaranges = {
        commit: server[commit] if commit in server else graph[commit].metarange_id for commit in active
    }
    return ActiveCommits(
        metaranges=metaranges,
        base=base,
        kept=kept,
        sources={name: len(commits) for name, commits in sources.items()},
        all_commits=all_commits,
        branches=branches,
        tags=tags,
        graph=graph,
        warnings=warnings,
    )


def take_in_heads(run: Run, active: ActiveCommits, seen: Iterable[tuple[str, str]]) -> None:
    """Take the heads that branches had while staging was read for active, too.

    An entry can move from a head back into staging: its metadata is changed, or a change of it is reset, and the
    branch itself is reset to another commit, which leaves what is staged. A scan before sees nothing of it: there the
    head had it, or a staged copy of what the head has, which is not shown as uncommitted. Later heads do not tell of
    it either.

    Args:
        run: of the run.
        active: grows.
        seen: branch and commit.

    Raises:
        RefusedError: a commit is not there any more.
    """
    for branch, commit_id in sorted(seen):
        if commit_id in active.metaranges:
            continue
        try:
            commit = active.graph.get(commit_id) or run.client.commit(run.plan.repository, commit_id)
        except NotFoundError as error:
            raise RefusedError(
                f"branch {branch} was at commit {commit_id} while staging was read, and now lakeFS does not know it:"
                f" {error}. Nothing was deleted. Start a new run."
            ) from None
        active.metaranges[commit_id] = commit.metarange_id


def _by_tags(run: Run, tags: list[Ref]) -> list[KeptSet]:
    if not run.plan.config.keep_tags:
        return []
    return [KeptSet(TAGS, "a tag names their commit", frozenset(tag.commit_id for tag in tags))]


def _by_policy(run: Run, branches: list[Ref], graph: Graph, warnings: list[str]) -> list[KeptSet]:
    policy = run.plan.config.policy
    sets = []
    for keep in policy.keeps(branches, graph) if policy is not None else ():
        rule = keep.rule
        if not keep.branches:
            warnings.append(f"rule {rule.name!r} of the retention policy is about no branch that exists")
        last = "all commits" if rule.last is None else f"the last {rule.last:,} commits"
        what = "some paths of " if rule.paths else ""
        why = f"a rule keeps {what}{last} of {len(keep.branches):,} branches"
        sets.append(KeptSet(f"policy: {rule.name}", why, keep.commits, rule.paths))
    return sets


def path_commits(active: ActiveCommits) -> set[tuple[str, str]]:
    """Name of each set about paths, with each of its commits."""
    return {(found.name, commit) for found in active.kept if found.paths for commit in found.commits}


def write_path_commits(run: Run, where: str, active: ActiveCommits) -> PartInfo:
    """Write the commits of which a policy keeps some entries as `<where>/path_commits-00000.parquet`."""
    rows = sorted(path_commits(active))
    columns = {"set": [name for name, _ in rows], "commit_id": [commit for _, commit in rows]}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return run.folder.write_table(where, 0, table, PATH_COMMITS)


def _branches(run: Run) -> list[Ref]:
    """All branches, the default one first: as a rule it has the longest history."""
    plan = run.plan
    found = run.client.branches(plan.repository)
    if not found:
        raise RefusedError(
            f"lakeFS lists no branches of {plan.repository}; every repository has one. Nothing was deleted."
        )
    return sorted(found, key=lambda branch: (branch.id != plan.default_branch, branch.id))


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
