"""The protobuf messages of lakeFS's data model, field for field as a server writes them.

The .proto files were written for Dredge and describe the same wire format: same field numbers, same types.
`encode` writes maps in key order, so equal messages have equal bytes; a server writes them in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.unknown_fields import UnknownFieldSet

from dredge.errors import FormatError
from dredge.lakefs.files.messages.actions_pb2 import RunResultData, TaskResultData
from dredge.lakefs.files.messages.catalog_pb2 import AddressType, Entry, LinkAddressData, UploadData
from dredge.lakefs.files.messages.committed_pb2 import RangeData
from dredge.lakefs.files.messages.graveler_pb2 import (
    BranchData,
    BranchProtectionBlockedAction,
    BranchProtectionRules,
    CommitData,
    GarbageCollectionRules,
    ImportStatusData,
    PullRequestData,
    PullRequestStatus,
    RepoMetadata,
    RepositoryData,
    RepositoryState,
    SecondaryIndex,
    StagedEntryData,
    TagData,
)
from dredge.lakefs.files.messages.tasks_pb2 import (
    BranchOwnership,
    GarbageCollectionPrepareStatus,
    InstanceHeartbeat,
    RepositoryDumpStatus,
    RepositoryRestoreStatus,
    Task,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = [
    "AddressType",
    "BranchData",
    "BranchOwnership",
    "BranchProtectionBlockedAction",
    "BranchProtectionRules",
    "CommitData",
    "Entry",
    "GarbageCollectionPrepareStatus",
    "GarbageCollectionRules",
    "ImportStatusData",
    "InstanceHeartbeat",
    "LinkAddressData",
    "PullRequestData",
    "PullRequestStatus",
    "RangeData",
    "RepoMetadata",
    "RepositoryData",
    "RepositoryDumpStatus",
    "RepositoryRestoreStatus",
    "RepositoryState",
    "RunResultData",
    "SecondaryIndex",
    "StagedEntryData",
    "TagData",
    "Task",
    "TaskResultData",
    "Timestamp",
    "UploadData",
    "decode",
    "encode",
    "from_timestamp",
    "has_unknown_fields",
    "to_timestamp",
]


def encode(message: Message) -> bytes:
    """Serialize a message, with maps in key order."""
    return message.SerializeToString(deterministic=True)


def decode[M: Message](kind: type[M], data: bytes, name: str | Callable[[], str]) -> M:
    """Parse a message."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        place = name if isinstance(name, str) else name()
        raise FormatError(f"{place}: not a {kind.DESCRIPTOR.name} message: {error}") from error


def has_unknown_fields(message: Message) -> bool:
    """Return whether a parsed message has unknown fields, which a newer server wrote."""
    return len(UnknownFieldSet(message)) > 0


def to_timestamp(when: datetime) -> Timestamp:
    """Convert an aware time to a message, exact to the microsecond, before 1970 too."""
    if when.tzinfo is None:
        raise ValueError(f"{when!r} has no time zone")
    delta = when - datetime(1970, 1, 1, tzinfo=UTC)
    return Timestamp(seconds=delta.days * 86400 + delta.seconds, nanos=delta.microseconds * 1000)


def from_timestamp(stamp: Timestamp) -> datetime:
    """Convert a message to an aware UTC time, truncated to the microsecond. Raises FormatError if the time is outside
    the years 1 to 9999."""
    try:
        return stamp.ToDatetime(tzinfo=UTC)
    except ValueError as error:
        raise FormatError(f"timestamp {stamp.seconds}s {stamp.nanos}ns is out of range") from error
