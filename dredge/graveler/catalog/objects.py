"""Calls that read objects."""

from __future__ import annotations

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import ObjectContent, ObjectStats, Page


class ObjectCalls(CatalogCore):
    """Stat, read, list, at any ref."""

    def stat(self, repository: str, ref: str, path: str) -> ObjectStats:
        """Look a path up.

        Raises:
            PathNotFoundError: 404.
        """
        raise NotImplementedError

    def get_object(self, repository: str, ref: str, path: str) -> ObjectContent:
        """Look a path up to read its bytes.

        Raises:
            PathNotFoundError: 404. A missing object raises only when it is read.
        """
        raise NotImplementedError

    def list_entries(
        self,
        repository: str,
        ref: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        amount: int = 100,
    ) -> Page[ObjectStats]:
        """List paths in byte order.

        Args:
            repository: its name.
            ref: expression; a branch shows what is staged, `branch@` does not.
            prefix: only paths that begin with it.
            delimiter: fold what follows it into one common prefix.
            after: last path or common prefix of the page before.
            amount: results a page, at most 1000.
        """
        raise NotImplementedError
