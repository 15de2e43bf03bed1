"""Which blob names mean exactly one blob, whoever passes a request on."""

from __future__ import annotations

import re

from dredge.storage.keys import is_text

_CHARACTERS_MAX = 1024
# A backslash is a slash to some of the service's front ends, control characters are not allowed, and a segment that
# ends with a dot loses it on the way; HTTP libraries resolve `.` and `..` by themselves.
_AMBIGUOUS = re.compile("[\\\\\x00-\x1f\x7f-\x9f\ufffe\uffff]|\\.(?:/|$)")


def is_exact(name: str) -> bool:
    """Whether a whole blob name reaches the service as it is, so that no other blob can be meant.

    Source: "Naming and referencing containers, blobs, and metadata" of Azure's documentation.
    """
    return (
        0 < len(name.encode("utf-16-le", "surrogatepass")) // 2 <= _CHARACTERS_MAX
        and is_text(name)
        and _AMBIGUOUS.search(name) is None
    )
