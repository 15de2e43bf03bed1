"""Results of the catalog's calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from dredge.storage import ObjectStream

PathType = Literal["object", "common_prefix"]
DiffType = Literal["added", "removed", "changed", "conflict", "prefix_changed"]


@dataclass(frozen=True, slots=True)
class Page[T]:
    """One page of a listing; `next_offset` is `after` of the next page, or ""."""

    results: list[T]
    has_more: bool = False
    next_offset: str = ""


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """An object, or a common prefix with only `path` and `path_type`.

    Args:
        path_type: object, or common prefix of a listing with a delimiter.
        physical_address: full URI of the bytes.
        checksum: the entry's ETag (hex MD5 of the content for uploads).
        mtime: the entry's time, aware UTC; may be set by the caller, so it proves nothing about age.
        physical_address_expiry: of a pre-signed URL, aware UTC.
    """

    path: str
    path_type: PathType = "object"
    physical_address: str = ""
    checksum: str = ""
    size_bytes: int = 0
    mtime: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    physical_address_expiry: datetime | None = None


@dataclass(frozen=True, slots=True)
class SignedUrl:
    """A pre-signed URL and its expiry (aware UTC)."""

    url: str
    expires: datetime


@dataclass(frozen=True, slots=True)
class ObjectContent:
    """An object's stats, and access to its bytes.

    Args:
        read: `read(start, length)` returns this part of the bytes, `read(0, None)` all of them.
        stream: the same in chunks of bounded size; must be closed. Both raise DataNotFoundError (410) for a missing
            object.
        presign: signs a URL of the bytes; raises PresignUnsupportedError (400).
    """

    stats: ObjectStats
    read: Callable[[int, int | None], bytes]
    stream: Callable[[int, int | None], ObjectStream]
    presign: Callable[[], SignedUrl]


@dataclass(frozen=True, slots=True)
class Diff:
    """One different path."""

    type: DiffType
    path: str
    path_type: PathType = "object"
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DeleteError:
    """A failed deletion of `delete_objects`."""

    path: str
    status_code: int
    message: str


@dataclass(frozen=True, slots=True)
class ExpiredRecords:
    """Numbers of records removed by `expire_tracked`."""

    addresses: int
    copies: int


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The merge base of two refs."""

    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


@dataclass(frozen=True, slots=True)
class CommitOverrides:
    """Message and metadata of a revert or cherry-pick; None for the generated ones."""

    message: str | None = None
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class PreparedCommits:
    """The location of a repository's active commits; `addresses_location` is a folder that is always empty."""

    run_id: str
    commits_location: str
    addresses_location: str


@dataclass(frozen=True, slots=True)
class PrepareStatus:
    """The progress of an asynchronous preparation: in the end a result or an error."""

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
        location: URI of the folder of the run's files; "" if this page wrote no file.
        continuation_token: token of the next page; None after the last page.
    """

    run_id: str
    location: str
    continuation_token: str | None = None
