"""Identity and access of the embedded lakeFS: users, their access keys, and what they may do.

Start at `accounts.py` (what a request asks), then `directory/` (what is stored) and `evaluation.py` (how policies
decide). The partition `auth` has a real server's format, except for the encryption of secrets.
"""

from __future__ import annotations

from dredge.auth.accounts import Accounts
from dredge.auth.directory import Directory, Page
from dredge.auth.errors import InsufficientPermissionsError, UnauthorizedError, UnknownKeyError
from dredge.auth.model import Credential, Group, Policy, Statement, User
from dredge.auth.permissions import (
    ALL,
    Action,
    Permission,
    branch_arn,
    group_arn,
    namespace_arn,
    object_arn,
    policy_arn,
    repository_arn,
    tag_arn,
    user_arn,
)

__all__ = [
    "ALL",
    "Accounts",
    "Action",
    "Credential",
    "Directory",
    "Group",
    "InsufficientPermissionsError",
    "Page",
    "Permission",
    "Policy",
    "Statement",
    "UnauthorizedError",
    "UnknownKeyError",
    "User",
    "branch_arn",
    "group_arn",
    "namespace_arn",
    "object_arn",
    "policy_arn",
    "repository_arn",
    "tag_arn",
    "user_arn",
]
