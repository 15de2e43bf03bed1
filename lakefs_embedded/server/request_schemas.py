"""JSON bodies of the API, one constant per schema, under the schema's name in the specification.

Source: lakeFS api/swagger.yml.
"""

from __future__ import annotations

from lakefs_embedded.server.schema import BOOLEAN, INTEGER, TEXT, ListOf, MapOfText, Schema

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
METADATA_SET = Schema("RepositoryMetadataSet", {"metadata": MapOfText()})
METADATA_KEYS = Schema("RepositoryMetadataKeys", {"keys": ListOf(TEXT)})
PATTERN = Schema("BranchProtectionRule", {"pattern": TEXT})
STATISTICS = Schema(
    "StatsEventsList",
    {"events": ListOf(Schema("StatsEvent", {"class": TEXT, "name": TEXT, "count": INTEGER}))},
)
