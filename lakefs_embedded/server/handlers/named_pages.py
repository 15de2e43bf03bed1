"""Pages of listings in name order."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from lakefs_embedded.auth import Page
from lakefs_embedded.server import responses
from lakefs_embedded.server.serializers import JsonObject


def named_page[T](
    page: Page[T], serialize: Callable[[T], JsonObject], name_of: Callable[[T], str]
) -> Response:
    """Build the response for a page; the last item's name is the offset of the next page."""
    results = [serialize(each) for each in page.results]
    last = name_of(page.results[-1]) if page.results else ""
    return responses.page(results, has_more=page.has_more, next_offset=last)
