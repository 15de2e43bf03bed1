"""Data of a lakeFS server for collectors, and the calls to get it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository.

    Attributes:
        namespace: URI of the storage namespace, exactly as the server returns it.
        read_only: the server does not prepare a garbage collection of a read-only repository.
        created_at: aware UTC, in whole seconds; None if the server does not return it. A repository that was deleted
            and created again has another one.
    """

    name: str
    namespace: str
    default_branch: str
    read_only: bool = False
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag, and the id of its commit."""

    id: str
    commit_id: str


@dataclass(frozen=True, slots=True)
class CommitText:
    """The fields of a commit for its id only; `generation` is the largest generation of its parents, plus 1."""

    committer: str
    message: str
    metadata: Mapping[str, str]
    generation: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit.

    Attributes:
        parents: commit ids; `version` decides about the main parent.
        created_at: aware UTC; clients can set it.
        metarange_id: "" for the first commit of a repository.
        text: the other fields of the record; None if they were not read.
    """

    id: str
    parents: tuple[str, ...]
    created_at: datetime
    metarange_id: str
    version: int = 1
    text: CommitText | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """Garbage collection rules: days for branches without a rule, and days by exact branch name."""

    default_retention_days: int
    branches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UncommittedPage:
    """A page of uncommitted addresses.

    Attributes:
        run_id: the server's id of this scan, equal on all its pages.
        location: URI of the folder with the files; "" if this page wrote no file.
        token: continuation token of the next page; None on the last page.
    """

    run_id: str
    location: str
    token: str | None


@dataclass(frozen=True, slots=True)
class PreparedCommits:
    """The server's id of a prepare_commits run, and the URI of its CSV file with the active commits."""

    run_id: str
    location: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Id of an installation, and its number of requests in all months, from the key-value store."""

    installation_id: str
    requests: int


@dataclass(frozen=True, slots=True)
class Environment:
    """A lakeFS server: scheme, host and port in one spelling, and the id of its installation.

    The id is None if the server does not return it. A restored copy of a database has the id of its original.
    """

    url: str
    installation_id: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """An object at a ref: path, full URI of its address, ETag and size."""

    path: str
    address: str
    checksum: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between a branch's staging area and its head; `type` is "added", "changed" or "removed"."""

    path: str
    type: str


class LakeFS(Protocol):
    """The calls of a collector. All raise errors of `dredge.errors`."""

    def clock(self) -> datetime | None:
        """Return the server's time from the Date of a response: aware UTC, rounded down to seconds; None without a
        Date."""

    def repositories(self) -> list[Repository]:
        """Return all repositories of the server."""

    def repository(self, name: str) -> Repository:
        """Return a repository; raises NotFoundError, or RefusedError while it is being deleted."""

    def branches(self, repository: str) -> list[Ref]:
        """Return all branches, including hidden ones, in name order."""

    def tags(self, repository: str) -> list[Ref]:
        """Return all tags."""

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        """Iterate over a ref's commit and all its ancestors, newest first; raises NotFoundError."""

    def commit(self, repository: str, commit_id: str) -> Commit:
        """Return a commit; raises NotFoundError only if the record does not exist."""

    def rules(self, repository: str) -> Rules | None:
        """Return the garbage collection rules; None if there are none."""

    def prepare_uncommitted(self, repository: str, token: str | None) -> UncommittedPage:
        """Have the server write a page of uncommitted addresses; without a token it starts a new scan."""

    def prepare_commits(self, repository: str, deadline_seconds: float) -> PreparedCommits | None:
        """Have the server compute the active commits; None if the repository has no rules.

        Raises RefusedError for any other response without a result; it never means "no commits".
        """

    def usage(self) -> Usage | None:
        """Have the server write its number of requests to the key-value store, and return the stored number of all
        servers; None if the server does not support it. The number only grows, with every request.
        """

    def environment(self) -> Environment:
        """Return the server's identity."""

    def metadata(self, repository: str) -> Mapping[str, str] | None:
        """Return the metadata of a repository; None if the server has no such call, or the user no right to it."""

    def set_metadata(self, repository: str, values: Mapping[str, str]) -> bool:
        """Set keys in the metadata of a repository; its other keys remain. Sending it twice does no harm.

        Returns False if the user has no right to it (`fs:UpdateRepository`), or the server has no such call.
        """

    def stat(self, repository: str, ref: str, path: str) -> ObjectStats:
        """Return the object at a path of a ref; raises NotFoundError if lakeFS itself says that the ref or the path
        does not exist."""

    def objects(self, repository: str, ref: str, after: str = "", amount: int = 1000) -> list[ObjectStats]:
        """Return up to `amount` objects of a ref after a path, in path order; raises NotFoundError."""

    def objects_page(
        self, repository: str, ref: str, after: str = "", amount: int = 1000
    ) -> tuple[list[ObjectStats], bool]:
        """Return up to `amount` objects of a ref after a path, and whether more follow; raises NotFoundError."""

    def changes(self, repository: str, branch: str, amount: int = 100, after: str = "") -> list[Change]:
        """Return up to `amount` differences between a branch's staging area and its head after a path, in path order;
        fewer if there are no more. Raises NotFoundError if lakeFS itself says that the branch does not exist.
        """
