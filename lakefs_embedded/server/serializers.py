"""JSON objects of the API, one function each, with every key sent by a real server.

Optional keys follow the server and not the specification: a listing omits an empty `metadata`, `stat` always has it;
`parents` is a list, never null; times are Unix seconds, except a task's `update_time` (RFC 3339).

Source: lakeFS pkg/api/controller.go, api/swagger.yml; lakefs-sdk 1.88 models.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lakefs_embedded.auth.model import Credential, Group, Policy, User
from lakefs_embedded.catalog import (
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
    Repository,
    Rules,
    Tag,
)

JsonObject = dict[str, Any]


def seconds(moment: datetime | None) -> int:
    """Return Unix seconds, rounded down; 0 for None."""
    return 0 if moment is None else int(moment.timestamp() // 1)


def rfc3339(moment: datetime) -> str:
    """Return RFC 3339 in UTC in Go's shortest form: no trailing zeros, no empty fraction."""
    moment = moment.astimezone(UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def repository(value: Repository, *, with_read_only: bool = True) -> JsonObject:
    """A Repository; the response to creating a bare one omits `read_only`."""
    fields: JsonObject = {
        "creation_date": seconds(value.creation_date),
        "default_branch": value.default_branch,
        "id": value.name,
    }
    if with_read_only:
        fields["read_only"] = value.read_only
    return {**fields, "storage_id": value.storage_id, "storage_namespace": value.storage_namespace}


def ref(value: Branch | Tag) -> JsonObject:
    """A Ref: branch or tag; it does not show whether a branch is hidden."""
    return {"commit_id": value.commit_id, "id": value.name}


def commit(value: Commit) -> JsonObject:
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


def object_stats(value: ObjectStats, *, metadata: Mapping[str, str] | None) -> JsonObject:
    """An ObjectStats, of an object or a common prefix; a `metadata` of None omits the key."""
    if value.path_type == "common_prefix":
        return {
            "checksum": "",
            "mtime": 0,
            "path": value.path,
            "path_type": "common_prefix",
            "physical_address": "",
        }
    fields: JsonObject = {
        "checksum": value.checksum,
        "content_type": value.content_type,
        "mtime": seconds(value.mtime),
        "path": value.path,
        "path_type": "object",
        "physical_address": value.physical_address,
        "size_bytes": value.size_bytes,
    }
    if metadata is not None:
        fields["metadata"] = dict(metadata)
    if value.physical_address_expiry is not None:
        fields["physical_address_expiry"] = seconds(value.physical_address_expiry)
    return fields


def diff(value: Diff) -> JsonObject:
    """A Diff; a common prefix has no size."""
    fields: JsonObject = {"path": value.path, "path_type": value.path_type, "type": value.type}
    if value.path_type == "object":
        fields["size_bytes"] = value.size_bytes
    return fields


def merge_base(value: MergeBase) -> JsonObject:
    """A FindMergeBaseResult."""
    return {
        "base_commit_id": value.base_commit_id,
        "destination_commit_id": value.destination_commit_id,
        "source_commit_id": value.source_commit_id,
    }


def delete_error(value: DeleteError) -> JsonObject:
    """An ObjectError of a bulk delete."""
    return {"message": value.message, "path": value.path, "status_code": value.status_code}


def gc_rules(value: Rules) -> JsonObject:
    """GarbageCollectionRules; `branches` is null if there are none, contrary to the specification."""
    branches = [{"branch_id": name, "retention_days": days} for name, days in value.branch_days.items()]
    return {"branches": branches or None, "default_retention_days": value.default_days}


def prepared_commits(value: PreparedCommits, *, presigned_url: str | None) -> JsonObject:
    """A GarbageCollectionPrepareResponse; without the URL's key if it is None (status), "" without pre-signing."""
    fields = {
        "gc_addresses_location": value.addresses_location,
        "gc_commits_location": value.commits_location,
        "run_id": value.run_id,
    }
    return fields if presigned_url is None else {**fields, "gc_commits_presigned_url": presigned_url}


def prepare_status(value: PrepareStatus, *, presigned_url: str | None) -> JsonObject:
    """A PrepareGarbageCollectionCommitsStatus; `result`, its URL and `error` are present only if set."""
    fields: JsonObject = {
        "completed": value.completed,
        "task_id": value.task_id,
        "update_time": rfc3339(value.update_time),
    }
    if value.error is not None:
        fields["error"] = {"message": value.error}
    if value.result is not None:
        fields["result"] = prepared_commits(value.result, presigned_url=presigned_url)
    return fields


def import_status(value: ImportStatus) -> JsonObject:
    """An ImportStatus; keys without a value yet are omitted."""
    fields: JsonObject = {
        "completed": value.completed,
        "ingested_objects": value.ingested_objects,
        "update_time": rfc3339(value.update_time),
    }
    if value.commit is not None:
        fields |= {"commit": commit(value.commit), "metarange_id": value.metarange_id}
    return fields if value.error is None else {**fields, "error": {"message": value.error}}


def prepared_uncommitted(value: PreparedUncommitted) -> JsonObject:
    """A PrepareGCUncommittedResponse; the last page has no token; a page without addresses has an empty location."""
    fields = {"gc_uncommitted_location": value.location, "run_id": value.run_id}
    if value.continuation_token:
        fields["continuation_token"] = value.continuation_token
    return fields


def user(value: User) -> JsonObject:
    """A User."""
    fields: JsonObject = {"creation_date": seconds(value.created), "id": value.name}
    if value.friendly_name:
        fields["friendly_name"] = value.friendly_name
    return {**fields, "email": value.email} if value.email else fields


def group(value: Group) -> JsonObject:
    """A Group."""
    fields: JsonObject = {"creation_date": seconds(value.created), "id": value.name, "name": value.name}
    return {**fields, "description": value.description} if value.description else fields


def policy(value: Policy) -> JsonObject:
    """A Policy."""
    statements = [
        {"action": list(each.actions), "effect": each.effect, "resource": each.resource}
        for each in value.statements
    ]
    return {"creation_date": seconds(value.created), "id": value.name, "statement": statements}


def credential(value: Credential) -> JsonObject:
    """A Credentials, without the secret."""
    return {"access_key_id": value.access_key_id, "creation_date": seconds(value.issued)}


def credential_with_secret(value: Credential) -> JsonObject:
    """A CredentialsWithSecret: the only object with a secret."""
    return {**credential(value), "secret_access_key": value.secret}
