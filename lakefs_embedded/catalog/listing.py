"""Pages of paths, with or without a delimiter.

Source: lakeFS pkg/catalog/entry_listing_iterator.go (behaviour only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakefs_embedded.catalog.entries import path_bytes, path_text
from lakefs_embedded.catalog.paging import take_page
from lakefs_embedded.catalog.results import Page


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
