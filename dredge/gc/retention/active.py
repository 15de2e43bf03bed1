"""Which commits of a repository are active.

Starting points are all branch heads, of hidden branches too, and all leaves: commits that are not the main
parent of any commit, whether or not a ref leads to them. Tags are not starting points. From each starting
point the walk follows main parents to the root:

    threshold T = now - days of the branch's rule, or of the default (leaves: always the default)

    head ──▶ parent ──▶ parent ──▶ …        a branch head is active
     │         ▲                            a parent is active when its child is younger than T (strictly),
     └─ younger than T                      so the newest commit older than T on each line stays active

A leaf that is not a head is treated as the parent of a child of its own age.

The server stops a walk at a commit that an earlier walk visited with a threshold not later than its own, and it
checks this *before* marking the commit: one first reached from an old child is not marked when a young child
leads to it later (L19). Here marking comes first, so the result is a superset of the server's. The defect
`active_walk_early_stop` restores the server's order.

Source: lakeFS pkg/graveler/retention/active_commits.go (behaviour only).

Lines of commits: until when rules keep each commit, and whose line it is that keeps it.

Every commit has at most one main parent, so main parents make a forest. A line begins at a branch head, or at a leaf:
a commit that is neither a head nor anybody's main parent. The line's days T come from the branch's rule (leaves: the
default). Along the lines, a head stays as long as it is one; any other commit stays until

    the greatest of, for each child c and each line through c:  creation date of c + days of the line
    (a leaf is the child of its own age)

A commit is active now when that lies in the future: the same answer as `active` gives, with its end.
Branches behind a commit are disjoint in its children, so they are counted by adding, in one pass over the history.

Source: lakeFS pkg/graveler/retention/active_commits.go (behaviour only).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dredge.errors import NotFoundError
from dredge.gc.retention.policy import main_parent
from dredge.lakefs import Commit, Ref, Rules
from dredge.lakefs.files import gc_files as catalog
from dredge.lakefs.files import records


@dataclass(frozen=True, slots=True)
class _Start:
    commit_id: str
    threshold: datetime
    is_head: bool


def active_commits(
    commits: Iterable[records.Commit],
    branches: Iterable[records.Branch],
    rules: catalog.Rules,
    now: datetime,
    *,
    find: Callable[[str], records.Commit] | None = None,
    early_stop: bool = False,
) -> dict[str, records.Commit]:
    """Compute the active commits.

    Args:
        commits: every commit record of the repository.
        branches: every branch, hidden ones too.
        rules: retention rules of the repository.
        now: aware UTC.
        find: reads a commit that was made while `commits` were listed; raises NotFoundError.
        early_stop: check whether a commit was visited before marking it, as a real server does.

    Returns:
        Active commits by id.

    Raises:
        NotFoundError: a head or a main parent has no record. (A real server ends its process here.)
    """
    by_id = _Commits(find)
    by_id.update((commit.id, commit) for commit in commits)
    active: set[str] = set()
    walked: dict[str, datetime] = {}
    for start in _starting_points(by_id, branches, rules, now):
        child = by_id[start.commit_id]
        child_date, following = child.creation_date, child.main_parent
        if start.is_head:
            active.add(child.id)
            walked[child.id] = start.threshold
        else:
            following = child.id  # the leaf is the parent of a child of its own age
        while following is not None:
            commit = by_id[following]
            is_walked = following in walked and walked[following] <= start.threshold
            if early_stop and is_walked:
                break
            if child_date > start.threshold:
                active.add(following)
            if is_walked:
                break
            walked[following] = start.threshold
            child_date, following = commit.creation_date, commit.main_parent
    return {commit_id: by_id[commit_id] for commit_id in sorted(active)}


class _Commits(dict[str, records.Commit]):
    """Commits by id."""

    def __init__(self, find: Callable[[str], records.Commit] | None) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, commit_id: str) -> records.Commit:
        if self._find is None:
            raise NotFoundError(f"commit {commit_id} has no record")
        found = self[commit_id] = self._find(commit_id)
        return found


def _starting_points(
    by_id: Mapping[str, records.Commit],
    branches: Iterable[records.Branch],
    rules: catalog.Rules,
    now: datetime,
) -> list[_Start]:
    heads = [_Start(branch.commit_id, rules.threshold(now, branch.name), True) for branch in branches]
    head_ids = {head.commit_id for head in heads}
    parents = {commit.main_parent for commit in by_id.values()}
    default = rules.threshold(now, None)
    leaves = [
        _Start(commit_id, default, False)
        for commit_id in by_id
        if commit_id not in parents and commit_id not in head_ids
    ]
    return sorted(heads + leaves, key=lambda start: start.commit_id)


FOREVER = datetime.max.replace(tzinfo=UTC)
_NAMES_MAX = 5


@dataclass(slots=True)
class Line:
    """What the lines through a commit say of it.

    Attributes:
        heads: names of the branches that it is the head of.
        until: when the rules let it go if it is no head; None when no line leads to it.
        by: the branch whose rule that is; "" for the default rule of a leaf.
        branches: names of some branches whose line it is on.
        num_branches: how many there are.
        keepers: how many lines keep it active now, as a head or by their rule.
        keeper: the one branch that does, when it is one branch and nothing else; None otherwise.
    """

    heads: list[str] = field(default_factory=list)
    until: datetime | None = None
    by: str = ""
    branches: list[str] = field(default_factory=list)
    num_branches: int = 0
    keepers: int = 0
    keeper: str | None = None

    def is_active(self, now: datetime) -> bool:
        """Whether the commit is a head, or kept by a rule."""
        return bool(self.heads) or (self.until is not None and self.until > now)


@dataclass(slots=True)
class _Through:
    """The lines through a commit, by their days.

    Attributes:
        count: number of lines with so many days.
        branch: one of their branches; "" for a leaf's line.
    """

    count: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    branch: dict[int, str] = field(default_factory=dict)

    def add(self, days: int, count: int, branch: str) -> None:
        self.count[days] += count
        self.branch.setdefault(days, branch)


def lines_of(
    graph: Mapping[str, Commit], branches: Iterable[Ref], rules: Rules | None, now: datetime
) -> dict[str, Line]:
    """Follow every line.

    Args:
        graph: commits by id; with a commit its main parent.
        branches: all of them, hidden ones too.
        rules: days by branch, and the default; None keeps everything for ever.
        now: aware UTC.

    Returns:
        By commit id.
    """
    found = {commit_id: Line() for commit_id in graph}
    through = {commit_id: _Through() for commit_id in graph}
    for branch in branches:
        if branch.commit_id in graph:
            _begin(found[branch.commit_id], through[branch.commit_id], branch.id, _days(rules, branch.id))
    for commit in _children_first(graph):
        line, lines = found[commit.id], through[commit.id]
        if not lines.count:
            _begin_leaf(commit, line, lines, _days(rules, None), now)
        parent = main_parent(commit)
        if parent is not None and parent in graph:
            _hand_on(commit, lines, found[parent], through[parent], now)
            found[parent].num_branches += line.num_branches
            found[parent].branches = [*found[parent].branches, *line.branches][:_NAMES_MAX]
    return found


def until_after(created_at: datetime, days: int) -> datetime:
    """When a rule of so many days lets go of what a commit keeps."""
    try:
        return created_at + timedelta(days=days)
    except OverflowError:  # more days than a calendar holds
        return FOREVER if days > 0 else datetime.min.replace(tzinfo=UTC)


def _begin(line: Line, lines: _Through, branch: str, days: int) -> None:
    line.heads.append(branch)
    line.num_branches += 1
    line.branches = [*line.branches, branch][:_NAMES_MAX]
    _keep(line, 1, branch)
    lines.add(days, 1, branch)


def _begin_leaf(commit: Commit, line: Line, lines: _Through, days: int, now: datetime) -> None:
    lines.add(days, 1, "")
    line.until = until_after(commit.created_at, days)
    if line.until > now:
        _keep(line, 1, "")


def _hand_on(child: Commit, lines: _Through, line: Line, above: _Through, now: datetime) -> None:
    """Let the lines through a commit go on to its main parent."""
    for days, count in lines.count.items():
        branch, until = lines.branch[days], until_after(child.created_at, days)
        above.add(days, count, branch)
        if line.until is None or until > line.until:
            line.until, line.by = until, branch
        if until > now:
            _keep(line, count, branch)


def _keep(line: Line, count: int, branch: str) -> None:
    line.keepers += count
    line.keeper = branch if line.keepers == 1 and branch else None


def _days(rules: Rules | None, branch: str | None) -> int:
    if rules is None:
        return timedelta.max.days
    if branch is None:
        return rules.default_retention_days
    return rules.branches.get(branch, rules.default_retention_days)


def _children_first(graph: Mapping[str, Commit]) -> Sequence[Commit]:
    """Every commit after all whose main parent it is."""
    waiting = dict.fromkeys(graph, 0)
    for commit in graph.values():
        parent = main_parent(commit)
        if parent is not None and parent in waiting:
            waiting[parent] += 1
    ready = [commit_id for commit_id, count in waiting.items() if not count]
    ordered: list[Commit] = []
    while ready:
        commit = graph[ready.pop()]
        ordered.append(commit)
        parent = main_parent(commit)
        if parent is not None and parent in waiting:
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    return ordered
