"""API calls on commits, and the writer of commits: the record, and the new head of the branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from dredge.errors import FormatError, NotFoundError
from dredge.lakefs.files.records import Repository
from lakefs_embedded.catalog.contents import Contents
from lakefs_embedded.catalog.entries import path_bytes
from lakefs_embedded.catalog.listing import take_page
from lakefs_embedded.catalog.model import Clock, Namespaces, Refs, Staging
from lakefs_embedded.catalog.results import Page
from lakefs_embedded.committed.merge import diff
from lakefs_embedded.committed.writing import Change, SplitRule, apply
from lakefs_embedded.errors import (
    DataNotFoundError,
    InvalidValueError,
    MissingError,
    NoChangesError,
    NotUniqueError,
)
from lakefs_embedded.refs.commits import Commits, expected_id, new_commit, walk
from lakefs_embedded.refs.records import Commit
from lakefs_embedded.staging.area import StagingAreas, staged_changes
from lakefs_embedded.staging.protocol import Build
from lakefs_embedded.staging.reset import same_identity


@dataclass(eq=False)
class CommitService:
    """Commits, looks commits up, and lists them."""

    _refs: Refs
    _areas: StagingAreas
    _namespaces: Namespaces
    _commit_writer: CommitWriter
    _rule: SplitRule

    def commit(
        self,
        repository: str,
        branch: str,
        *,
        committer: str,
        message: str,
        metadata: Mapping[str, str] | None = None,
        date: datetime | None = None,
        source_metarange: str | None = None,
        allow_empty: bool = False,
        force: bool = False,
    ) -> Commit:
        """Commit all staged changes of a branch, which stay there after TooManyTriesError (429).

        Args:
            date: creation date instead of now; aware, may be in the past or the future.
            source_metarange: commit this metarange; the branch must have no staged changes.
        """
        found = self._refs.repositories.writable(repository, force)
        self._refs.protection.require_committable(found, branch)
        info = self._commit_writer.dated(CommitInfo(committer, message, metadata or {}, date))
        if source_metarange is None:
            return self._commit_writer.commit_staged(
                found,
                branch,
                lambda head, tokens: self._commit_tokens(found, head, tokens, info, allow_empty),
            )
        return self._commit_writer.commit_tree(
            found,
            branch,
            lambda head: self._commit_metarange(found, head, source_metarange, info),
        )

    def get_commit(self, repository: str, ref: str) -> Commit:
        """Resolve an expression to its commit."""
        return self._refs.resolver.commit(self._refs.repositories.get(repository), ref)

    def create_commit_record(self, repository: str, commit: Commit, *, force: bool = False) -> None:
        """Write a commit record with any date and version; its id must be its hash."""
        found = self._refs.repositories.writable(repository, force)
        expected = expected_id(commit)
        if commit.id != expected:
            raise InvalidValueError(f"commit id {commit.id} is not the hash {expected}: invalid value")
        if self._refs.commits.exists(found, commit.id):
            raise NotUniqueError
        self._refs.commits.add(found, commit)

    def log(
        self,
        repository: str,
        ref: str,
        *,
        objects: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit: bool = False,
        first_parent: bool = False,
        since: datetime | None = None,
        stop_at: str | None = None,
        after: str = "",
        amount: int = 100,
    ) -> Page[Commit]:
        """A commit and its ancestors, newest first along the graph.

        Args:
            objects, prefixes: only commits with changes to these paths, or below these prefixes.
            limit: `amount` limits the whole result; there is no next page.
            since: stop at the first commit older than this.
            stop_at: ref of the last commit to list.
        """
        found = self._refs.repositories.get(repository)
        start = self._refs.resolver.commit(found, ref)
        last = None if stop_at is None else self._refs.resolver.commit(found, stop_at).id
        commits = self._walk(found, start.id, first_parent=first_parent, since=since, last=last)
        if after:
            commits = _behind(commits, after)
        if objects or prefixes:
            commits = (commit for commit in commits if self._changes_any(found, commit, objects, prefixes))
        page = take_page(commits, amount, lambda commit: commit.id)
        return Page(page.results) if limit else page

    def read_metadata_object(self, repository: str, object_id: str) -> bytes:
        """Bytes of a range or metarange file."""
        found = self._refs.repositories.get(repository)
        try:
            return self._namespaces.of(found).objects.get(f"_lakefs/{object_id}")
        except (NotFoundError, FormatError):
            raise DataNotFoundError from None

    def _commit_tokens(
        self,
        repository: Repository,
        head: str,
        tokens: Sequence[str],
        info: CommitInfo,
        allow_empty: bool,
    ) -> Commit:
        parent = self._refs.commits.get(repository, head)
        changes = (Change(staged.path, staged.value) for staged in staged_changes(self._areas, tokens))
        applied = apply(self._namespaces.of(repository).ranges, parent.metarange_id, changes, self._rule)
        if not applied.anything and not allow_empty:
            raise NoChangesError("commit: no changes")
        made = self._commit_writer.make(info, applied.metarange_id, (parent,))
        return self._commit_writer.write(repository, made)

    def _commit_metarange(
        self, repository: Repository, head: str, metarange_id: str, info: CommitInfo
    ) -> Commit:
        parent = self._refs.commits.get(repository, head)
        try:
            self._namespaces.of(repository).ranges.get_metarange(metarange_id)
        except NotFoundError:
            raise MissingError("metarange not found") from None
        return self._commit_writer.write(repository, self._commit_writer.make(info, metarange_id, (parent,)))

    def _walk(
        self,
        repository: Repository,
        start: str,
        *,
        first_parent: bool,
        since: datetime | None,
        last: str | None,
    ) -> Iterator[Commit]:
        for commit in walk(partial(self._refs.commits.get, repository), start, first_parent=first_parent):
            if since is not None and commit.creation_date < since:
                return
            yield commit
            if commit.id == last:
                return

    def _changes_any(
        self, repository: Repository, commit: Commit, objects: Sequence[str], prefixes: Sequence[str]
    ) -> bool:
        parent = commit.main_parent
        before = "" if parent is None else self._refs.commits.get(repository, parent).metarange_id
        if before == commit.metarange_id:
            return False
        ranges = self._namespaces.of(repository).ranges
        for path in map(path_bytes, objects):
            if not same_identity(ranges.get_entry(before, path), ranges.get_entry(commit.metarange_id, path)):
                return True
        wanted = tuple(map(path_bytes, prefixes))
        return bool(wanted) and any(
            difference.key.startswith(wanted) for difference in diff(ranges, before, commit.metarange_id)
        )


def _behind(commits: Iterator[Commit], after: str) -> Iterator[Commit]:
    for commit in commits:
        if commit.id == after:
            return commits
    return iter(())


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Committer, message, metadata and date (aware; None means now) of a commit."""

    committer: str
    message: str
    metadata: Mapping[str, str]
    date: datetime | None = None


