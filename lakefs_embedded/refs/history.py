"""Walks over the commit graph: the log, and the merge base of two commits.

Source: lakeFS pkg/graveler/ref/commit_iterator.go, merge_base_finder.go (behaviour only).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from lakefs_embedded.refs.records import Commit

GetCommit = Callable[[str], Commit]


def walk(get: GetCommit, start: str, *, first_parent: bool = False) -> Iterator[Commit]:
    """Yield a commit and its ancestors (`first_parent`: first parents only), each once.

    The next commit is always the youngest commit reached so far. The order is not by creation date alone: a commit can
    only follow one of its children.
    """
    first = get(start)
    heap = [_rank(first)]
    known = {start: first}
    while heap:
        commit = known[heapq.heappop(heap)[-1]]
        yield commit
        parents = commit.parents[:1] if first_parent else commit.parents
        for parent_id in parents:
            if parent_id not in known:
                known[parent_id] = get(parent_id)
                heapq.heappush(heap, _rank(known[parent_id]))


def merge_base(get: GetCommit, left: str, right: str) -> Commit | None:
    """Find the youngest common ancestor, by generation. Returns the commit, or None when there is none."""
    sides: dict[str, int] = {}
    heap: list[tuple[int, str]] = []

    def reach(commit_id: str, side: int) -> None:
        if sides.get(commit_id, 0) | side != sides.get(commit_id, 0):
            sides[commit_id] = sides.get(commit_id, 0) | side
            heapq.heappush(heap, (-get(commit_id).generation, commit_id))

    reach(left, 1)
    reach(right, 2)
    while heap:
        _, commit_id = heapq.heappop(heap)
        commit = get(commit_id)
        if sides[commit_id] == 3:
            return commit
        for parent in commit.parents:
            reach(parent, sides[commit_id])
    return None


def _rank(commit: Commit) -> tuple[float, int, str]:
    return (-commit.creation_date.timestamp(), -commit.generation, commit.id)
