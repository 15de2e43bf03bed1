"""What the catalog's calls answer with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from dredge.storage import ObjectStream

PathType = Literal["object", "common_prefix"]
DiffType = Literal["added", "removed", "changed", "conflict", "prefix_changed"]


@dataclass(frozen=True, slots=True)
class Page[T]:
    """One page of a listing.

    Args:
        results: in order.
        has_more: there is something after the last result.
        next_offset: give it as `after` for the next page; "" when there is none.
    """

    results: list[T]
    has_more: bool = False
    next_offset: str = ""


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """A path of a ref. Of a common prefix only `path` and `path_type` are set.

    Args:
        path: logical name.
        path_type: object, or common prefix of a listing with a delimiter.
        physical_address: full URI of the bytes.
        checksum: the entry's ETag (hex MD5 of the content for uploads).
        size_bytes: size.
        mtime: the entry's time, aware UTC; may be the caller's, so it proves nothing about age.
        metadata: the user's.
        content_type: as given at upload.
    """

    path: str
    path_type: PathType = "object"
    physical_address: str = ""
    checksum: str = ""
    size_bytes: int = 0
    mtime: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class ObjectContent:
    """A path's stats and a way to its bytes.

    Args:
        stats: of the object.
        read: `read(start, length)` gives that part of the bytes; `read(0, None)` all of them.
        stream: the same in pieces of bounded size; to be closed.
            Both raise DataNotFoundError (410) when the store has no such object.
    """

    stats: ObjectStats
    read: Callable[[int, int | None], bytes]
    stream: Callable[[int, int | None], ObjectStream]


@dataclass(frozen=True, slots=True)
class Diff:
    """One changed path between two things."""

    type: DiffType
    path: str
    path_type: PathType = "object"
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DeleteError:
    """A path that a bulk delete could not remove."""

    path: str
    status_code: int
    message: str


@dataclass(frozen=True, slots=True)
class ExpiredRecords:
    """What a scan for tracked records removed.

    Args:
        addresses: handed out, never linked.
        copies: shared bytes, written down longer than any prepare run takes.
    """

    addresses: int
    copies: int


@dataclass(frozen=True, slots=True)
class MergeBase:
    """Where two refs parted."""

    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


@dataclass(frozen=True, slots=True)
class CommitOverrides:
    """What a revert or a cherry-pick writes instead of its own message and metadata."""

    message: str | None = None
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class PreparedCommits:
    """Where the active commits of a repository were written.

    Args:
        run_id: descending xid of this preparation.
        commits_location: full URI of the CSV.
        addresses_location: full URI of a folder that stays empty.
    """

    run_id: str
    commits_location: str
    addresses_location: str


@dataclass(frozen=True, slots=True)
class PrepareStatus:
    """How far an asynchronous preparation is. A completed one has a result or an error."""

    task_id: str
    completed: bool
    update_time: datetime
    result: PreparedCommits | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedUncommitted:
    """One page of a repository's uncommitted addresses.

    Args:
        run_id: the same for all pages of a run.
        location: folder of the run's files; "" when this page wrote none, whatever others wrote.
        continuation_token: give it for the next page; None when this was the last.
    """

    run_id: str
    location: str
    continuation_token: str | None = None
