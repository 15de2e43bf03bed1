"""Pages of listings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dredge.graveler.catalog.results import Page

AMOUNT_DEFAULT = 100
AMOUNT_MAX = 1000


def page_size(amount: int) -> int:
    """The number of results that a request gets: 0 and less mean the default, and there is a largest one."""
    return min(amount, AMOUNT_MAX) if amount > 0 else AMOUNT_DEFAULT


def take_page[T](items: Iterable[T], amount: int, name: Callable[[T], str]) -> Page[T]:
    """Cut one page off a sequence that begins where the page begins.

    Args:
        items: in order; one more than a page is looked at.
        amount: results wanted, see `page_size`.
        name: what the next page is asked to go on after.
    """
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
    """Cut one page off records that are kept in name order.

    Args:
        scan: records from a name on.
        prefix: only names that begin with it.
        after: only names greater than it.
        amount: results wanted.
        name: a record's name.
    """

    def wanted() -> Iterator[T]:
        for item in scan(max(prefix, after)):
            if not name(item).startswith(prefix):
                if name(item) > prefix:
                    return
                continue
            if name(item) > after:
                yield item

    return take_page(wanted(), amount, name)
