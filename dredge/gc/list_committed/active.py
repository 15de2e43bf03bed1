"""Active commits: the server's answer, and the commits kept beyond it.

    base    branch heads ∪ the server's list          (every commit, without rules)
                         ∪ our walk over the records  (`sources` has the figures of each)
    kept    our own walk over the branches' lines, and the parents of young dangling commits
            · commits of tags · each rule of the user's policy

All of these are active, except for rules about paths, which keep only some entries of their commits. Nothing here makes
the server's answer smaller.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from dredge.errors import NotFoundError
from dredge.gc.list_committed.history import (
    SERVER,
    SLACK,
    Found,
    Graph,
    active_by_rules,
    close_graph,
    find_history,
    known_commit,
    load_graph,
)
from dredge.gc.mark_uncommitted import ReadCommits
from dredge.gc.retention.active import until_after
from dredge.gc.retention.kept_sets import KeptSet
from dredge.gc.retention.policy import main_parent
from dredge.gc.run import Run
from dredge.lakefs import Commit, Ref, Rules
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

OWN, TAGS = "own walk", "tags"
_AT_ONCE = 16
# More requests for dangling commits than this add a warning to the run.
_PLENTY = 20_000


@dataclass(slots=True)
class ActiveCommits:
    """The active commits, and the reasons."""

    metaranges: dict[str, str]  # metarange id by commit id, of all active commits; "" for no entries
    base: set[str]  # ids of the commits active without the kept sets
    kept: list[KeptSet]
    sources: dict[str, int]  # number of commits of each source
    all_commits: bool  # whether every commit is active, because there are no rules
    branches: list[Ref]
    tags: list[Ref]
    graph: Graph  # commits reachable from refs
    records: Graph = field(default_factory=dict)  # commits of the key-value store; empty without it
    rules: Rules | None = None  # the repository's; None without rules
    warnings: list[str] = field(default_factory=list)  # for the report

    @property
    def expired(self) -> list[Commit]:
        """Inactive commits reachable from refs, newest first."""
        found = [commit for commit_id, commit in self.graph.items() if commit_id not in self.metaranges]
        return sorted(found, key=lambda commit: commit.created_at, reverse=True)

    @property
    def path_commits(self) -> set[tuple[str, str]]:
        """(set name, commit id) of all sets about paths."""
        return {(found.name, commit) for found in self.kept if found.paths for commit in found.commits}

    def metarange_of(self, commit_id: str) -> str:
        """Metarange id of an active or reachable commit."""
        found = self.metaranges.get(commit_id)
        return self.graph[commit_id].metarange_id if found is None else found

    def kept_beyond_base(self, only: Collection[tuple[str, str]] | None = None) -> list[KeptSet]:
        """The kept sets without the commits of `base`, those about paths for the pairs in `only` alone; empty if
        every commit is active."""
        if self.all_commits:
            return []
        found = [replace(item, commits=item.commits - self.base) for item in self.kept]
        if only is None:
            return found
        asked = {
            item.name: {commit for name, commit in only if name == item.name} for item in found if item.paths
        }
        return [replace(item, commits=item.commits & asked.get(item.name, set())) for item in found]

    @property
    def dangling(self) -> set[str]:
        """Active commits not reachable from refs."""
        return self.metaranges.keys() - self.graph.keys()

    @property
    def heads(self) -> set[str]:
        """Commit ids of the branch heads."""
        return {branch.commit_id for branch in self.branches}


def find_active(
    run: Run,
    ask_dangling: bool = True,
    read: ReadCommits | None = None,
    rules: Future[Rules | None] | None = None,
) -> ActiveCommits:
    """Find every commit whose objects must stay, following the lines of young dangling commits if wanted; `read` and
    `rules` as in `find_history`."""
    found = find_history(run, read, rules)
    branches, graph, warnings = found.branches, found.graph, found.warnings
    sources: dict[str, set[str]] = {"heads": {branch.commit_id for branch in branches}}
    if found.all_commits:
        sources["all"] = set(graph)
    sources |= {name: set(listed) for name, listed in found.listed.items()}
    base = set[str]().union(*sources.values())
    dangling = _kept_by_dangling(run, found) if ask_dangling else {}
    kept = [
        *_by_own_walk(run, found, dangling),
        *_by_tags(run, found.tags),
        *_by_policy(run, branches, graph, warnings),
    ]
    sources |= {item.name: set(item.commits) for item in kept}
    active = base.union(*(item.commits for item in kept if not item.paths))
    known = dangling | graph
    metaranges = {commit: known[commit].metarange_id for commit in active if commit in known}
    for listed in found.listed.values():
        metaranges.update(listed)
    return ActiveCommits(
        metaranges=metaranges,
        base=base,
        kept=kept,
        sources={name: len(commits) for name, commits in sources.items()},
        all_commits=found.all_commits,
        branches=branches,
        tags=found.tags,
        graph=graph,
        records=found.records,
        rules=found.rules,
        warnings=warnings,
    )


def _by_own_walk(run: Run, found: Found, dangling: Graph) -> list[KeptSet]:
    if found.rules is None or SERVER not in found.listed:
        return []
    own = active_by_rules(found.graph, found.branches, found.rules, run.plan.created_at) | dangling.keys()
    if lost := own - found.listed[SERVER].keys():
        found.warnings.append(
            f"the server's walk omitted {len(lost)} commits that a young child keeps alive; they are kept"
        )
    return [KeptSet(OWN, "the server's walk over commits omitted them", frozenset(own))]


def _by_tags(run: Run, tags: list[Ref]) -> list[KeptSet]:
    if not run.plan.config.keep_tags:
        return []
    return [KeptSet(TAGS, "a tag is at their commit", frozenset(tag.commit_id for tag in tags))]


def _by_policy(run: Run, branches: list[Ref], graph: Graph, warnings: list[str]) -> list[KeptSet]:
    policy = run.plan.config.policy
    sets = []
    for keep in policy.keeps(branches, graph) if policy is not None else ():
        rule = keep.rule
        if not keep.branches:
            warnings.append(f"rule {rule.name!r} of the retention policy matches no branch")
        last = "all commits" if rule.last is None else f"the last {rule.last:,} commits"
        what = "some paths of " if rule.paths else ""
        why = f"a rule keeps {what}{last} of {len(keep.branches):,} branches"
        sets.append(KeptSet(f"policy: {rule.name}", why, keep.commits, rule.paths))
    return sets


def _kept_by_dangling(run: Run, found: Found) -> Graph:
    """Find the main parents of young dangling commits, which the server's walk may lose (L19).

        x ◀── old ✗            a walk that reaches x from the old commit first omits x. Our own walk over the lines of
         ▲                     branches finds x, unless no branch leads to the young commit
         └─── young ✗          but the young commit is in the server's list, so its parent can be requested

    Each such commit costs a request. They are usually few: merged commits are in the history of a branch. The key-value
    store has all commits, so with it no request is needed. A re-check follows no dangling commits: it subtracts the
    commits found by its mark, and the next mark finds commits that lost their branch, or are kept by longer rules.

    Lines are followed to their roots, because a commit may claim any date: a young one can be behind an old one.
    """
    if found.rules is None or SERVER not in found.listed:
        return {}
    known = found.records | found.graph
    waiting = sorted(found.listed[SERVER].keys() - known.keys())
    if len(waiting) > _PLENTY:
        found.warnings.append(
            f"{len(waiting):,} active commits without a ref need a request each; with lakeFS's own key-value store"
            " (kv_conn_id) no request is needed"
        )
    if waiting:
        log.info("run %s: reading %d active commits without a ref", run.plan.run_id, len(waiting))
    # Such lines have the default rule. Times are whole seconds, and clocks differ: in doubt a commit is young.
    at, days = run.plan.created_at - SLACK, found.rules.default_retention_days
    done, kept = set[str](), set[str]()
    for commit in ordered_map(lambda commit_id: _ask(run, commit_id), waiting, _AT_ONCE):
        known[commit.id] = commit
    while waiting:
        commit_id = waiting.pop()
        done.add(commit_id)
        if commit_id not in known:
            _read_line(run, commit_id, known)
        parent = main_parent(known[commit_id])
        if parent is not None and until_after(known[commit_id].created_at, days) > at:
            kept.add(parent)
        if parent is not None and parent not in done:
            waiting.append(parent)
    return {commit_id: known[commit_id] for commit_id in kept if commit_id in known}


def _read_line(run: Run, commit_id: str, known: Graph) -> None:
    """Read a commit, and its line by pages until a known commit. A commit missing from a page is requested later."""
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
    about = f"the server's list of active commits leads to {commit_id}, which lakeFS does not have"
    return known_commit(run.client, run.plan.repository, commit_id, about)


def take_in_heads(run: Run, active: ActiveCommits, seen: Iterable[tuple[str, str]]) -> None:
    """Add the commits kept alive by the heads of the time when staging was read: (branch, commit) pairs.

    An entry can move from a head back into staging: its metadata is changed, or a change of it is reset, and the
    branch is reset to another commit, which leaves the staged entry. A scan before the move does not show the entry:
    the head had it, or a staged copy equal to the head's. Later heads do not have it either. The same holds for a
    commit behind a head, because another branch may be reset to it.
    """
    now = {(branch.id, branch.commit_id) for branch in active.branches}
    moved = [Ref(branch, commit) for branch, commit in sorted({*seen} - now)]
    if not moved:
        return
    graph = dict(active.graph)
    for ref in moved:
        if ref.commit_id in active.records:
            graph |= close_graph(active.records, [ref], run.plan.repository)
        elif ref.commit_id not in graph:
            _commit_of(run, f"branch {ref.id}", ref.commit_id)
            load_graph(run.client, run.plan.repository, [Ref(ref.commit_id, ref.commit_id)], graph)
    for commit_id in _kept_by(run, active, moved, graph) - active.metaranges.keys():
        active.metaranges[commit_id] = graph[commit_id].metarange_id


def take_in_tags(run: Run, active: ActiveCommits, seen: Iterable[Ref]) -> None:
    """Add the commits of tags from before staging was read.

    A branch can be reset to such a commit, get an entry of it into staging, and be reset back, which leaves the staged
    entry. An earlier scan does not show the entry, and after the deletion of the tag no later list has the commit.
    """
    for tag in seen:
        if tag.commit_id not in active.metaranges:
            known = active.graph.get(tag.commit_id) or active.records.get(tag.commit_id)
            commit = known or _commit_of(run, f"tag {tag.id}", tag.commit_id)
            active.metaranges[tag.commit_id] = commit.metarange_id


def _commit_of(run: Run, what: str, commit_id: str) -> Commit:
    about = (
        f"{what} was at commit {commit_id} when staging was read, and lakeFS does not have that commit now"
    )
    return known_commit(run.client, run.plan.repository, commit_id, about)


def _kept_by(run: Run, active: ActiveCommits, moved: list[Ref], graph: Graph) -> set[str]:
    rules = None if active.all_commits else run.client.rules(run.plan.repository)
    if rules is None:
        return set(graph)
    # Without the branches of now, their heads would be leaves, which have another rule.
    found = active_by_rules(graph, [*active.branches, *moved], rules, run.plan.created_at)
    policy = run.plan.config.policy
    for keep in policy.keeps(moved, graph) if policy is not None else ():
        found |= keep.commits
    return found
