"""The kinds of object stores, by the scheme of their URIs: one line each.

Parsing URIs, comparing storage namespaces and resolving lakeFS's physical addresses all go by this table. A new kind
of store is a line here, a line in `dredge.storage.opening`, and a line in `tests/contract/test_object_store.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

type Driver = Literal["local", "s3", "memory", "azure", "gcs"]

#: Schemes that mean the same place, by the one they are compared as. Treating two places as one can only keep more.
SAME_PLACE: Mapping[str, str] = {
    "s3a": "s3",
    "s3n": "s3",
    "local": "file",
    "mem": "memory",
    "gcs": "gs",
    "abfs": "abfss",
    "http": "https",
}

#: The driver of each scheme.
DRIVERS: Mapping[str, Driver] = {
    "file": "local",
    "local": "local",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "memory": "memory",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "azure": "azure",
    "adl": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "https": "azure",
}


def canonical_scheme(scheme: str) -> str:
    """Give the scheme that a scheme is compared as, in lower case."""
    lower = scheme.lower()
    return SAME_PLACE.get(lower, lower)
