"""Active commits: the server's, our own, those of tags, and branch heads, united."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.commits import Graph, active_by_rules, check_against_graph, load_graph, read_commits_csv
from dredge.gc.context import Context
from dredge.gc.location import key_of
from dredge.lakefs import Ref

log = logging.getLogger("dredge")


@dataclass(slots=True)
class ActiveCommits:
    """What keeps data alive.

    Attributes:
        metaranges: metarange id ("" is the content without entries) by commit id, all active commits.
        sources: how many commits each source named, alone or with others.
        all_commits: there are no rules, so nothing ever expires.
        branches: name and head.
        tags: name and commit.
        graph: every commit that refs lead to.
        warnings: for the report.
    """

    metaranges: dict[str, str]
    sources: dict[str, int]
    all_commits: bool
    branches: list[Ref]
    tags: list[Ref]
    graph: Graph
    warnings: list[str] = field(default_factory=list)

    @property
    def heads(self) -> set[str]:
        """Commit ids of the branch heads."""
        return {branch.commit_id for branch in self.branches}


def find_active(context: Context) -> ActiveCommits:
    """Find every commit whose objects must stay.

    Heads are proved to exist first, then the server is asked; its answer is only ever added to.

    Raises:
        RefusedError: an answer that could hide active commits.
        FormatError: a damaged answer.
    """
    client, plan = context.client, context.plan
    branches = _branches(context)
    tags = client.tags(plan.repository)
    graph = load_graph(client, plan.repository, branches)
    if plan.config.keep_tags:
        load_graph(client, plan.repository, tags, graph)
    prepared = client.prepare_commits(plan.repository, plan.config.safety.prepare_deadline_seconds)
    rules = client.rules(plan.repository)
    sources: dict[str, set[str]] = {"heads": {branch.commit_id for branch in branches}}
    if plan.config.keep_tags:
        sources["tags"] = {tag.commit_id for tag in tags}
    server: dict[str, str] = {}
    warnings = []
    if prepared is None or rules is None:
        sources["all"] = set(graph)
        if prepared is not None:
            warnings.append("the rules were deleted while the run went on; every commit counts as active")
    else:
        sources["own"] = active_by_rules(graph, branches, rules, plan.created_at)
    if prepared is not None:
        server = _read_server_list(context, prepared.location, branches)
        check_against_graph(server, graph, prepared.location)
        sources["server"] = set(server)
        if lost := (sources.get("own", set()) - set(server)):
            warnings.append(
                f"the server's walk left out {len(lost)} commits that a young child keeps alive; they are"
                " kept"
            )
    active = set[str]().union(*sources.values())
    metaranges = {
        commit: server[commit] if commit in server else graph[commit].metarange_id for commit in active
    }
    return ActiveCommits(
        metaranges=metaranges,
        sources={name: len(commits) for name, commits in sources.items()},
        all_commits="all" in sources,
        branches=branches,
        tags=tags,
        graph=graph,
        warnings=warnings,
    )


def _branches(context: Context) -> list[Ref]:
    """All branches, the default one first: as a rule it has the longest history."""
    plan = context.plan
    found = context.client.branches(plan.repository)
    if not found:
        raise RefusedError(
            f"lakeFS lists no branches of {plan.repository}; every repository has one. Nothing was deleted."
        )
    return sorted(found, key=lambda branch: (branch.id != plan.default_branch, branch.id))


def _read_server_list(context: Context, location: str, branches: list[Ref]) -> dict[str, str]:
    try:
        data = context.reader.get(key_of(location, context.plan.namespace))
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
