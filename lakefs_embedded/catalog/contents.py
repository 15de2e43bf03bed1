"""Contents of a repository: committed, or committed with a branch's staged changes on top."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.catalog.entries import decode_entry
from lakefs_embedded.catalog.model import Namespaces, Refs
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import PathNotFoundError, TooManyTriesError
from lakefs_embedded.staging.area import StagingAreas
from lakefs_embedded.staging.combined import overlay, staged_changes, staged_value
from lakefs_embedded.staging.flows import READ_TRIES, read_branch
from lakefs_embedded.staging.reset import same_identity


class Contents:
    """Looks paths up, and lists them."""

    def __init__(self, refs: Refs, areas: StagingAreas, namespaces: Namespaces) -> None:
        self._refs = refs
        self._areas = areas
        self._namespaces = namespaces

    def committed_value(self, repository: Repository, commit_id: str, path: bytes) -> Value | None:
        """The value of a path in a commit."""
        metarange_id = self._refs.commits.get(repository, commit_id).metarange_id
        return self._namespaces.of(repository).ranges.get_entry(metarange_id, path)

    def staged_value(self, branch: Branch, path: bytes) -> Value | None:
        """The staged value of a path; None also for a tombstone."""
        staged = staged_value(self._areas, branch.tokens, path)
        return None if staged is None else staged.value

    def value_on(self, repository: Repository, branch: Branch, path: bytes) -> Value | None:
        """The value of a path on a branch, staged or committed."""
        staged = staged_value(self._areas, branch.tokens, path)
        if staged is not None:
            return staged.value
        return self.committed_value(repository, branch.commit_id, path)

    def settled_value(
        self, repository: Repository, branch: Branch, path: bytes, *, below: bool = False
    ) -> Value | None:
        """The value of a path on a branch, as last read, correct also during a concurrent commit and drop.

        With `below`, without the newest token.
        """
        for _ in range(READ_TRIES):
            seen = replace(branch, staging_token="") if below else branch
            value = self.value_on(repository, seen, path)
            after = self._refs.branches.current(repository, branch.name).branch
            if after == branch:
                return value
            branch = after
        raise TooManyTriesError

    def find_entry(self, repository: Repository, ref: str, path: bytes) -> Entry:
        """The entry of a path at a ref."""
        resolved = self._refs.resolver.resolve(repository, ref)
        if resolved.branch is None:
            value = self.committed_value(repository, resolved.commit_id, path)
        elif resolved.staging_only:
            value = read_branch(
                self._refs.branches,
                repository,
                resolved.branch,
                lambda branch: self.staged_value(branch, path),
            )
        else:
            value = read_branch(
                self._refs.branches,
                repository,
                resolved.branch,
                lambda branch: self.value_on(repository, branch, path),
            )
        if value is None:
            raise PathNotFoundError
        return decode_entry(path, value)

    def list_committed(
        self, repository: Repository, commit_id: str, start: bytes
    ) -> Iterator[tuple[bytes, Value]]:
        """Paths and values of a commit in path order, from a path on."""
        metarange_id = self._refs.commits.get(repository, commit_id).metarange_id
        return self._namespaces.of(repository).ranges.list_entries(metarange_id, start=start)

    def list_branch(
        self, repository: Repository, branch: Branch, start: bytes, *, staging_only: bool = False
    ) -> Iterator[tuple[bytes, Value]]:
        """Paths and values of a branch in path order, from a path on; with `staging_only` without committed ones."""
        below = iter(()) if staging_only else self.list_committed(repository, branch.commit_id, start)
        return overlay(staged_changes(self._areas, branch.tokens, start), below)

    def is_dirty(self, repository: Repository, branch: Branch) -> bool:
        """Whether a branch's tokens differ from its head."""
        return any(
            not same_identity(change.value, self.committed_value(repository, branch.commit_id, change.path))
            for change in staged_changes(self._areas, branch.tokens)
        )
