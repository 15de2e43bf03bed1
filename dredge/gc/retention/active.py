"""The end of each commit of a repository, and so its active commits.

Lines start at all branch heads, including hidden branches, and at all leaves: commits that are not the main parent of
another commit, with or without a ref. Tags are not starting points. Each line follows main parents to the root:

    threshold T = now - days of the branch's rule, or of the default (leaves: always the default)

    head ──▶ parent ──▶ parent ──▶ …        a branch head is active
     │         ▲                            a parent is active if its child is younger than T (strictly),
     └─ younger than T                      so the newest commit older than T on each line stays active

A leaf that is not a head is treated as the parent of a child of the same age. A head stays as long as it is a head; any
other commit until

    the greatest of, for each child c and each line through c:  creation date of c + days of the line

A commit is active now if its end is in the future. The branches behind a commit are disjoint in its children, so they
are counted by addition, in one pass over the history. The result includes the server's, whose walk may lose commits
(L19).

Source: lakeFS pkg/graveler/retention/active_commits.go (behaviour only).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dredge.gc.retention.policy import main_parent
from dredge.lakefs import Commit, Ref, Rules

FOREVER = datetime.max.replace(tzinfo=UTC)
_NAMES_MAX = 5


@dataclass(slots=True)
class Line:
    """The end of a commit, and the lines through it."""

    heads: list[str] = field(default_factory=list)  # names of the branches at the commit
    until: datetime | None = None  # when the rules stop keeping it, except as a head; None without a line
    by: str = ""  # the branch with that rule; "" for the default rule of a leaf
    branches: list[str] = field(default_factory=list)  # names of some branches with a line through it
    num_branches: int = 0  # the number of these branches
    keepers: int = 0  # number of lines that keep it active now, as a head or by a rule
    keeper: str | None = None  # the branch of the only such line; None otherwise

    def is_active(self, now: datetime) -> bool:
        """Whether the commit is a head, or kept by a rule."""
        return bool(self.heads) or (self.until is not None and self.until > now)


@dataclass(slots=True)
class _Through:
    """The lines through a commit, by their days: their number, and one of their branches ("" for a leaf's line)."""

    count: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    branch: dict[int, str] = field(default_factory=dict)

    def add(self, days: int, count: int, branch: str) -> None:
        self.count[days] += count
        self.branch.setdefault(days, branch)


def find_lines(
    graph: Mapping[str, Commit], branches: Iterable[Ref], rules: Rules | None, now: datetime
) -> dict[str, Line]:
    """Follow every line of a history, closed under main parents, from all branches; return a line for each commit id.
    Without rules everything is kept."""
    found = {commit_id: Line() for commit_id in graph}
    through: dict[str, _Through] = defaultdict(_Through)  # of commits still to come
    for branch in branches:
        if branch.commit_id in graph:
            line, days = found[branch.commit_id], _days(rules, branch.id)
            line.heads.append(branch.id)
            line.num_branches += 1
            line.branches = [*line.branches, branch.id][:_NAMES_MAX]
            _keep(line, 1, branch.id)
            through[branch.commit_id].add(days, 1, branch.id)
    for commit in _children_first(graph):
        line, lines = found[commit.id], through.pop(commit.id, None) or _Through()
        if not lines.count:  # a leaf
            days = _days(rules, None)
            lines.add(days, 1, "")
            line.until = until_after(commit.created_at, days)
            if line.until > now:
                _keep(line, 1, "")
        parent = main_parent(commit)
        if parent is not None and parent in graph:
            _hand_on(commit, lines, found[parent], through[parent], now)
            found[parent].num_branches += line.num_branches
            found[parent].branches = [*found[parent].branches, *line.branches][:_NAMES_MAX]
    return found


def until_after(created_at: datetime, days: int) -> datetime:
    """Return the end of the main parent of a commit, by a rule of so many days."""
    try:
        return created_at + timedelta(days=days)
    except OverflowError:  # more days than a calendar has
        return FOREVER if days > 0 else datetime.min.replace(tzinfo=UTC)


def _hand_on(child: Commit, lines: _Through, line: Line, above: _Through, now: datetime) -> None:
    """Continue the lines through a commit to its main parent."""
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
