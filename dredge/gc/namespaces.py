"""Storage namespaces that overlap: what is garbage to one repository may be another one's data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from dredge.errors import RefusedError

_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "local": "file", "gcs": "gs", "abfs": "abfss", "http": "https"}


def canonical_namespace(uri: str) -> str:
    """Give a namespace the form in which two of them can be compared: one scheme a kind of store, one
    trailing slash.

    Args:
        uri: as a server words it. Nothing but the scheme and trailing slashes is changed: the rest is the
            store's key.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri.rstrip("/") + "/"
    scheme = scheme.lower()
    return f"{_SAME_SCHEME.get(scheme, scheme)}://{rest.rstrip('/')}/"


def overlaps(namespaces: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Find pairs of repositories with equal or nested namespaces.

    Args:
        namespaces: URI by repository.

    Returns:
        (outer repository, inner repository, how: "equals" or "contains"), in a stable order.
    """
    # Sorted, a namespace stands right before everything it contains, so neighbours are enough to find out
    # whether there is any overlap; each group is then compared pairwise.
    ordered = sorted((canonical_namespace(uri), name) for name, uri in namespaces.items())
    found = []
    for index, (outer, first) in enumerate(ordered):
        for inner, second in itertools.islice(ordered, index + 1, None):
            if not inner.startswith(outer):
                break
            found.append((first, second, "equals" if inner == outer else "contains"))
    return found


def check_namespaces(repository: str, namespaces: Mapping[str, str], warn_on_foreign: bool) -> list[str]:
    """Refuse a run when namespaces overlap.

    Args:
        repository: the one to collect; must be among the namespaces.
        namespaces: URI by repository, all of the server.
        warn_on_foreign: overlaps that do not touch this repository are only told.

    Returns:
        Warnings.

    Raises:
        RefusedError: this repository's namespace equals, contains or lies in another one's; or any two do.
    """
    if repository not in namespaces:
        raise RefusedError(
            f"repository {repository} is not in the server's list of repositories, so its namespace cannot"
            " be compared with the others. Nothing was deleted. If it was just made, wait some seconds and"
            " start again."
        )
    warnings = []
    for outer, inner, how in overlaps(namespaces):
        text = (
            f"the storage namespace of {outer} ({namespaces[outer]}) {how} that of {inner}"
            f" ({namespaces[inner]}): what one of them does not use may be the other one's data"
        )
        if repository not in (outer, inner) and warn_on_foreign:
            warnings.append(text)
            continue
        way_out = (
            "Give them separate namespaces."
            if repository in (outer, inner)
            else "Give them separate namespaces, or set warn_on_foreign_overlaps: neither is the repository"
            " to collect."
        )
        raise RefusedError(f"{text}. Nothing was deleted. {way_out}")
    return warnings
