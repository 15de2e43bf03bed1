"""JSON request bodies: a small schema language, and one constant per schema, under its name in the specification.

A body is checked before a handler sees it. It is a `Schema` (object) or a `ListOf`; a schema has named fields with
types. Other fields are passed through. In an optional field null means "not given".

Source: lakeFS api/swagger.yml.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakefs_embedded.server.responses import RequestError

type FieldType = str | ListOf | MapOfText | Schema
type BodySchema = ListOf | Schema

TEXT, INTEGER, BOOLEAN = "string", "integer", "boolean"


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array of one item type. `name` is for error messages about the whole body."""

    item: FieldType
    name: str = "array"


@dataclass(frozen=True, slots=True)
class MapOfText:
    """An object with arbitrary keys and string values."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON object.

    Attributes:
        name: name in the API's specification and in error messages.
        required: types of the required fields.
        optional: types of the optional fields, which may be null.
        required_body: whether a request without a body is an error; if not, it is read as {}.
    """

    name: str
    required: Mapping[str, FieldType] = field(default_factory=dict)
    optional: Mapping[str, FieldType] = field(default_factory=dict)
    required_body: bool = True


def parse_body(data: bytes, schema: BodySchema) -> Any:
    """Decode a JSON body and check it against a schema; raises RequestError (400).

    An optional body may be empty, and is read as {}.
    """
    if not data.strip():
        if isinstance(schema, ListOf) or schema.required_body:
            raise RequestError.body("value is required but missing")
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise RequestError.body(f"failed to decode request body: {problem}") from None
    _check(value, schema, "", schema.name)
    return value


def _check(value: object, expected: FieldType, location: str, name: str) -> None:
    match expected:
        case Schema():
            if not isinstance(value, dict):
                raise _mismatch(name, location, "value must be an object")
            for key, inner in expected.required.items():
                if key not in value:
                    raise _mismatch(name, f"{location}/{key}", f'property "{key}" is missing')
                _check(value[key], inner, f"{location}/{key}", name)
            for key, inner in expected.optional.items():
                if value.get(key) is not None:
                    _check(value[key], inner, f"{location}/{key}", name)
        case ListOf():
            if not isinstance(value, list):
                raise _mismatch(name, location, "value must be an array")
            for index, item in enumerate(value):
                _check(item, expected.item, f"{location}/{index}", name)
        case MapOfText():
            if not isinstance(value, dict):
                raise _mismatch(name, location, "value must be an object")
            for key, item in value.items():
                _check(item, TEXT, f"{location}/{key}", name)
        case _:
            if not _is_scalar(value, expected):
                raise _mismatch(
                    name, location, f"value must be {'an' if expected == INTEGER else 'a'} {expected}"
                )


def _is_scalar(value: object, expected: str) -> bool:
    if expected == TEXT:
        return isinstance(value, str) and _encodable(value)
    if expected == BOOLEAN:
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool)


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mismatch(name: str, location: str, problem: str) -> RequestError:
    where = f'Error at "{location}": ' if location else ""
    return RequestError.body(f"doesn't match schema #/components/schemas/{name}: {where}{problem}")


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
METADATA_SET = Schema("RepositoryMetadataSet", {"metadata": MapOfText()})
METADATA_KEYS = Schema("RepositoryMetadataKeys", {"keys": ListOf(TEXT)})
STATISTICS = Schema(
    "StatsEventsList",
    {"events": ListOf(Schema("StatsEvent", {"class": TEXT, "name": TEXT, "count": INTEGER}))},
)
