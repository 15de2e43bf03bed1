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
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from dredge.lakefs.files import messages

REPOSITORIES_PARTITION = b"graveler"

RepositoryState = Literal["initial", "active", "in-deletion"]
_STATES: Mapping[messages.RepositoryState, RepositoryState] = {
    messages.RepositoryState.ACTIVE: "active",
    messages.RepositoryState.IN_DELETION: "in-deletion",
    messages.RepositoryState.INITIAL: "initial",
}
_STATE_NUMBERS = {state: number for number, state in _STATES.items()}


@dataclass(frozen=True, slots=True)
class Repository:
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

    def encode(self) -> bytes:
        """Write the record as a server does."""
        return messages.encode(
            messages.RepositoryData(
                id=self.name,
                storage_namespace=self.storage_namespace,
                default_branch_id=self.default_branch,
                creation_date=messages.to_timestamp(self.creation_date),
                state=_STATE_NUMBERS[self.state],
                instance_uid=self.instance_uid,
                read_only=self.read_only,
                storage_id=self.storage_id,
            )
        )

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
            state=_STATES.get(record.state, "in-deletion"),
            read_only=record.read_only,
            storage_id=record.storage_id,
        )


@dataclass(frozen=True, slots=True)
class Branch:
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

    def sealed(self, token: str) -> Branch:
        """Return the branch with its current token sealed and a new staging token."""
        return replace(self, staging_token=token, sealed_tokens=self.tokens)

    def encode(self) -> bytes:
        """Write the record as a server does."""
        return messages.encode(
            messages.BranchData(
                id=self.name,
                commit_id=self.commit_id,
                staging_token=self.staging_token,
                sealed_tokens=self.sealed_tokens,
                hidden=self.hidden,
            )
        )

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
