"""What young commits keep alive to which no ref leads, and the server's walk may lose (L19).

    x ◀── old ✗            a walk that comes by x from the old commit first leaves it out: our own over the lines of
     ▲                     branches finds it again, unless no branch leads to the young one
     └─── young ✗          but the young one is in the server's list, so it can be asked for its parent

It takes a request for each such commit of the list. As a rule there are few: what was merged is in the history of a
branch. The staging records' store has them all, so where it is read nothing is asked. A re-check does not ask: what its
mark found is subtracted, and what a commit keeps since it lost its branch, or since rules are longer, is found by the
mark of the run that would delete it.

Active commits: what the server says, and what is kept beyond that.

    base    branch heads ∪ the server's list          (every commit, where there are no rules)
                         ∪ our walk over the records  (`sources` says which of the two, or both)
    kept    our own walk over the branches' lines, and from young commits to which no ref leads
            · commits of tags · each rule of the user's policy

All of it is active, except for rules about paths: of their commits only some entries stay. Nothing here ever makes
the server's answer smaller.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
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
from dredge.gc.retention.kept_sets import KeptSet
from dredge.gc.retention.policy import main_parent
from dredge.gc.run import Run
from dredge.lakefs import Commit, Ref, Rules
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


OWN, TAGS = "own walk", "tags"


@dataclass(slots=True)
class ActiveCommits:
    """What keeps data alive.

    Attributes:
        metaranges: metarange id by commit id, of all active commits; "" is the content without entries.
        base: ids of those that are active without the kept sets.
        kept: what is kept beyond that.
        sources: number of commits that each source named, alone or with others.
        all_commits: whether there are no rules, so that nothing ever expires.
        branches: with their heads.
        tags: with their commits.
        graph: every commit that refs lead to.
        records: every commit of the key-value store; empty where it was not read.
        rules: the repository's; None where it has none.
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
    records: Graph = field(default_factory=dict)
    rules: Rules | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def expired(self) -> list[Commit]:
        """Commits that refs lead to and that are not active any more, newest first."""
        found = [commit for commit_id, commit in self.graph.items() if commit_id not in self.metaranges]
        return sorted(found, key=lambda commit: commit.created_at, reverse=True)

    @property
    def path_commits(self) -> set[tuple[str, str]]:
        """Name of each set about paths, with each of its commits."""
        return {(found.name, commit) for found in self.kept if found.paths for commit in found.commits}

    def metarange_of(self, commit_id: str) -> str:
        """Metarange id of a commit that is active or in the history."""
        found = self.metaranges.get(commit_id)
        return self.graph[commit_id].metarange_id if found is None else found

    def kept_beyond_base(self, only: Collection[tuple[str, str]] | None = None) -> list[KeptSet]:
        """The kept sets without the commits of `base`; none where every commit is active.

        Args:
            only: with these commits of these sets about paths, and no others; None for all.
        """
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
        """Active commits to which no ref leads."""
        return self.metaranges.keys() - self.graph.keys()

    @property
    def heads(self) -> set[str]:
        """Commit ids of the branch heads."""
        return {branch.commit_id for branch in self.branches}


def find_active(run: Run, ask_dangling: bool = True) -> ActiveCommits:
    """Find every commit whose objects must stay.

    Args:
        run: the run.
        ask_dangling: whether young commits to which no ref leads are asked for what they keep alive.

    Raises:
        RefusedError: an answer that could hide active commits.
        FormatError: a damaged answer.
    """
    found = find_history(run)
    branches, graph, warnings = found.branches, found.graph, found.warnings
    sources: dict[str, set[str]] = {"heads": {branch.commit_id for branch in branches}}
    if found.all_commits:
        sources["all"] = set(graph)
    sources |= {name: set(listed) for name, listed in found.listed.items()}
    base = set[str]().union(*sources.values())
    dangling = kept_by_dangling(run, found) if ask_dangling else {}
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
    """What the server's own walk leaves out; where the records were walked over, nothing is."""
    if found.rules is None or SERVER not in found.listed:
        return []
    own = active_by_rules(found.graph, found.branches, found.rules, run.plan.created_at) | dangling.keys()
    if lost := own - found.listed[SERVER].keys():
        found.warnings.append(
            f"the server's walk left out {len(lost)} commits that a young child keeps alive; they are kept"
        )
    return [KeptSet(OWN, "the server's walk over commits left them out", frozenset(own))]


def take_in_heads(run: Run, active: ActiveCommits, seen: Iterable[tuple[str, str]]) -> None:
    """Count what the heads kept alive that branches had while staging was read, too.

    An entry can move from a head back into staging: its metadata is changed, or a change of it is reset, and the
    branch itself is reset to another commit, which leaves what is staged. A scan before sees nothing of it: there the
    head had it, or a staged copy of what the head has, which is not shown as uncommitted. Later heads do not tell of
    it either. The same is true of a commit behind a head, which another branch may be reset to meanwhile.

    Args:
        run: the run.
        active: grows.
        seen: branches, each with a commit that was its head.

    Raises:
        RefusedError: a commit does not exist any more.
    """
    now = {(branch.id, branch.commit_id) for branch in active.branches}
    gone = [Ref(branch, commit) for branch, commit in sorted({*seen} - now)]
    if not gone:
        return
    graph = dict(active.graph)
    for ref in gone:
        if ref.commit_id in active.records:
            graph |= close_graph(active.records, [ref], run.plan.repository)
        else:
            _read_history_of(run, ref, graph)
    for commit_id in _kept_by(run, active, gone, graph) - active.metaranges.keys():
        active.metaranges[commit_id] = graph[commit_id].metarange_id


def take_in_tags(run: Run, active: ActiveCommits, seen: Iterable[Ref]) -> None:
    """Count the commits of tags that were there before staging was read, too.

    A branch can be reset to such a commit, have an entry of it in staging again, and be reset back, which leaves what
    is staged. A scan before sees nothing of it, and when the tag is gone, no later list tells of the commit.

    Args:
        run: the run.
        active: grows.
        seen: the tags.

    Raises:
        RefusedError: a commit does not exist any more.
    """
    for tag in seen:
        if tag.commit_id not in active.metaranges:
            known = active.graph.get(tag.commit_id) or active.records.get(tag.commit_id)
            commit = known or _commit_of(run, f"tag {tag.id}", tag.commit_id)
            active.metaranges[tag.commit_id] = commit.metarange_id


def _read_history_of(run: Run, gone: Ref, graph: Graph) -> None:
    if gone.commit_id in graph:
        return
    _commit_of(run, f"branch {gone.id}", gone.commit_id)
    load_graph(run.client, run.plan.repository, [Ref(gone.commit_id, gone.commit_id)], graph)


def _commit_of(run: Run, what: str, commit_id: str) -> Commit:
    told = f"{what} was at commit {commit_id} while staging was read, and now lakeFS does not know it"
    return known_commit(run.client, run.plan.repository, commit_id, told)


def _kept_by(run: Run, active: ActiveCommits, gone: list[Ref], graph: Graph) -> set[str]:
    """The commits that branches would keep alive that are at other commits now; in doubt more."""
    rules = None if active.all_commits else run.client.rules(run.plan.repository)
    if rules is None:
        return set(graph)
    # Without the branches of now, their heads would be leaves, which have another rule.
    found = active_by_rules(graph, [*active.branches, *gone], rules, run.plan.created_at)
    policy = run.plan.config.policy
    for keep in policy.keeps(gone, graph) if policy is not None else ():
        found |= keep.commits
    return found


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
