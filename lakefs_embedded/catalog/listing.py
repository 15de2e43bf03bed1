"""Pages of listings: of paths, with or without a delimiter, of named records, of differences.

Source: lakeFS pkg/catalog/entry_listing_iterator.go (behaviour only).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dredge.lakefs.files.ranges import Value
from lakefs_embedded.catalog.entries import decode_entry, path_bytes, path_text
from lakefs_embedded.catalog.results import Diff, DiffType, Page
from lakefs_embedded.committed.merge import Difference
from lakefs_embedded.committed.store import RangeReader
from lakefs_embedded.staging.area import StagingAreas, staged_changes


def list_page[T](
    seek: Callable[[bytes], Iterator[tuple[bytes, T]]], prefix: str, delimiter: str, after: str, amount: int
) -> Page[tuple[str, T | None]]:
    """One page of a listing; `seek` returns (path, item) pairs in path order, from a path on.

    Paths that are equal up to a `delimiter` (after the prefix) are one result, with None as the item.
    """
    folded = fold(seek, path_bytes(prefix), path_bytes(delimiter), path_bytes(after))
    items = ((path_text(path), thing) for path, thing in folded)
    return take_page(items, amount, lambda item: item[0])


def fold[T](
    seek: Callable[[bytes], Iterator[tuple[bytes, T]]], prefix: bytes, delimiter: bytes, after: bytes
) -> Iterator[tuple[bytes, T | None]]:
    """Yield the results of a listing; seeks past paths below a folded prefix instead of reading them."""
    start: bytes | None = max(prefix, after)
    while start is not None:
        found, start = seek(start), None
        for path, thing in found:
            if not path.startswith(prefix):
                return  # the first path is not before the prefix
            cut = path.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0:
                if path != after:
                    yield path, thing
                continue
            common = path[: cut + len(delimiter)]
            if common != after:
                yield common, None
            start = _behind(common)
            break


def _behind(prefix: bytes) -> bytes | None:
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


AMOUNT_DEFAULT = 100
AMOUNT_MAX = 1000


def page_size(amount: int) -> int:
    """The page size for a request: the default for 0 or less, and never more than the maximum."""
    return min(amount, AMOUNT_MAX) if amount > 0 else AMOUNT_DEFAULT


def take_page[T](items: Iterable[T], amount: int, name: Callable[[T], str]) -> Page[T]:
    """The first `amount` items of an ordered sequence; one more is read. `name` makes the next page's offset."""
    size = page_size(amount)
    results: list[T] = []
    for item in items:
        if len(results) == size:
            return Page(results, has_more=True, next_offset=name(results[-1]))
        results.append(item)
    return Page(results)


def named_page[T](
    scan: Callable[[str], Iterator[T]], prefix: str, after: str, amount: int, name: Callable[[T], str]
) -> Page[T]:
    """One page of records in name order."""

    def wanted() -> Iterator[T]:
        for item in scan(max(prefix, after)):
            if not name(item).startswith(prefix):
                if name(item) > prefix:
                    return
                continue
            if name(item) > after:
                yield item

    return take_page(wanted(), amount, name)


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
