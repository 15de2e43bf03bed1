"""What a lakeFS server tells a collector, and the calls that tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository.

    Attributes:
        name: its id.
        namespace: URI of its storage namespace, as the server words it.
        default_branch: name.
        read_only: the server prepares nothing for such a one.
    """

    name: str
    namespace: str
    default_branch: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag, and the commit it names."""

    id: str
    commit_id: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit.

    Attributes:
        id: 64 hex digits.
        parents: ids; which one retention follows depends on `version`.
        created_at: as the server says, which a client may have chosen.
        metarange_id: "" for the first commit of a repository.
        version: 0 or 1.
    """

    id: str
    parents: tuple[str, ...]
    created_at: datetime
    metarange_id: str
    version: int = 1


@dataclass(frozen=True, slots=True)
class Rules:
    """Garbage collection rules; branch names are exact, no patterns."""

    default_retention_days: int
    branches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UncommittedPage:
    """One page of uncommitted addresses.

    Attributes:
        run_id: the server's id of this scan, the same for all its pages.
        location: URI of the folder with the files; "" when this page wrote none, whatever others wrote.
        token: for the next page; None on the last.
    """

    run_id: str
    location: str
    token: str | None


@dataclass(frozen=True, slots=True)
class PreparedCommits:
    """Where the server wrote the active commits, as a CSV file."""

    run_id: str
    location: str


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """An object as a branch, tag or commit sees it. `address` is a full URI."""

    path: str
    address: str
    checksum: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between a branch's staging and its head: "added", "changed" or "removed"."""

    path: str
    type: str


class LakeFS(Protocol):
    """The calls a collector makes. All raise errors of `dredge.errors`."""

    def clock(self) -> datetime | None:
        """The server's time by the Date of an answer over a new connection: whole seconds, rounded down. None
        when the answer has none."""

    def repositories(self) -> list[Repository]:
        """Every repository of the server."""

    def repository(self, name: str) -> Repository:
        """One repository; raises NotFoundError, and RefusedError while it is being deleted."""

    def branches(self, repository: str) -> list[Ref]:
        """Every branch, hidden ones too, in name order."""

    def tags(self, repository: str) -> list[Ref]:
        """Every tag."""

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        """A ref's commit and all its ancestors, newest first; raises NotFoundError."""

    def commit(self, repository: str, commit_id: str) -> Commit:
        """One commit; raises NotFoundError only when the record is really missing."""

    def rules(self, repository: str) -> Rules | None:
        """The garbage collection rules; None when there are none."""

    def prepare_uncommitted(self, repository: str, token: str | None) -> UncommittedPage:
        """Let the server write a page of uncommitted addresses; no token starts a new scan."""

    def prepare_commits(self, repository: str, deadline_seconds: float) -> PreparedCommits | None:
        """Let the server compute the active commits; None when the repository has no rules.

        Raises:
            RefusedError: any other answer that is no result; never read one as "nothing is committed".
        """

    def stat(self, repository: str, ref: str, path: str) -> ObjectStats:
        """What a ref has under a path.

        Raises:
            NotFoundError: lakeFS itself says that the ref or the path is not there.
            UnavailableError: no answer of lakeFS, which says nothing about the path.
        """

    def objects(self, repository: str, ref: str, after: str = "", amount: int = 1000) -> list[ObjectStats]:
        """The next objects of a ref, in path order, after a path; raises NotFoundError when the ref is not there."""

    def objects_page(
        self, repository: str, ref: str, after: str = "", amount: int = 1000
    ) -> tuple[list[ObjectStats], bool]:
        """The next objects of a ref, in path order, after a path; and whether more follow."""

    def changes(self, repository: str, branch: str, amount: int = 100, after: str = "") -> list[Change]:
        """The next differences between a branch's staging and its head, in path order, after a path.

        Fewer than `amount` means that there are no more.

        Raises:
            NotFoundError: lakeFS itself says that the branch is not there.
        """
