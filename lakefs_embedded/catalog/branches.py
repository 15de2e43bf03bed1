"""API calls on branches and tags."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from msgspec.structs import replace

from dredge.lakefs.files.records import Branch
from lakefs_embedded.catalog.contents import Contents
from lakefs_embedded.catalog.listing import diff_page, named_page, staged_diffs
from lakefs_embedded.catalog.model import Namespaces, Refs, Staging
from lakefs_embedded.catalog.results import Diff, Page
from lakefs_embedded.errors import (
    BranchExistsError,
    BranchNotFoundError,
    DefaultBranchError,
    DirtyBranchError,
    InvalidValueError,
    TagExistsError,
    TagNotFoundError,
    described,
)
from lakefs_embedded.refs.records import Tag, check_branch, check_path, check_tag, new_staging_token
from lakefs_embedded.staging.protocol import read_branch
from lakefs_embedded.staging.reset import Resets

ResetKind = Literal["reset", "object", "common_prefix"]


@dataclass(eq=False)
class BranchService:
    """Creates, gets, lists, deletes and resets branches; lists their uncommitted changes."""

    _refs: Refs
    _staging: Staging
    _namespaces: Namespaces
    _contents: Contents
    _write_tries: int

    def create_branch(
        self, repository: str, branch: str, source: str, *, hidden: bool = False, force: bool = False
    ) -> str:
        """Create a branch at a commit, with nothing staged; returns the head's commit id.

        Raises BranchExistsError (409) also for the name of a tag or a commit.
        """
        found = self._refs.repositories.writable(repository, force)
        check_branch(branch)
        with described(f"source reference '{source}'"):
            commit_id = self._refs.resolver.commit_id(found, source)
        if self._refs.commits.exists(found, branch):
            raise BranchExistsError
        try:
            self._refs.tags.get(found, branch)
        except TagNotFoundError:
            pass
        else:
            raise BranchExistsError
        token = new_staging_token(repository, branch)
        self._refs.branches.create(found, Branch(branch, commit_id, token, hidden=hidden))
        # Only the defect `cherry_pick_cache` makes a branch whose head does not exist, and then it is there.
        return self._refs.commits.get(found, commit_id).id

    def get_branch(self, repository: str, branch: str) -> Branch:
        """Look up a branch."""
        return self._refs.branches.current(self._refs.repositories.get(repository), branch).branch

    def list_branches(
        self,
        repository: str,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        show_hidden: bool = False,
    ) -> Page[Branch]:
        """List in name order. Without `show_hidden` some live branches are missing (L22)."""
        found = self._refs.repositories.get(repository)

        def scan(start: str) -> Iterator[Branch]:
            return (
                branch
                for branch in self._refs.branches.scan(found, start)
                if show_hidden or not branch.hidden
            )

        return named_page(scan, prefix, after, amount, lambda branch: branch.name)

    def delete_branch(self, repository: str, branch: str, *, force: bool = False) -> None:
        """Delete a branch, and queue its staging tokens for dropping."""
        found = self._refs.repositories.writable(repository, force)
        if branch == found.default_branch:
            raise DefaultBranchError
        present = self._refs.branches.current(found, branch).branch
        self._refs.branches.delete(found, branch)
        self._staging.dropper.queue(present.tokens)

    def reset_branch(
        self,
        repository: str,
        branch: str,
        *,
        kind: ResetKind = "reset",
        path: str = "",
        force: bool = False,
    ) -> None:
        """Discard uncommitted changes: all, those of one path, or those below a prefix.

        As on a real server an object with the committed identity is not reset: readers keep the newer address (L45).
        """
        found = self._refs.repositories.writable(repository, force)
        self._refs.protection.require_writable(found, branch)
        resets = Resets(
            self._refs.branches,
            self._staging.areas,
            self._staging.protocol,
            self._staging.dropper,
            partial(self._contents.committed_value, found),
            self._write_tries,
        )
        if kind == "reset":
            resets.everything(found, branch)
        elif kind == "object":
            resets.path(found, branch, check_path(path))
        elif kind == "common_prefix":
            resets.prefix(found, branch, path.encode("utf-8", "surrogateescape"))
        else:
            raise InvalidValueError(f"unknown reset type {kind!r}: invalid value")

    def hard_reset(self, repository: str, branch: str, ref: str, *, force: bool = False) -> None:
        """Move the head to another commit. Staged changes remain, on top of the new head (L46).

        Raises DirtyBranchError when a sealed token differs from the head (a running or failed commit).
        """
        found = self._refs.repositories.writable(repository, force)
        self._refs.protection.require_writable(found, branch)
        commit = self._refs.resolver.commit(found, ref)

        def moved(present: Branch) -> Branch:
            if self._contents.is_dirty(found, replace(present, staging_token="")):
                raise DirtyBranchError
            return replace(present, commit_id=commit.id)

        self._staging.protocol.change(found, branch, moved)

    def diff_branch(
        self,
        repository: str,
        branch: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        amount: int = 100,
    ) -> Page[Diff]:
        """Staged changes against the head. Entries of equal identity do not differ."""
        found = self._refs.repositories.get(repository)
        ranges = self._namespaces.of(found).ranges

        def read(present: Branch) -> Page[Diff]:
            head = self._refs.commits.get(found, present.commit_id).metarange_id
            return diff_page(
                lambda start: staged_diffs(self._staging.areas, present.tokens, ranges, head, start),
                prefix,
                delimiter,
                after,
                amount,
            )

        return read_branch(self._refs.branches, found, branch, read)


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
