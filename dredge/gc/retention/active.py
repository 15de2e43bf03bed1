"""The active commits of a repository, and the end of each commit.

Lines start at all branch heads, including hidden branches, and at all leaves: commits that are not the main parent of
another commit, with or without a ref. Tags are not starting points. Each line follows main parents to the root:

    threshold T = now - days of the branch's rule, or of the default (leaves: always the default)

    head ──▶ parent ──▶ parent ──▶ …        a branch head is active
     │         ▲                            a parent is active if its child is younger than T (strictly),
     └─ younger than T                      so the newest commit older than T on each line stays active

A leaf that is not a head is treated as the parent of a child of the same age.

The server stops a walk at a commit visited before with a threshold not later than its own, and checks this *before* it
marks the commit: a commit first reached from an old child is not marked when a young child leads to it later (L19).
Here the mark comes first, so the result includes the server's. The defect `active_walk_early_stop` has the server's
order.

`find_lines` gives the same answer as an end for each commit. A head stays as long as it is a head; any other commit
until

    the greatest of, for each child c and each line through c:  creation date of c + days of the line

A commit is active now if its end is in the future. The branches behind a commit are disjoint in its children, so they
are counted by addition, in one pass over the history.

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

FOREVER = datetime.max.replace(tzinfo=UTC)
_NAMES_MAX = 5


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
    """Compute the active commits, by id.

    Args:
        commits: every commit record of the repository.
        branches: every branch, with hidden branches.
        find: reads a commit made during the listing of `commits`; raises NotFoundError.
        early_stop: check for an earlier visit before the mark, like the server.

    Raises:
        NotFoundError: a head or a main parent has no record. (A server ends its process here.)
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
            following = child.id  # the leaf is the parent of a child of the same age
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
    through = {commit_id: _Through() for commit_id in graph}
    for branch in branches:
        if branch.commit_id in graph:
            line, days = found[branch.commit_id], _days(rules, branch.id)
            line.heads.append(branch.id)
            line.num_branches += 1
            line.branches = [*line.branches, branch.id][:_NAMES_MAX]
            _keep(line, 1, branch.id)
            through[branch.commit_id].add(days, 1, branch.id)
    for commit in _children_first(graph):
        line, lines = found[commit.id], through[commit.id]
        if not lines.count:  # a leaf
            days = _days(rules, None)
            lines.add(days, 1, "")
            line.until = _until_after(commit.created_at, days)
            if line.until > now:
                _keep(line, 1, "")
        parent = main_parent(commit)
        if parent is not None and parent in graph:
            _hand_on(commit, lines, found[parent], through[parent], now)
            found[parent].num_branches += line.num_branches
            found[parent].branches = [*found[parent].branches, *line.branches][:_NAMES_MAX]
    return found


def _until_after(created_at: datetime, days: int) -> datetime:
    try:
        return created_at + timedelta(days=days)
    except OverflowError:  # more days than a calendar has
        return FOREVER if days > 0 else datetime.min.replace(tzinfo=UTC)


def _hand_on(child: Commit, lines: _Through, line: Line, above: _Through, now: datetime) -> None:
    """Continue the lines through a commit to its main parent."""
    for days, count in lines.count.items():
        branch, until = lines.branch[days], _until_after(child.created_at, days)
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
