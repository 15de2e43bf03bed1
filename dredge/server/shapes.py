"""The API's JSON objects, one function each, with every key a real server sends.

Optional keys follow the server, not the description: a listing leaves `metadata` out when there is none,
`stat` always has it; `parents` is a list, never null; times are Unix seconds, except a task's `update_time`
(RFC 3339).

Source: lakeFS pkg/api/controller.go, api/swagger.yml; lakefs-sdk 1.88 models.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dredge.auth import Credential, Group, Policy, User
from dredge.graveler.catalog import (
    Branch,
    Commit,
    DeleteError,
    Diff,
    ImportStatus,
    MergeBase,
    ObjectStats,
    PreparedCommits,
    PreparedUncommitted,
    PrepareStatus,
    PullRequest,
    RefsDump,
    RefsTask,
    Repository,
    Rules,
    Tag,
)

Shape = dict[str, Any]


def seconds(moment: datetime | None) -> int:
    """Unix seconds, rounded down; 0 for no time."""
    return 0 if moment is None else int(moment.timestamp() // 1)


def rfc3339(moment: datetime) -> str:
    """RFC 3339 in UTC, as short as Go writes it (no trailing zeros, no fraction when there is none)."""
    moment = moment.astimezone(UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def repository(value: Repository, *, with_read_only: bool = True) -> Shape:
    """A Repository; a bare creation's answer leaves `read_only` out."""
    shape: Shape = {
        "creation_date": seconds(value.creation_date),
        "default_branch": value.default_branch,
        "id": value.name,
    }
    if with_read_only:
        shape["read_only"] = value.read_only
    return {**shape, "storage_id": value.storage_id, "storage_namespace": value.storage_namespace}


def ref(value: Branch | Tag) -> Shape:
    """A Ref: branch or tag. Nothing in it says whether a branch is hidden."""
    return {"commit_id": value.commit_id, "id": value.name}


def commit(value: Commit) -> Shape:
    """A Commit."""
    return {
        "committer": value.committer,
        "creation_date": seconds(value.creation_date),
        "generation": value.generation,
        "id": value.id,
        "message": value.message,
        "meta_range_id": value.metarange_id,
        "metadata": dict(value.metadata),
        "parents": list(value.parents),
        "version": value.version,
    }


def object_stats(value: ObjectStats, *, metadata: Mapping[str, str] | None) -> Shape:
    """An ObjectStats.

    Args:
        value: of an object or a common prefix.
        metadata: what to show under `metadata`; None leaves the key out.
    """
    if value.path_type == "common_prefix":
        return {
            "checksum": "",
            "mtime": 0,
            "path": value.path,
            "path_type": "common_prefix",
            "physical_address": "",
        }
    shape: Shape = {
        "checksum": value.checksum,
        "content_type": value.content_type,
        "mtime": seconds(value.mtime),
        "path": value.path,
        "path_type": "object",
        "physical_address": value.physical_address,
        "size_bytes": value.size_bytes,
    }
    if metadata is not None:
        shape["metadata"] = dict(metadata)
    return shape


def diff(value: Diff) -> Shape:
    """A Diff; a folded prefix has no size."""
    shape: Shape = {"path": value.path, "path_type": value.path_type, "type": value.type}
    if value.path_type == "object":
        shape["size_bytes"] = value.size_bytes
    return shape


def merge_base(value: MergeBase) -> Shape:
    """A FindMergeBaseResult."""
    return {
        "base_commit_id": value.base_commit_id,
        "destination_commit_id": value.destination_commit_id,
        "source_commit_id": value.source_commit_id,
    }


def delete_error(value: DeleteError) -> Shape:
    """An ObjectError of a bulk delete."""
    return {"message": value.message, "path": value.path, "status_code": value.status_code}


def gc_rules(value: Rules) -> Shape:
    """GarbageCollectionRules; `branches` is null when there are none, whatever the description says."""
    branches = [{"branch_id": name, "retention_days": days} for name, days in value.branch_days.items()]
    return {"branches": branches or None, "default_retention_days": value.default_days}


