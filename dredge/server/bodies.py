"""JSON bodies: what each call requires, checked before a handler sees it.

A tiny description language instead of a model library: a body is a Schema, a Schema names its fields, a
field has a kind. Fields that are not described pass through; null counts as "not given" for optional fields.

Source: lakeFS api/swagger.yml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dredge.server.failures import RequestError

type Kind = str | ListOf | MapOfText | Schema
type Body = ListOf | Schema

TEXT, INTEGER, BOOLEAN = "string", "integer", "boolean"


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array whose items are all of one kind. The name stands in error messages when it is a whole body."""

    item: Kind
    name: str = "array"


@dataclass(frozen=True, slots=True)
class MapOfText:
    """An object with any keys and text values."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON object.

    Attributes:
        name: of the schema in the API's description; part of error messages.
        required: fields that must be there, with their kinds.
        optional: fields that may be there.
        required_body: whether a request without any body is an error; an absent one reads as {}.
    """

    name: str
    required: Mapping[str, Kind] = field(default_factory=dict)
    optional: Mapping[str, Kind] = field(default_factory=dict)
    required_body: bool = True


def read_body(data: bytes, kind: Body) -> Any:
    """Decode and check a body.

    Args:
        data: as it came.
        kind: what the call takes.

    Returns:
        The decoded JSON; {} for no body where none is required.

    Raises:
        RequestError: 400, it is missing, no JSON, or not of that kind.
    """
    if not data.strip():
        if isinstance(kind, ListOf) or kind.required_body:
            raise RequestError.body("value is required but missing")
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise RequestError.body(f"failed to decode request body: {problem}") from None
    _check(value, kind, "", kind.name)
    return value


def _check(value: object, kind: Kind, place: str, name: str) -> None:
    match kind:
        case Schema():
            if not isinstance(value, dict):
                raise _mismatch(name, place, "value must be an object")
            for key, inner in kind.required.items():
                if key not in value:
                    raise _mismatch(name, f"{place}/{key}", f'property "{key}" is missing')
                _check(value[key], inner, f"{place}/{key}", name)
            for key, inner in kind.optional.items():
                if value.get(key) is not None:
                    _check(value[key], inner, f"{place}/{key}", name)
        case ListOf():
            if not isinstance(value, list):
                raise _mismatch(name, place, "value must be an array")
            for index, item in enumerate(value):
                _check(item, kind.item, f"{place}/{index}", name)
        case MapOfText():
            if not isinstance(value, dict):
                raise _mismatch(name, place, "value must be an object")
            for key, item in value.items():
                _check(item, TEXT, f"{place}/{key}", name)
        case _:
            if not _is_plain(value, kind):
                raise _mismatch(name, place, f"value must be {'an' if kind == INTEGER else 'a'} {kind}")


def _is_plain(value: object, kind: str) -> bool:
    if kind == TEXT:
        return isinstance(value, str) and _encodable(value)
    if kind == BOOLEAN:
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool)


