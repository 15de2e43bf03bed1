"""Actions, ARNs of their resources, and whether a user's policies allow an action on a resource.

    action    fs:WriteObject
    resource  arn:lakefs:fs:::repository/shop/object/a/b.parquet

A policy is a list of statements, each with an effect, actions and resources; `*` matches any text and `?` one
character, in actions and in the resource part of an ARN. Deny overrides allow; without a matching statement the action
is denied. `${user}` in a resource is replaced by the user's name.

Source: lakeFS pkg/permissions/actions.go, permission.go; pkg/auth/service.go (CheckPermissions), arn.go,
wildcard/match.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from lakefs_embedded.auth.model import Policy, Statement
from lakefs_embedded.errors import InvalidPolicyError

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
    PREPARE_GC_COMMITS = "retention:PrepareGarbageCollectionCommits"
    PREPARE_GC_UNCOMMITTED = "retention:PrepareGarbageCollectionUncommitted"
    GET_GC_RULES = "retention:GetGarbageCollectionRules"
    SET_GC_RULES = "retention:SetGarbageCollectionRules"
    GET_BRANCH_PROTECTION = "branches:GetBranchProtectionRules"
    SET_BRANCH_PROTECTION = "branches:SetBranchProtectionRules"


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


def namespace_arn(uri: str) -> str:
    """ARN of a storage namespace or of an import source."""
    return f"{FS_PREFIX}namespace/{uri}"


def user_arn(user: str) -> str:
    """ARN of a user."""
    return f"{AUTH_PREFIX}user/{user}"


ALLOW, DENY = "allow", "deny"
_ARN_FIELDS = 6


class Wildcard:
    """A pattern with `*` (any text, including none) and `?` (any one character).

    Each part between two stars has a fixed length, so its first match is always right: no backtracking.
    """

    __slots__ = ("_exact", "_last_length", "_parts")

    def __init__(self, pattern: str) -> None:
        parts = pattern.split("*")
        self._exact = pattern if len(parts) == 1 and "?" not in pattern else None
        self._last_length = len(parts[-1])
        self._parts = [re.compile("".join("." if c == "?" else re.escape(c) for c in p), re.S) for p in parts]

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        if self._exact is not None:
            return text == self._exact
        first, *others = self._parts
        if not others:
            return first.fullmatch(text) is not None
        found = first.match(text)
        for part in others[:-1]:
            found = part.search(text, found.end()) if found else None
        if found is None:
            return False
        # The last part has a fixed length and must end the text without overlapping the part before it.
        start = len(text) - self._last_length
        return start >= found.end() and others[-1].match(text, start) is not None


@dataclass(frozen=True, slots=True)
class _Resource:
    """A resource pattern of a statement; `head` and `rest` are None for `*`."""

    head: tuple[str, str, str] | None
    rest: Wildcard | None

    @classmethod
    def parse(cls, text: str) -> _Resource | None:
        if text == ALL:
            return cls(None, None)
        fields = _arn(text)
        return None if fields is None else cls(fields[0], Wildcard(fields[1]))

    def matches(self, arn: tuple[tuple[str, str, str], str] | None) -> bool:
        if self.rest is None:
            return True
        return arn is not None and arn[0] == self.head and self.rest.matches(arn[1])


@dataclass(frozen=True, slots=True)
class _Rule:
    denies: bool
    actions: tuple[tuple[str, Wildcard], ...]
    resources: tuple[_Resource, ...]


class Grants:
    """Permissions of one user, whose name replaces `${user}`, by its policies and those of its groups."""

    def __init__(self, user: str, policies: Iterable[Policy]) -> None:
        self._rules: list[_Rule] = []
        self._unevaluable = False
        for policy in policies:
            for statement in policy.statements:
                self._add(user, statement)

    def _add(self, user: str, statement: Statement) -> None:
        texts = parse_resources(statement.resource)
        if texts is None or statement.conditional:
            # As on a real server: a user with a statement that cannot be evaluated may do nothing.
            self._unevaluable = True
            return
        parsed = (_Resource.parse(each.replace("${user}", user)) for each in texts)
        self._rules.append(
            _Rule(
                denies=statement.effect != ALLOW,
                actions=tuple((each, Wildcard(each)) for each in statement.actions),
                resources=tuple(each for each in parsed if each is not None),
            )
        )

    def denial(self, permission: Permission) -> str | None:
        """Return the reason of a denial; None if the permission is granted."""
        if self._unevaluable:
            return f"denied permission to {permission.action}"
        arn = _arn(permission.resource)
        allowed = False
        for rule in self._rules:
            if allowed and not rule.denies:
                continue
            if any(each.matches(arn) for each in rule.resources):
                for text, action in rule.actions:
                    if action.matches(permission.action):
                        if rule.denies:
                            return f"denied permission to {text}"
                        allowed = True
                        break
        return None if allowed else f"not allowed to {permission.action}"

    def allows_somewhere(self, action: str) -> bool:
        """Whether a statement allows an action on any resource."""
        return any(
            not rule.denies and any(each.matches(action) for _, each in rule.actions) for rule in self._rules
        )


def check_statement(statement: Statement) -> None:
    """Check that a statement can be evaluated: it is well-formed, without conditions. Raises InvalidPolicyError."""
    if statement.effect not in (ALLOW, DENY):
        raise InvalidPolicyError(f"effect {statement.effect!r}: validation error")
    if not statement.actions:
        raise InvalidPolicyError("a statement needs an action: validation error")
    for action in statement.actions:
        service, colon, name = action.partition(":")
        if not colon or not name or ":" in name:
            raise InvalidPolicyError(f"{action}: invalid action")
        if service not in SERVICES:
            raise InvalidPolicyError(f"{action}: invalid service name")
    resources = parse_resources(statement.resource)
    if not resources or any(each != ALL and _arn(each) is None for each in resources):
        raise InvalidPolicyError(f"resource {statement.resource!r}: validation error")
    if statement.conditional:
        raise InvalidPolicyError("conditions of statements are not supported by this server")


def parse_resources(text: str) -> list[str] | None:
    """Parse the resources of a statement: one, or a JSON list of them; None if it is neither."""
    if not (text.startswith("[") and text.endswith("]")):
        return [text] if text else None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if all(isinstance(each, str) for each in values) else None


def _arn(text: str) -> tuple[tuple[str, str, str], str] | None:
    fields = text.split(":", _ARN_FIELDS - 1)
    if len(fields) != _ARN_FIELDS or fields[0] != "arn" or fields[1] != "lakefs":
        return None
    if not fields[2] or not fields[5]:
        return None
    return (fields[1], fields[2], fields[4]), fields[5]