class CommitWriter:
    """Writes commits, and queues the replaced staging tokens for dropping."""

    def __init__(self, commits: Commits, staging: Staging, contents: Contents, clock: Clock) -> None:
        self._commits = commits
        self._staging = staging
        self._contents = contents
        self._clock = clock

    def dated(self, info: CommitInfo) -> CommitInfo:
        """Set the date of a commit without one to now."""
        return info if info.date else replace(info, date=self._clock())

    def make(self, info: CommitInfo, metarange_id: str, parents: Sequence[Commit]) -> Commit:
        """Make a commit without writing it."""
        return new_commit(
            committer=info.committer,
            message=info.message,
            creation_date=info.date or self._clock(),
            metarange_id=metarange_id,
            metadata=info.metadata,
            parents=parents,
        )

    def write(self, repository: Repository, commit: Commit) -> Commit:
        """Write a commit's record; its metarange must be written first."""
        self._commits.add(repository, commit)
        return commit

    def commit_staged(self, repository: Repository, branch: str, build: Build) -> Commit:
        """Commit a branch's staged changes; see `CommitProtocol.commit_staged`."""
        done = self._staging.protocol.commit_staged(repository, branch, build)
        self._staging.dropper.queue(done.dropped)
        return done.commit

    def commit_tree(self, repository: Repository, branch: str, build: Callable[[str], Commit]) -> Commit:
        """Commit other content to a branch without uncommitted changes; see `CommitProtocol.commit_tree`."""
        done = self._staging.protocol.commit_tree(
            repository, branch, build, lambda present: self._contents.is_dirty(repository, present)
        )
        self._staging.dropper.queue(done.dropped)
        return done.commit
