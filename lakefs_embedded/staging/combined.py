"""Reads several staging tokens and a commit as one.

The newest token with a change of a path decides; if no token has one, the commit does.

Source: design "lakeFS on KV", reading flow; lakeFS pkg/graveler/combined_iterator.go (behaviour only).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from dredge.lakefs.files.ranges import Value
from lakefs_embedded.staging.area import Staged, StagingAreas


def staged_value(areas: StagingAreas, tokens: Sequence[str], path: bytes) -> Staged | None:
    """The newest change of a path (`tokens` newest first); None when no token has one."""
    for token in tokens:
        staged = areas.get(token, path)
        if staged is not None:
            return staged
    return None


def staged_changes(areas: StagingAreas, tokens: Sequence[str], start: bytes = b"") -> Iterator[Staged]:
    """The newest change of every path in path order, including tombstones."""
    if len(tokens) == 1:
        yield from areas.scan(tokens[0], start)
        return
    ranked = [_rank(areas, token, age, start) for age, token in enumerate(tokens)]
    last: bytes | None = None
    for path, _, staged in heapq.merge(*ranked, key=lambda item: item[:2]):
        if path != last:
            last = path
            yield staged


def overlay(
    changes: Iterable[Staged], committed: Iterable[tuple[bytes, Value]]
) -> Iterator[tuple[bytes, Value]]:
    """Committed values with changes applied, both in path order; deleted paths are left out."""
    below = iter(committed)
    present = next(below, None)
    for change in changes:
        while present is not None and present[0] < change.path:
            yield present
            present = next(below, None)
        if present is not None and present[0] == change.path:
            present = next(below, None)
        if change.value is not None:
            yield change.path, change.value
    while present is not None:
        yield present
        present = next(below, None)


def _rank(areas: StagingAreas, token: str, age: int, start: bytes) -> Iterator[tuple[bytes, int, Staged]]:
    for staged in areas.scan(token, start):
        yield staged.path, age, staged
