"""Repositories and branches as values, and the keys of all records in the key-value store.

Layout (partition / key → message):

    graveler             repos/<name>          RepositoryData
    graveler_deleted     repo/<name>/<uid>     the last RepositoryData (the design's step 2)
    <name>-<uid>         branches/<name>       BranchData
                         commits/<64 hex>      CommitData
                         tags/<name>           TagData
                         repo-metadata         RepoMetadata
                         settings/<name>, tasks/<id>, imports/<id>, pulls/<id>
    <name>-<branch>:<uuid4>  <path>            StagedEntryData (a partition per staging token)

Source: lakeFS pkg/graveler/model.go, graveler.proto.

    _lakefs/retention/gc/rules/config.json                         days of active commits, a protobuf message
    _lakefs/retention/gc/commits/run_id=<run>/commits.csv          active commits
    _lakefs/retention/gc/addresses/                                named in responses, never written
    _lakefs/retention/gc/uncommitted/<run>/uncommitted/<xid>       parquet, a file per page with rows

Source: lakeFS pkg/graveler/retention/garbage_collection_manager.go
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from dredge.lakefs.files import messages

REPOSITORIES_PARTITION = b"graveler"

RepositoryState = Literal["initial", "active", "in-deletion"]
STATES: Mapping[messages.RepositoryState, RepositoryState] = {
    messages.RepositoryState.ACTIVE: "active",
    messages.RepositoryState.IN_DELETION: "in-deletion",
    messages.RepositoryState.INITIAL: "initial",
}


class Repository(Struct, frozen=True):
    """A repository: an instance of its name."""

    name: str
    storage_namespace: str  # URI prefix of all its objects, without trailing slash
    default_branch: str
    creation_date: datetime
    instance_uid: str  # xid of this instance; a repository that reuses the name has another
    # `initial` while it is being created by the design's step 2; `in-deletion` once a deletion has begun,
    # when it can only be deleted again. Unknown states are read as `in-deletion`.
    state: RepositoryState = "active"
    read_only: bool = False
    storage_id: str = ""  # "" with a single block store

    @property
    def in_deletion(self) -> bool:
        """Whether a deletion has begun."""
        return self.state == "in-deletion"

    @property
    def partition(self) -> bytes:
        """Partition of everything this instance owns except staged entries."""
        return f"{self.name}-{self.instance_uid}".encode()

    @classmethod
    def decode(cls, data: bytes) -> Repository:
        """Decode a record; raises FormatError if it is not a RepositoryData message."""
        record = messages.decode(messages.RepositoryData, data, "repository record")
        return cls(
            name=record.id,
            storage_namespace=record.storage_namespace,
            default_branch=record.default_branch_id,
            creation_date=messages.from_timestamp(record.creation_date),
            instance_uid=record.instance_uid,
            state=STATES.get(record.state, "in-deletion"),
            read_only=record.read_only,
            storage_id=record.storage_id,
        )


class Branch(Struct, frozen=True):
    """A branch: its head, and the staging tokens on top of it."""

    name: str
    commit_id: str
    staging_token: str  # partition of the newest changes
    sealed_tokens: tuple[str, ...] = ()  # partitions of older changes not committed yet, newest first
    hidden: bool = False  # left out of the default listing; as live as any other

    @property
    def tokens(self) -> tuple[str, ...]:
        """All staging tokens, newest first. All their entries are live."""
        return (self.staging_token, *self.sealed_tokens) if self.staging_token else self.sealed_tokens

    @classmethod
    def decode(cls, data: bytes) -> Branch:
        """Decode a record; raises FormatError if it is not a BranchData message."""
        record = messages.decode(messages.BranchData, data, "branch record")
        return cls(
            record.id, record.commit_id, record.staging_token, tuple(record.sealed_tokens), record.hidden
        )


def repository_key(name: str) -> bytes:
    """Return the key of a repository's record in REPOSITORIES_PARTITION."""
    return f"repos/{name}".encode()


UNCOMMITTED = "_lakefs/retention/gc/uncommitted"
COMMITS = "_lakefs/retention/gc/commits"


def uncommitted_key(run_id: str) -> str:
    """Return the key of the folder with a run's parquet files."""
    return f"{UNCOMMITTED}/{run_id}/uncommitted/"
