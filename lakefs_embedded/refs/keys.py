"""Places of records in the key-value store, beside those that a collector reads."""

from __future__ import annotations

import uuid

from dredge.lakefs.files.records import Repository

DELETED_PARTITION = b"graveler_deleted"


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
