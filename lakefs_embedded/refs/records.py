"""Commits and tags as values, and the places of records in the key-value store.

Layout and source: `dredge.lakefs.files.records`, with the records that a collector reads as well.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository

DELETED_PARTITION = b"graveler_deleted"
COMMIT_VERSION = 1  # parent switch: the first parent is the main one
FIRST_GENERATION = 1


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit. A tag alone does not keep its commit from expiring."""

    name: str
    commit_id: str

    def encode(self) -> bytes:
        """Write the record as a server does."""
        return messages.encode(messages.TagData(id=self.name, commit_id=self.commit_id))

    @classmethod
    def decode(cls, data: bytes) -> Tag:
        """Read a record. Raises FormatError if not a TagData message."""
        record = messages.decode(messages.TagData, data, "tag record")
        return cls(record.id, record.commit_id)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit.

    Args:
        id: 64 hex digits, computed from the rest except version and generation.
        creation_date: aware UTC; chosen by the caller, so it does not prove an age.
        metarange_id: 64 hex digits, or "" for the first commit of a repository.
        parents: parent ids; a merge has [destination head, source head].
        version: 0 or 1; decides about the main parent.
        generation: the parents' largest + 1.
    """

    id: str
    committer: str
    message: str
    creation_date: datetime
    metarange_id: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    parents: tuple[str, ...] = ()
    version: int = COMMIT_VERSION
    generation: int = FIRST_GENERATION

    @property
    def main_parent(self) -> str | None:
        """The parent for retention: the last of a version 0 commit, else the first."""
        if not self.parents:
            return None
        return self.parents[-1] if self.version == 0 else self.parents[0]

    def encode(self) -> bytes:
        """Write the record as a server does."""
        return messages.encode(
            messages.CommitData(
                id=self.id,
                committer=self.committer,
                message=self.message,
                creation_date=messages.to_timestamp(self.creation_date),
                meta_range_id=self.metarange_id,
                metadata=dict(self.metadata),
                parents=self.parents,
                version=self.version,
                generation=self.generation,
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Commit:
        """Read a record. Raises FormatError if not a CommitData message."""
        record = messages.decode(messages.CommitData, data, "commit record")
        return cls(
            id=record.id,
            committer=record.committer,
            message=record.message,
            creation_date=messages.from_timestamp(record.creation_date),
            metarange_id=record.meta_range_id,
            metadata=dict(record.metadata),
            parents=tuple(record.parents),
            version=record.version,
            generation=record.generation,
        )


def deleted_key(repository: Repository) -> bytes:
    """Key of an instance's entry in DELETED_PARTITION; a name may have several instances."""
    return f"repo/{repository.name}/{repository.instance_uid}".encode()


def branch_key(name: str) -> bytes:
    """Key of a branch's record in the repository's partition."""
    return f"branches/{name}".encode()


def commit_key(commit_id: str) -> bytes:
    """Key of a commit's record in the repository's partition."""
    return f"commits/{commit_id}".encode()


def tag_key(name: str) -> bytes:
    """Key of a tag's record in the repository's partition."""
    return f"tags/{name}".encode()


def new_staging_token(repository: str, branch: str) -> str:
    """A new staging token. It begins with the names of repository and branch, not with the instance."""
    return f"{repository}-{branch}:{uuid.uuid4()}"
