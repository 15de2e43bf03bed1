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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import NotFoundError
from dredge.lakefs.files.gc_files import Rules
from dredge.lakefs.files.records import Branch, Commit


@dataclass(frozen=True, slots=True)
class _Start:
    commit_id: str
    threshold: datetime
    is_head: bool


def active_commits(
    commits: Iterable[Commit],
    branches: Iterable[Branch],
    rules: Rules,
    now: datetime,
    *,
    find: Callable[[str], Commit] | None = None,
    early_stop: bool = False,
) -> dict[str, Commit]:
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


class _Commits(dict[str, Commit]):
    """Commits by id."""

    def __init__(self, find: Callable[[str], Commit] | None) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, commit_id: str) -> Commit:
        if self._find is None:
            raise NotFoundError(f"commit {commit_id} has no record")
        found = self[commit_id] = self._find(commit_id)
        return found


def _starting_points(
    by_id: Mapping[str, Commit], branches: Iterable[Branch], rules: Rules, now: datetime
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