def _encodable(value: str) -> bool:
    """JSON can carry halves of surrogate pairs; no name or text may."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mismatch(name: str, place: str, problem: str) -> RequestError:
    where = f'Error at "{place}": ' if place else ""
    return RequestError.body(f"doesn't match schema #/components/schemas/{name}: {where}{problem}")


# --- the bodies of the API ---

_OVERRIDES = Schema("CommitOverrides", optional={"message": TEXT, "metadata": MapOfText()})
_KEY_PAIR = {"access_key_id": TEXT, "secret_access_key": TEXT}

SETUP = Schema("Setup", {"username": TEXT}, {"key": Schema("AccessKeyCredentials", _KEY_PAIR)})
LOGIN = Schema("LoginInformation", _KEY_PAIR)
REPOSITORY = Schema(
    "RepositoryCreation",
    {"name": TEXT, "storage_namespace": TEXT},
    {"default_branch": TEXT, "sample_data": BOOLEAN, "read_only": BOOLEAN, "storage_id": TEXT},
)
BRANCH = Schema("BranchCreation", {"name": TEXT, "source": TEXT}, {"force": BOOLEAN, "hidden": BOOLEAN})
RESET = Schema("ResetCreation", {"type": TEXT}, {"path": TEXT, "force": BOOLEAN})
COMMIT = Schema(
    "CommitCreation",
    {"message": TEXT},
    {"metadata": MapOfText(), "date": INTEGER, "allow_empty": BOOLEAN, "force": BOOLEAN},
)
IMPORT = Schema(
    "ImportCreation",
    {
        "paths": ListOf(Schema("ImportLocation", {"type": TEXT, "path": TEXT, "destination": TEXT})),
        "commit": COMMIT,
    },
    {"force": BOOLEAN},
)
COMMIT_RECORD = Schema(
    "CommitRecordCreation",
    {
        "commit_id": TEXT,
        "version": INTEGER,
        "committer": TEXT,
        "message": TEXT,
        "metarange_id": TEXT,
        "creation_date": INTEGER,
        "parents": ListOf(TEXT),
        "generation": INTEGER,
    },
    {"metadata": MapOfText(), "force": BOOLEAN},
)
REVERT = Schema(
    "RevertCreation",
    {"ref": TEXT, "parent_number": INTEGER},
    {"commit_overrides": _OVERRIDES, "force": BOOLEAN, "allow_empty": BOOLEAN},
)
CHERRY_PICK = Schema(
    "CherryPickCreation",
    {"ref": TEXT},
    {"parent_number": INTEGER, "commit_overrides": _OVERRIDES, "force": BOOLEAN},
)
MERGE = Schema(
    "Merge",
    optional={
        "message": TEXT,
        "metadata": MapOfText(),
        "strategy": TEXT,
        "force": BOOLEAN,
        "allow_empty": BOOLEAN,
        "squash_merge": BOOLEAN,
    },
    required_body=False,
)
TAG = Schema("TagCreation", {"id": TEXT, "ref": TEXT}, {"force": BOOLEAN})
STAGE = Schema(
    "ObjectStageCreation",
    {"physical_address": TEXT, "checksum": TEXT, "size_bytes": INTEGER},
    {"mtime": INTEGER, "metadata": MapOfText(), "content_type": TEXT, "force": BOOLEAN},
)
PATHS = Schema("PathList", {"paths": ListOf(TEXT)})
COPY = Schema(
    "ObjectCopyCreation", {"src_path": TEXT}, {"src_ref": TEXT, "force": BOOLEAN, "shallow": BOOLEAN}
)
USER_METADATA = Schema("UpdateObjectUserMetadata", {"set": MapOfText()})
LINK = Schema(
    "StagingMetadata",
    {
        "staging": Schema("StagingLocation", optional={"physical_address": TEXT}),
        "checksum": TEXT,
        "size_bytes": INTEGER,
    },
    {"user_metadata": MapOfText(), "content_type": TEXT, "mtime": INTEGER, "force": BOOLEAN},
)
GC_RULES = Schema(
    "GarbageCollectionRules",
    {
        "default_retention_days": INTEGER,
        "branches": ListOf(Schema("GarbageCollectionRule", {"branch_id": TEXT, "retention_days": INTEGER})),
    },
)
PREPARE_UNCOMMITTED = Schema(
    "PrepareGCUncommittedRequest", optional={"continuation_token": TEXT}, required_body=False
)
BRANCH_PROTECTION = ListOf(Schema("BranchProtectionRule", {"pattern": TEXT}), "BranchProtectionRules")
USER_CREATION = Schema("UserCreation", {"id": TEXT}, {"invite_user": BOOLEAN})
GROUP_CREATION = Schema("GroupCreation", {"id": TEXT}, {"description": TEXT})
POLICY = Schema(
    "Policy",
    {
        "id": TEXT,
        "statement": ListOf(
            Schema("Statement", {"effect": TEXT, "resource": TEXT, "action": ListOf(TEXT)}), "array"
        ),
    },
    {"creation_date": INTEGER},
)
REFS_RESTORE = Schema(
    "RefsRestore",
    {"commits_meta_range_id": TEXT, "tags_meta_range_id": TEXT, "branches_meta_range_id": TEXT},
    {"force": BOOLEAN},
)
PULL_CREATION = Schema(
    "PullRequestCreation",
    {"title": TEXT, "source_branch": TEXT, "destination_branch": TEXT},
    {"description": TEXT},
)
PULL_CHANGE = Schema("PullRequestBasic", optional={"status": TEXT, "title": TEXT, "description": TEXT})
PART_ADDRESS = Schema("UploadPartFrom", {"physical_address": TEXT})
ABORT_UPLOAD = Schema("AbortPresignMultipartUpload", {"physical_address": TEXT})
COMPLETE_UPLOAD = Schema(
    "CompletePresignMultipartUpload",
    {
        "physical_address": TEXT,
        "parts": ListOf(Schema("UploadPart", {"part_number": INTEGER, "etag": TEXT})),
    },
    {"user_metadata": MapOfText(), "content_type": TEXT},
)
METADATA_SET = Schema("RepositoryMetadataSet", {"metadata": MapOfText()})
METADATA_KEYS = Schema("RepositoryMetadataKeys", {"keys": ListOf(TEXT)})
PATTERN = Schema("BranchProtectionRule", {"pattern": TEXT})
STATISTICS = Schema(
    "StatsEventsList",
    {"events": ListOf(Schema("StatsEvent", {"class": TEXT, "name": TEXT, "count": INTEGER}))},
)
