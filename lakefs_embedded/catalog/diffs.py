"""Differences as the API shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dredge.lakefs.files.ranges import Value
from lakefs_embedded.catalog.entries import decode_entry, path_bytes
from lakefs_embedded.catalog.listing import list_page
from lakefs_embedded.catalog.results import Diff, DiffType, Page
from lakefs_embedded.committed import Difference, RangeReader
from lakefs_embedded.staging.area import StagingAreas
from lakefs_embedded.staging.combined import staged_changes


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed path: the change, the new value (or None), and the last value of a removed path."""

    type: DiffType
    value: Value | None
    removed: Value | None = None


def staged_diffs(
    areas: StagingAreas, tokens: Sequence[str], ranges: RangeReader, head: str, start: bytes = b""
) -> Iterator[tuple[bytes, Changed]]:
    """Staged changes against a commit, in path order.

    An entry of the committed identity does not differ, even with another address (L6).
    """
    for staged in staged_changes(areas, tokens, start):
        below = ranges.get_entry(head, staged.path)
        if staged.value is None:
            if below is not None:
                yield staged.path, Changed("removed", None, below)
        elif below is None:
            yield staged.path, Changed("added", staged.value)
        elif below.identity != staged.value.identity:
            yield staged.path, Changed("changed", staged.value)


def committed_diffs(differences: Iterator[Difference], start: bytes) -> Iterator[tuple[bytes, Changed]]:
    """Differences between two contents, from a path on."""
    for difference in differences:
        if difference.key >= start:
            removed = difference.left if difference.right is None else None
            yield difference.key, Changed(difference.kind.value, difference.right, removed)


def diff_page(
    seek: Callable[[bytes], Iterator[tuple[bytes, Changed]]],
    prefix: str,
    delimiter: str,
    after: str,
    amount: int,
) -> Page[Diff]:
    """One page of differences; arguments as for `list_page`."""
    page = list_page(seek, prefix, delimiter, after, amount)
    return Page([_answer(*result) for result in page.results], page.has_more, page.next_offset)


def _answer(path: str, changed: Changed | None) -> Diff:
    if changed is None:
        return Diff("prefix_changed", path, "common_prefix")
    value = changed.value or changed.removed
    size = 0 if value is None else decode_entry(path_bytes(path), value).size
    return Diff(changed.type, path, size_bytes=size)
