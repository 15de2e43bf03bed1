"""Calls on tags."""

from __future__ import annotations

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.paging import named_page
from dredge.graveler.catalog.results import Page
from dredge.graveler.errors import BranchNotFoundError, TagExistsError
from dredge.graveler.refs.names import check_tag
from dredge.graveler.refs.records import Tag


class TagCalls(CatalogCore):
    """Create, get, list, delete."""

    def create_tag(self, repository: str, tag: str, ref: str, *, force: bool = False) -> Tag:
        """Name a commit.

        Raises:
            TagExistsError: 409; also for the name of a branch or a commit.
        """
        found = self._writable(repository, force)
        check_tag(tag)
        commit = self._resolver.commit(found, ref)
        if self._commits.exists(found, tag):
            raise TagExistsError
        try:
            self._branches.current(found, tag)
        except BranchNotFoundError:
            pass
        else:
            raise TagExistsError
        made = Tag(tag, commit.id)
        self._tags.create(found, made)
        return made

    def get_tag(self, repository: str, tag: str) -> Tag:
        """Look a tag up.

        Raises:
            TagNotFoundError: 404.
        """
        return self._tags.get(self._repositories.get(repository), tag)

    def list_tags(
        self, repository: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[Tag]:
        """List in name order."""
        found = self._repositories.get(repository)
        return named_page(
            lambda start: self._tags.scan(found, start), prefix, after, amount, lambda tag: tag.name
        )

    def delete_tag(self, repository: str, tag: str, *, force: bool = False) -> None:
        """Remove a tag.

        Raises:
            TagNotFoundError: 404.
        """
        self._tags.delete(self._writable(repository, force), tag)