def prepared_commits(value: PreparedCommits, *, presigned_url: str | None) -> Shape:
    """A GarbageCollectionPrepareResponse.

    Args:
        value: of the preparation.
        presigned_url: None leaves the key out (status), "" shows it empty (synchronous answer).
    """
    shape = {
        "gc_addresses_location": value.addresses_location,
        "gc_commits_location": value.commits_location,
        "run_id": value.run_id,
    }
    return shape if presigned_url is None else {**shape, "gc_commits_presigned_url": presigned_url}


def prepare_status(value: PrepareStatus) -> Shape:
    """A PrepareGarbageCollectionCommitsStatus; `result` and `error` are there only when known."""
    shape: Shape = {
        "completed": value.completed,
        "task_id": value.task_id,
        "update_time": rfc3339(value.update_time),
    }
    if value.error is not None:
        shape["error"] = {"message": value.error}
    if value.result is not None:
        shape["result"] = prepared_commits(value.result, presigned_url=None)
    return shape


def import_status(value: ImportStatus) -> Shape:
    """An ImportStatus; what is not known yet is not there."""
    shape: Shape = {
        "completed": value.completed,
        "ingested_objects": value.ingested_objects,
        "update_time": rfc3339(value.update_time),
    }
    if value.commit is not None:
        shape |= {"commit": commit(value.commit), "metarange_id": value.metarange_id}
    return shape if value.error is None else {**shape, "error": {"message": value.error}}


def prepared_uncommitted(value: PreparedUncommitted) -> Shape:
    """A PrepareGCUncommittedResponse; the last page has no token, an empty one no location."""
    shape = {"gc_uncommitted_location": value.location, "run_id": value.run_id}
    if value.continuation_token:
        shape["continuation_token"] = value.continuation_token
    return shape


def refs_dump(value: RefsDump) -> Shape:
    """A RefsDump."""
    return {
        "branches_meta_range_id": value.branches,
        "commits_meta_range_id": value.commits,
        "tags_meta_range_id": value.tags,
    }


def refs_task(value: RefsTask) -> Shape:
    """A RepositoryDumpStatus or RepositoryRestoreStatus; `refs` and `error` are there only when known."""
    shape: Shape = {"done": value.done, "id": value.id, "update_time": rfc3339(value.updated)}
    if value.error is not None:
        shape["error"] = value.error
    return shape if value.refs is None else {**shape, "refs": refs_dump(value.refs)}


def pull_request(value: PullRequest) -> Shape:
    """A PullRequest; the merge's commit and the closing date are there only when there are such."""
    shape: Shape = {
        "author": value.author,
        "creation_date": rfc3339(value.created),
        "description": value.description,
        "destination_branch": value.destination,
        "id": value.id,
        "source_branch": value.source,
        "status": value.status,
        "title": value.title,
    }
    if value.commit_id:
        shape["merged_commit_id"] = value.commit_id
    return shape if value.closed is None else {**shape, "closed_date": rfc3339(value.closed)}


def user(value: User) -> Shape:
    """A User."""
    shape: Shape = {"creation_date": seconds(value.created), "id": value.name}
    if value.friendly_name:
        shape["friendly_name"] = value.friendly_name
    return {**shape, "email": value.email} if value.email else shape


def group(value: Group) -> Shape:
    """A Group."""
    shape: Shape = {"creation_date": seconds(value.created), "id": value.name, "name": value.name}
    return {**shape, "description": value.description} if value.description else shape


def policy(value: Policy) -> Shape:
    """A Policy."""
    statements = [
        {"action": list(each.actions), "effect": each.effect, "resource": each.resource}
        for each in value.statements
    ]
    return {"creation_date": seconds(value.created), "id": value.name, "statement": statements}


def credential(value: Credential) -> Shape:
    """A Credentials: no secret."""
    return {"access_key_id": value.access_key_id, "creation_date": seconds(value.issued)}


def credential_with_secret(value: Credential) -> Shape:
    """A CredentialsWithSecret: the only answer that ever holds a secret key."""
    return {**credential(value), "secret_access_key": value.secret}
