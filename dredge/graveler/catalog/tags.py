"""API calls on tags."""

from __future__ import annotations

from dredge.graveler.catalog.events import Event, EventType, HookedChange, Hooks
from dredge.graveler.catalog.model import Refs
from dredge.graveler.catalog.paging import named_page
from dredge.graveler.catalog.results import Page
from dredge.graveler.errors import BranchNotFoundError, TagExistsError, TagNotFoundError
from dredge.graveler.refs.names import check_tag
from dredge.graveler.refs.records import Repository, Tag


class TagService:
    """Creates, gets, lists and deletes tags.

    Args:
        refs: records.
        hooks: told of every tag that is created or deleted.
    """

    def __init__(self, refs: Refs, hooks: Hooks) -> None:
        self._refs = refs
        self._hooks = hooks

    def create_tag(self, repository: str, tag: str, ref: str, *, force: bool = False) -> Tag:
        """Create a tag of a commit.

        Raises:
            TagExistsError: 409; also for the name of a branch or a commit.
        """
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
        self._require_new(found, tag)
        made = Tag(tag, commit.id)
        event = Event(EventType.PRE_CREATE_TAG, found, commit.id, tag=tag, commit_id=commit.id)
        change = HookedChange(self._hooks, event)
        change.before()
        self._refs.tags.create(found, made)
        change.after()
        return made

    def _require_new(self, repository: Repository, tag: str) -> None:
        """Refuse an existing tag before a hook is asked; creating it looks again."""
        try:
            self._refs.tags.get(repository, tag)
        except TagNotFoundError:
            return
        raise TagExistsError

    def get_tag(self, repository: str, tag: str) -> Tag:
        """Look up a tag.

        Raises:
            TagNotFoundError: 404.
        """
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
        """Remove a tag.

        Raises:
            TagNotFoundError: 404.
        """
        found = self._refs.repositories.writable(repository, force)
        commit_id = self._refs.tags.get(found, tag).commit_id
        change = HookedChange(
            self._hooks, Event(EventType.PRE_DELETE_TAG, found, commit_id, tag=tag, commit_id=commit_id)
        )
        change.before()
        self._refs.tags.delete(found, tag)
        change.after()
