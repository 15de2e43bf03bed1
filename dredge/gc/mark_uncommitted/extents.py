"""What a page of the server's scan may have covered: which rows of which branches.

Rows come in (branch, path) order, by the bytes of the names. A page is asked for with the continuation token that the
one before it gave; a token is base64 of JSON, with the branch and the path at which the page begins.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

REPLACED = "\ufffd"
"""Stands in answers for bytes of a path that are not UTF-8; under such a name nothing can be asked."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a page of the scan may have covered: from a branch, and a path in it, up to a branch.

    Attributes:
        branch: the first one; "" for the beginning.
        path: rows of the first branch before it were on earlier pages.
        until: the branch that the next page begins with; None when there was no next page.
        into: whether the next page begins inside that branch, so that this one had some of it.
    """

    branch: str = ""
    path: str = ""
    until: str | None = None
    into: bool = True

    @classmethod
    def between(cls, token: str | None, following: str | None) -> Extent:
        """The extent of a page.

        Args:
            token: that it was asked for with; None for the first.
            following: the token that it gave; None for the last.

        Returns:
            Everything, on a side whose token is not understood.
        """
        begin, end = _mark(token), _mark(following)
        branch, path = begin or ("", "")
        return cls(branch, path, end[0] if end else None, bool(end and end[1]))

    @classmethod
    def skipped_by(cls, token: str | None) -> Extent | None:
        """What the server may have passed over between two pages, though both have a location: a token cannot spell
        a path that is not UTF-8, so the next page begins at another one, which may lie far behind it.

        Args:
            token: between the pages; None for none.

        Returns:
            The branch; None for a path that the token spells as it is.
        """
        mark = _mark(token)
        if mark is None or REPLACED not in mark[1]:
            return None
        return cls(*mark, until=mark[0])

    def after(self, branch: str) -> str | None:
        """The path of a branch behind which the page's rows lie; None when it cannot have had any."""
        name, first = branch.encode(), self.branch.encode()
        if name < first:
            return None
        if self.until is not None:
            last = self.until.encode()
            if name > last or (name == last and not self.into):
                return None
        # A page begins with its path, a list of changes behind one: a shorter path lies before it.
        inside = name == first and REPLACED not in self.path
        return self.path[:-1] if inside else ""


def _mark(token: str | None) -> tuple[str, str] | None:
    """Branch and path that a continuation token names."""
    if token is None:
        return None
    try:
        value = json.loads(base64.b64decode(token, validate=True))
        return str(value["branch"]), str(value["path"] or "")
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
