"""Listing a prefix of a bucket: pages of a thousand objects in strict order, every key exact.

Source: Cloud Storage JSON API, Objects: list (lexicographic order by name, startOffset inclusive, endOffset exclusive,
pages that may be short or empty and still have a successor).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.storage.gcs.names import Place
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.gcs.resources import FIELDS, Listed, Resource, info, read_page, rows
from dredge.storage.gcs.wire import ask, bucket_url
from dredge.storage.keys import is_text
from dredge.storage.model import Level

PAGE_ROWS = 1000
BATCH_ROWS = 8000


def pages(
    options: GcsOptions, place: Place, prefix: str, fields: str = FIELDS, **more: str
) -> Iterator[Listed]:
    """The pages of one listing, to its end.

    Args:
        options: how to reach the service.
        place: of the bucket.
        prefix: whole, from the root of the bucket.
        fields: asked of each object.
        more: further parameters.

    Raises:
        FormatError: a page is not whole, or the pages have no end.
        ConfigError: there is no such bucket.
    """
    doing = f"listing gs://{place.bucket}/{prefix}"
    asked: dict[str, Any] = {
        "prefix": prefix,
        "maxResults": PAGE_ROWS,
        "fields": f"kind,nextPageToken,prefixes,items({fields})",
        **more,
    }
    url, seen = f"{bucket_url(options, place.bucket)}/o", set[str]()
    while True:
        try:
            answer = ask(options, "GET", url, doing, params=asked)
        except NotFoundError:
            raise ConfigError(f"{doing}: the bucket does not exist at this endpoint") from None
        page = read_page(answer.body, doing)
        yield page
        token = page.next_page_token
        if not token:
            return
        if token in seen:
            raise FormatError(f"{doing}: the server repeats a page token; there is no end")
        seen.add(token)
        asked["pageToken"] = token


def list_objects(
    options: GcsOptions, place: Place, prefix: str, start_after: str, stop_before: str
) -> Iterator[pa.RecordBatch]:
    """List keys below a place; see `ObjectReader.list`."""
    if not is_text(prefix + start_after + stop_before):
        raise ConfigError(f"{prefix!r} cannot begin the name of an object in {place.uri}")
    whole, bounds = place.root + prefix, {}
    if start_after:
        bounds["startOffset"] = place.root + start_after
    if stop_before:
        bounds["endOffset"] = place.root + stop_before
    last, held = "", list[Resource]()
    for page in pages(options, place, whole, **bounds):
        last = _in_order(page.items, last, whole)
        held += _within(page.items, bounds)
        if len(held) >= BATCH_ROWS:
            yield rows(held, len(place.root))
            held = []
    if held:
        yield rows(held, len(place.root))


def _within(items: list[Resource], bounds: dict[str, str]) -> list[Resource]:
    """Cut a page to the bounds: the lower one is not part of what is asked for, and an endpoint may know none."""
    low, high = bounds.get("startOffset", ""), bounds.get("endOffset", "")
    if not items or (items[0].name > low and (not high or items[-1].name < high)):
        return items
    return [item for item in items if item.name > low and (not high or item.name < high)]


def _in_order(items: list[Resource], last: str, prefix: str) -> str:
    """Prove that names ascend strictly and are what was asked for; gives the last one.

    What is listed by key ranges side by side, and what is compared with another listing, rests on the order.
    """
    for item in items:
        if item.name <= last or not item.name.startswith(prefix):
            raise FormatError(
                f"listing {prefix!r}: {item.name!r} after {last!r} is not in order, or not below the prefix."
                " Nothing of this listing may be used."
            )
        last = item.name
    return last


def list_one_level(options: GcsOptions, place: Place, prefix: str) -> Level:
    """List one level; see `ObjectReader.list_level`."""
    if not is_text(prefix):
        return Level([], [])
    folders, objects, cut = list[str](), list[Resource](), len(place.root)
    for page in pages(options, place, place.root + prefix, delimiter="/"):
        folders += page.prefixes
        objects += page.items
    _in_order(objects, "", place.root + prefix)
    return Level(
        sorted({folder[cut:] for folder in folders}), [info(item.name[cut:], item) for item in objects]
    )
