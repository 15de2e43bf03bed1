"""Calls on tags."""

from __future__ import annotations

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import Page
from dredge.graveler.refs.records import Tag


class TagCalls(CatalogCore):
    """Create, get, list, delete."""

    def create_tag(self, repository: str, tag: str, ref: str, *, force: bool = False) -> Tag:
        """Name a commit.

        Raises:
            TagExistsError: 409; also for the name of a branch or a commit.
        """
        raise NotImplementedError

    def get_tag(self, repository: str, tag: str) -> Tag:
        """Look a tag up.

        Raises:
            TagNotFoundError: 404.
        """
        raise NotImplementedError

    def list_tags(
        self, repository: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[Tag]:
        """List in name order."""
        raise NotImplementedError

    def delete_tag(self, repository: str, tag: str, *, force: bool = False) -> None:
        """Remove a tag.

        Raises:
            TagNotFoundError: 404.
        """
        raise NotImplementedError
