"""Data of a lakeFS server for collectors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct


class Repository(Struct, frozen=True):
    """A repository."""

    name: str
    namespace: str  # URI of the storage namespace, exactly as the server returns it
    default_branch: str
    read_only: bool = False  # the server does not prepare a garbage collection of a read-only repository
    # aware UTC, in whole seconds; None if the server does not return it. A repository that was deleted and
    # created again has another one.
    created_at: datetime | None = None


class Ref(Struct, frozen=True):
    """A branch or a tag, and the id of its commit."""

    id: str
    commit_id: str


class CommitText(Struct, frozen=True):
    """Fields of a commit needed only for its id; `generation` is the largest generation of its parents, plus 1."""

    committer: str
    message: str
    metadata: Mapping[str, str]
    generation: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit."""

    id: str
    parents: tuple[str, ...]  # commit ids; `version` decides about the main parent
    created_at: datetime  # aware UTC; clients can set it
    metarange_id: str  # "" for the first commit of a repository
    version: int = 1
    # the other fields of the record; None if they were not read
    text: CommitText | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """Garbage collection rules: days for branches without a rule, and days by exact branch name."""

    default_retention_days: int
    branches: Mapping[str, int] = field(default_factory=dict)


class UncommittedPage(Struct, frozen=True):
    """A page of uncommitted addresses."""

    run_id: str  # the server's id of this scan, equal on all its pages
    location: str  # URI of the folder with the files; "" if this page wrote no file
    token: str | None  # continuation token of the next page; None on the last page


class PreparedCommits(Struct, frozen=True):
    """The server's id of a prepare_commits run, and the URI of its CSV file with the active commits."""

    run_id: str
    location: str


class Usage(Struct, frozen=True):
    """Id of an installation, and its total number of requests, from the key-value store."""

    installation_id: str
    requests: int


class Environment(Struct, frozen=True):
    """A lakeFS server: scheme, host and port in canonical form, and the id of its installation.

    The id is None if the server does not return it. A restored copy of a database has the id of its original.
    """

    url: str
    installation_id: str | None = None


class ObjectStats(Struct, frozen=True):
    """An object at a ref: path, full URI of its address, ETag and size."""

    path: str
    address: str
    checksum: str
    size_bytes: int


class Change(Struct, frozen=True):
    """A difference between a branch's staging area and its head; `type` is "added", "changed" or "removed"."""

    path: str
    type: str
