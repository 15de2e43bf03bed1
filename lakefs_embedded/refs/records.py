"""Commits and tags as values, the places of records in the key-value store, and rules for names.

Layout and source: `dredge.lakefs.files.records`, with the records that a collector reads as well.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from dredge.lakefs.files import messages
from dredge.lakefs.files.records import STATES, Branch, Repository
from lakefs_embedded.errors import InvalidRefError, InvalidValueError

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


_STATE_NUMBERS = {state: number for number, state in STATES.items()}


def repository_record(repository: Repository) -> bytes:
    """Write a repository's record as a server does."""
    return messages.encode(
        messages.RepositoryData(
            id=repository.name,
            storage_namespace=repository.storage_namespace,
            default_branch_id=repository.default_branch,
            creation_date=messages.to_timestamp(repository.creation_date),
            state=_STATE_NUMBERS[repository.state],
            instance_uid=repository.instance_uid,
            read_only=repository.read_only,
            storage_id=repository.storage_id,
        )
    )


def branch_record(branch: Branch) -> bytes:
    """Write a branch's record as a server does."""
    return messages.encode(
        messages.BranchData(
            id=branch.name,
            commit_id=branch.commit_id,
            staging_token=branch.staging_token,
            sealed_tokens=branch.sealed_tokens,
            hidden=branch.hidden,
        )
    )


def sealed(branch: Branch, token: str) -> Branch:
    """Return the branch with its current token sealed and a new staging token."""
    return replace(branch, staging_token=token, sealed_tokens=branch.tokens)


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


PATH_BYTES_MAX = 1024

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_BRANCH = re.compile(r"[0-9A-Za-z_][-0-9A-Za-z_]*")
# Git's rules for one component of a ref name.
_TAG_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\/$]|\.\.|@\{|^\.|\.$|\.lock$|^@$|^-")
_COMMIT_ID = re.compile(r"[0-9a-f]{64}")
# A folder of a local store may have spaces in its path.
_NAMESPACE = re.compile(r"[a-z][a-z0-9+.-]*://[^\s][^\x00-\x1f\x7f]*")


def check_repository(name: str) -> None:
    """Refuse a malformed repository name."""
    if not _REPOSITORY.fullmatch(name):
        raise InvalidValueError("repository id: invalid value: validation error")


def check_branch(name: str) -> None:
    """Refuse a malformed branch name. Names contain neither "/" nor ":": staging tokens need this."""
    if not _BRANCH.fullmatch(name):
        raise InvalidValueError("branch id: invalid value: validation error")


def check_tag(name: str) -> None:
    """Refuse a malformed tag name."""
    if not name or _TAG_BAD.search(name):
        raise InvalidValueError("tag id: invalid value: validation error")


def check_ref(text: str) -> None:
    """Refuse an empty ref expression, or one with white space."""
    if not text or any(char.isspace() for char in text):
        raise InvalidRefError


def check_path(path: str) -> bytes:
    """Refuse an empty or overlong path. Returns it as UTF-8 bytes."""
    raw = path.encode("utf-8", "surrogateescape")
    if not 1 <= len(raw) <= PATH_BYTES_MAX:
        raise InvalidValueError("argument path: required value: validation error")
    return raw


def check_namespace(uri: str) -> None:
    """Refuse a storage namespace without a URI scheme."""
    if not _NAMESPACE.fullmatch(uri):
        raise InvalidValueError(f"argument storage namespace: {uri!r} is not a URI: invalid value")


def is_commit_id(text: str) -> bool:
    """Whether a string has the form of a full commit id."""
    return _COMMIT_ID.fullmatch(text) is not None
