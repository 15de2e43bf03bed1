"""Defaults of a new server: four groups with their policies, and an administrator.

Source: lakeFS pkg/auth/setup/setup.go, pkg/auth/base.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lakefs_embedded.auth import model
from lakefs_embedded.auth.evaluation import ALLOW
from lakefs_embedded.auth.model import Group, Policy, Statement, User
from lakefs_embedded.auth.permissions import ALL, user_arn

if TYPE_CHECKING:
    from lakefs_embedded.auth.directory import Directory

ADMINS = "Admins"

# name: (actions, resource)
POLICIES: dict[str, tuple[tuple[str, ...], str]] = {
    "FSFullAccess": (("fs:*",), ALL),
    "FSReadWriteAll": (
        (
            "fs:Read*",
            "fs:List*",
            "fs:WriteObject",
            "fs:DeleteObject",
            "fs:RevertBranch",
            "fs:CreateBranch",
            "fs:CreateTag",
            "fs:DeleteBranch",
            "fs:DeleteTag",
            "fs:CreateCommit",
        ),
        ALL,
    ),
    "FSReadAll": (("fs:List*", "fs:Read*"), ALL),
    "RepoManagementFullAccess": (("ci:*", "retention:*", "branches:*", "pr:*", "fs:ReadConfig"), ALL),
    "RepoManagementReadAll": (
        ("ci:Read*", "retention:Get*", "branches:Get*", "pr:Read*", "pr:List*", "fs:ReadConfig"),
        ALL,
    ),
    "AuthFullAccess": (("auth:*",), ALL),
    "AuthManageOwnCredentials": (
        (
            "auth:CreateCredentials",
            "auth:DeleteCredentials",
            "auth:ListCredentials",
            "auth:ReadCredentials",
        ),
        user_arn("${user}"),
    ),
}

# name: its policies
GROUPS: dict[str, tuple[str, ...]] = {
    ADMINS: ("FSFullAccess", "AuthFullAccess", "RepoManagementFullAccess"),
    "SuperUsers": ("FSFullAccess", "AuthManageOwnCredentials", "RepoManagementReadAll"),
    "Developers": ("FSReadWriteAll", "AuthManageOwnCredentials", "RepoManagementReadAll"),
    "Viewers": ("FSReadAll", "AuthManageOwnCredentials"),
}


def install(directory: Directory, administrator: str, now: datetime) -> None:
    """Write the defaults, the administrator (of group Admins) last; existing records stay.

    A second call completes an interrupted one.
    """
    for name, (actions, resource) in POLICIES.items():
        policy = Policy(name, now, (Statement(ALLOW, actions, resource),))
        directory.records.ensure(model.policy_key(name), policy.encode())
    for group, policies in GROUPS.items():
        directory.records.ensure(model.group_key(group), Group(group, now).encode())
        for name in policies:
            index = model.encode_index(model.policy_key(name))
            directory.records.ensure(model.group_policy_key(group, name), index)
    membership = model.encode_index(model.user_key(administrator))
    directory.records.ensure(model.membership_key(ADMINS, administrator), membership)
    directory.records.ensure(model.user_key(administrator), User(administrator, now).encode())
