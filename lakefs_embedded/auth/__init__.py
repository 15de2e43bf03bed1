"""Identity and access of the embedded lakeFS: users, their access keys and permissions.

Start at `accounts.py` (used by requests), then `directory.py` (stored records) and `permissions.py` (policies). The
partition `auth` has a real server's format, except for the encryption of secrets.
"""

from __future__ import annotations

from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.auth.directory import Directory, Page
from lakefs_embedded.auth.model import Credential, Group, Policy, Statement, User
from lakefs_embedded.auth.permissions import (
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
from lakefs_embedded.errors import InsufficientPermissionsError, UnauthorizedError, UnknownKeyError

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
