"""Where a file lies that the server names by its full URI."""

from __future__ import annotations

from dredge.errors import RefusedError
from dredge.gc.namespaces import canonical_namespace


def key_of(location: str, namespace: str) -> str:
    """Give the key, relative to the namespace, of a file or folder that the server names.

    Args:
        location: full URI.
        namespace: URI of the storage namespace.

    Raises:
        RefusedError: it lies elsewhere, so it cannot be read through the namespace's door.
    """
    inside = canonical_namespace(namespace)
    found = canonical_namespace(location)
    if not found.startswith(inside):
        raise RefusedError(
            f"lakeFS wrote its answer to {location}, which is not below the storage namespace {namespace}."
            " Nothing was deleted. The collector must read it; check the server's block store settings."
        )
    key = found[len(inside) :]
    return key if location.endswith("/") else key.rstrip("/")
