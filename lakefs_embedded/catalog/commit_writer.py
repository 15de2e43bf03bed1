"""Writes commits: the record, and the new head of the branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.lakefs.files.records import Repository
from lakefs_embedded.catalog.contents import Contents
from lakefs_embedded.catalog.model import Clock, Staging
from lakefs_embedded.refs.commits import Commits, new_commit
from lakefs_embedded.refs.records import Commit
from lakefs_embedded.staging.protocol import Build


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
