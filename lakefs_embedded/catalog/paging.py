"""Pages of listings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lakefs_embedded.catalog.results import Page

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
