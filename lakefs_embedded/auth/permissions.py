"""Actions, and ARNs of their resources.

    action    fs:WriteObject
    resource  arn:lakefs:fs:::repository/shop/object/a/b.parquet

Source: lakeFS pkg/permissions/actions.go, permission.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ALL = "*"
FS_PREFIX = "arn:lakefs:fs:::"
AUTH_PREFIX = "arn:lakefs:auth:::"
SERVICES = frozenset({"fs", "auth", "ci", "retention", "branches", "pr", "catalog"})


class Action(StrEnum):
    """Every action required by a call of this server."""

    READ_REPOSITORY = "fs:ReadRepository"
    CREATE_REPOSITORY = "fs:CreateRepository"
    UPDATE_REPOSITORY = "fs:UpdateRepository"
    ATTACH_STORAGE_NAMESPACE = "fs:AttachStorageNamespace"
    IMPORT_FROM_STORAGE = "fs:ImportFromStorage"
    IMPORT_CANCEL = "fs:ImportCancel"
    DELETE_REPOSITORY = "fs:DeleteRepository"
    LIST_REPOSITORIES = "fs:ListRepositories"
    READ_OBJECT = "fs:ReadObject"
    WRITE_OBJECT = "fs:WriteObject"
    DELETE_OBJECT = "fs:DeleteObject"
    LIST_OBJECTS = "fs:ListObjects"
    CREATE_COMMIT = "fs:CreateCommit"
    READ_COMMIT = "fs:ReadCommit"
    LIST_COMMITS = "fs:ListCommits"
    CREATE_BRANCH = "fs:CreateBranch"
    DELETE_BRANCH = "fs:DeleteBranch"
    READ_BRANCH = "fs:ReadBranch"
    REVERT_BRANCH = "fs:RevertBranch"
    LIST_BRANCHES = "fs:ListBranches"
    CREATE_TAG = "fs:CreateTag"
    DELETE_TAG = "fs:DeleteTag"
    READ_TAG = "fs:ReadTag"
    LIST_TAGS = "fs:ListTags"
    READ_CONFIG = "fs:ReadConfig"
    READ_USER = "auth:ReadUser"
    CREATE_USER = "auth:CreateUser"
    DELETE_USER = "auth:DeleteUser"
    LIST_USERS = "auth:ListUsers"
    READ_GROUP = "auth:ReadGroup"
    CREATE_GROUP = "auth:CreateGroup"
    DELETE_GROUP = "auth:DeleteGroup"
    LIST_GROUPS = "auth:ListGroups"
    ADD_GROUP_MEMBER = "auth:AddGroupMember"
    REMOVE_GROUP_MEMBER = "auth:RemoveGroupMember"
    READ_POLICY = "auth:ReadPolicy"
    CREATE_POLICY = "auth:CreatePolicy"
    UPDATE_POLICY = "auth:UpdatePolicy"
    DELETE_POLICY = "auth:DeletePolicy"
    LIST_POLICIES = "auth:ListPolicies"
    ATTACH_POLICY = "auth:AttachPolicy"
    DETACH_POLICY = "auth:DetachPolicy"
    READ_CREDENTIALS = "auth:ReadCredentials"
    CREATE_CREDENTIALS = "auth:CreateCredentials"
    DELETE_CREDENTIALS = "auth:DeleteCredentials"
    LIST_CREDENTIALS = "auth:ListCredentials"
    READ_EXTERNAL_PRINCIPAL = "auth:ReadExternalPrincipal"
    CREATE_EXTERNAL_PRINCIPAL = "auth:CreateUserExternalPrincipal"
    DELETE_EXTERNAL_PRINCIPAL = "auth:DeleteUserExternalPrincipal"
    READ_ACTION = "ci:ReadAction"
    PREPARE_GC_COMMITS = "retention:PrepareGarbageCollectionCommits"
    PREPARE_GC_UNCOMMITTED = "retention:PrepareGarbageCollectionUncommitted"
    GET_GC_RULES = "retention:GetGarbageCollectionRules"
    SET_GC_RULES = "retention:SetGarbageCollectionRules"
    GET_BRANCH_PROTECTION = "branches:GetBranchProtectionRules"
    SET_BRANCH_PROTECTION = "branches:SetBranchProtectionRules"
    READ_PULL_REQUEST = "pr:ReadPullRequest"
    WRITE_PULL_REQUEST = "pr:WritePullRequest"
    LIST_PULL_REQUESTS = "pr:ListPullRequests"


@dataclass(frozen=True, slots=True)
class Permission:
    """An action such as `fs:ReadObject` on an ARN, or on `*` for an action without resource."""

    action: str
    resource: str


def repository_arn(repository: str) -> str:
    """ARN of a repository."""
    return f"{FS_PREFIX}repository/{repository}"


def object_arn(repository: str, path: str) -> str:
    """ARN of an object; the ref is not part of it."""
    return f"{FS_PREFIX}repository/{repository}/object/{path}"


def branch_arn(repository: str, branch: str) -> str:
    """ARN of a branch."""
    return f"{FS_PREFIX}repository/{repository}/branch/{branch}"


def tag_arn(repository: str, tag: str) -> str:
    """ARN of a tag."""
    return f"{FS_PREFIX}repository/{repository}/tag/{tag}"


def namespace_arn(uri: str) -> str:
    """ARN of a storage namespace or of an import source."""
    return f"{FS_PREFIX}namespace/{uri}"


def user_arn(user: str) -> str:
    """ARN of a user."""
    return f"{AUTH_PREFIX}user/{user}"


def group_arn(group: str) -> str:
    """ARN of a group."""
    return f"{AUTH_PREFIX}group/{group}"


def policy_arn(policy: str) -> str:
    """ARN of a policy."""
    return f"{AUTH_PREFIX}policy/{policy}"
