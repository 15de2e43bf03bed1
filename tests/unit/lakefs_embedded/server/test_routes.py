"""The route table as a whole."""

from __future__ import annotations

from itertools import combinations

from lakefs_embedded.server.routes import OPERATIONS, UNIMPLEMENTED

ROUTES = [(each.method, each.path) for each in OPERATIONS] + list(UNIMPLEMENTED)


def overlap(left: tuple[str, str], right: tuple[str, str]) -> bool:
    """Whether some request matches both routes; a path parameter matches one segment."""
    segments = left[1].split("/"), right[1].split("/")
    return (
        left[0] == right[0]
        and len(segments[0]) == len(segments[1])
        and all(a == b or a.startswith("{") or b.startswith("{") for a, b in zip(*segments, strict=True))
    )


def test_no_request_matches_two_routes() -> None:
    assert [pair for pair in combinations(ROUTES, 2) if overlap(*pair)] == []
