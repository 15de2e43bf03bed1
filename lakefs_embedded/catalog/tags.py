"""API calls on tags."""

from __future__ import annotations

from lakefs_embedded.catalog.model import Refs
from lakefs_embedded.catalog.paging import named_page
from lakefs_embedded.catalog.results import Page
from lakefs_embedded.errors import BranchNotFoundError, TagExistsError
from lakefs_embedded.refs.records import Tag, check_tag


class TagService:
    """Creates, gets, lists and deletes tags."""

    def __init__(self, refs: Refs) -> None:
        self._refs = refs

    def create_tag(self, repository: str, tag: str, ref: str, *, force: bool = False) -> Tag:
        """Create a tag of a commit. Raises TagExistsError: 409; also for the name of a branch or a commit."""
        found = self._refs.repositories.writable(repository, force)
        check_tag(tag)
        commit = self._refs.resolver.commit(found, ref)
        if self._refs.commits.exists(found, tag):
            raise TagExistsError
        try:
            self._refs.branches.current(found, tag)
        except BranchNotFoundError:
            pass
        else:
            raise TagExistsError
        made = Tag(tag, commit.id)
        self._refs.tags.create(found, made)
        return made

    def get_tag(self, repository: str, tag: str) -> Tag:
        """Look up a tag."""
        return self._refs.tags.get(self._refs.repositories.get(repository), tag)

    def list_tags(
        self, repository: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[Tag]:
        """List in name order."""
        found = self._refs.repositories.get(repository)
        return named_page(
            lambda start: self._refs.tags.scan(found, start), prefix, after, amount, lambda tag: tag.name
        )

    def delete_tag(self, repository: str, tag: str, *, force: bool = False) -> None:
        """Remove a tag."""
        found = self._refs.repositories.writable(repository, force)
        self._refs.tags.delete(found, tag)
