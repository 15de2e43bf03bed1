"""Accounts: the owner of an access key and a user's permissions, cached for a few seconds.

    credential = accounts.identify(access_key_id)            # its secret verifies a signature
    accounts.allows(credential.user, Action.READ_OBJECT, object_arn("shop", "a/b"))

A change by this process clears the caches at once; a change by another process on the same store is seen when the
cache entry expires. A new server has four groups with their policies, and an administrator.

Source: lakeFS pkg/auth/cache.go, pkg/auth/setup, pkg/auth/base.go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from dredge.errors import ConflictError, FormatError, NotFoundError
from lakefs_embedded.auth import model
from lakefs_embedded.auth.directory import Directory
from lakefs_embedded.auth.model import (
    Clock,
    Credential,
    Group,
    Policy,
    SecretBox,
    Statement,
    User,
    new_access_key_id,
    new_secret,
)
from lakefs_embedded.auth.permissions import ALL, ALLOW, Grants, Permission, user_arn
from lakefs_embedded.errors import (
    AlreadySetUpError,
    InsufficientPermissionsError,
    OwnerError,
    UnknownKeyError,
)
from lakefs_embedded.kv import KeyNotFoundError, Store

CACHE_SECONDS = 5.0
CACHE_ENTRIES = 10_000


class Accounts:
    """Users, access keys and permissions of one server.

    Args:
        signing_key: signing key of the server; secrets are encrypted with a key derived from it.
        owner: user name, key id and secret of the server's own administrator, never stored. None: all users come
            from the store.
    """

    def __init__(
        self,
        kv: Store,
        *,
        signing_key: str,
        clock: Clock,
        owner: tuple[str, str, str] | None = None,
        cache_seconds: float = CACHE_SECONDS,
    ) -> None:
        self._kv = kv
        self._clock = clock
        self._lock = threading.Lock()
        self._credentials: Cache[Credential | None] = Cache(cache_seconds)
        self._owners: dict[str, str] = {}  # key id to user name: a hint that may be out of date
        self._users: Cache[User | None] = Cache(cache_seconds)
        self._grants: Cache[Grants | None] = Cache(cache_seconds)
        self.directory = Directory(kv, SecretBox(signing_key), clock, self._clear_caches)
        self._owner = None if owner is None else self._install(*owner)

    def identify(self, access_key_id: str) -> Credential:
        """Find the credential of an access key id, owner and secret; raises UnknownKeyError (also: no user)."""
        if self._owner is not None and access_key_id == self._owner.access_key_id:
            return self._owner
        found = self._credentials.get(access_key_id, self._find_credential)
        if found is None:
            raise UnknownKeyError
        return found

    def user(self, name: str) -> User:
        """Read a user. Raises UnknownKeyError (401) for a missing user."""
        found = self._users.get(name, self._find_user)
        if found is None:
            raise UnknownKeyError
        return found

    def allows(self, user: str, action: str, resource: str) -> bool:
        """Whether a user may perform an action on a resource (an ARN)."""
        return self._denial(user, Permission(action, resource)) is None

    def check(self, user: str, *permissions: Permission) -> None:
        """Check that a user has all of these permissions. Raises InsufficientPermissionsError for the first missing."""
        for permission in permissions:
            denial = self._denial(user, permission)
            if denial is not None:
                raise InsufficientPermissionsError(f"insufficient permissions: {denial}")

    def allows_somewhere(self, user: str, action: str) -> bool:
        """Whether a user may perform an action on at least one resource."""
        if self._is_owner(user):
            return True
        grants = self._grants.get(user, self._find_grants)
        return grants is not None and grants.allows_somewhere(action)

    def cached_credential(self, access_key_id: str) -> Credential | None:
        """Return the result of `identify` without access to the store, or None; never blocks."""
        if self._owner is not None and access_key_id == self._owner.access_key_id:
            return self._owner
        return self._credentials.peek(access_key_id)

    def cached_user(self, name: str) -> User | None:
        """Return the result of `user` without access to the store, or None; never blocks."""
        return self._users.peek(name)

    def _denial(self, user: str, permission: Permission) -> str | None:
        if self._is_owner(user):
            return None
        grants = self._grants.get(user, self._find_grants)
        return f"not allowed to {permission.action}" if grants is None else grants.denial(permission)

    def _is_owner(self, user: str) -> bool:
        return self._owner is not None and user == self._owner.user

    @property
    def initialized(self) -> bool:
        """Whether the server has its first user."""
        return self._owner is not None or self.set_up_at() is not None

    def set_up_at(self) -> datetime | None:
        """Return the time of the first user (aware UTC); None without one."""
        try:
            stored = self._kv.get(model.PARTITION, model.SETUP_KEY)
        except KeyNotFoundError:
            return None
        return datetime.fromisoformat(stored.decode())

    def setup(self, user: str, key: tuple[str, str] | None = None) -> Credential:
        """Create the first user, an administrator, and the default groups and policies; no `key` generates one."""
        with self._lock:
            if self.initialized:
                raise AlreadySetUpError
            key_id, secret = key or (new_access_key_id(), new_secret())
            model.check_key_id(key_id)
            install_defaults(self.directory, model.check_name(user, "User"), self._clock())
            with suppress(NotFoundError):  # left by a setup that was interrupted
                self.directory.credentials.delete(user, key_id)
            made = self.directory.credentials.add(user, key_id, secret)
            if not self._mark_set_up():
                # Another process was faster: its user is the first, and there must be no second one.
                self.directory.credentials.delete(user, key_id)
                if not self.directory.credentials.list(user, amount=1).results:
                    self.directory.users.delete(user)
                raise AlreadySetUpError
            return made

    def check_removable(self, user: str) -> None:
        """Refuse to remove the server's own administrator. Raises OwnerError (403)."""
        if self._is_owner(user):
            raise OwnerError

    def _install(self, user: str, access_key_id: str, secret: str) -> Credential:
        now = self._clock()
        try:
            created = self.directory.users.get(user).created
        except NotFoundError:
            install_defaults(self.directory, user, now)
            created = now
        self._mark_set_up()
        return Credential(user, access_key_id, secret, created)

    def _mark_set_up(self) -> bool:
        now = f"{self._clock():%Y-%m-%dT%H:%M:%SZ}".encode()
        try:
            self._kv.set_if(model.PARTITION, model.SETUP_KEY, now, None)
        except ConflictError:
            return False
        return True

    def _find_credential(self, access_key_id: str) -> Credential | None:
        try:
            found = self.directory.credentials.find(access_key_id, self._owners.get(access_key_id))
        except (NotFoundError, FormatError):
            self._owners.pop(access_key_id, None)
            return None
        self._owners[access_key_id] = found.user
        return found

    def _find_user(self, name: str) -> User | None:
        try:
            return self.directory.users.get(name)
        except NotFoundError:
            return None

    def _find_grants(self, user: str) -> Grants | None:
        try:
            return Grants(user, self.directory.policies.effective(user))
        except NotFoundError:
            return None

    def _clear_caches(self) -> None:
        for cache in (self._credentials, self._users, self._grants):
            cache.clear()


class Cache[T]:
    """Values by name, each for a limited time; emptied when `entries` are in it.

    A look-up begun before `clear` is not cached after it.
    """

    def __init__(
        self,
        seconds: float,
        entries: int = CACHE_ENTRIES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._entries = entries
        self._monotonic = monotonic
        self._values: dict[str, tuple[float, T]] = {}

    def peek(self, name: str) -> T | None:
        """Return the cached value of a name; None if it is missing, expired, or None itself."""
        found = self._values.get(name)
        return found[1] if found is not None and self._monotonic() < found[0] else None

    def get(self, name: str, find: Callable[[str], T]) -> T:
        """Return the value of a name, calling `find` if it is missing or expired."""
        values = self._values
        found = values.get(name)
        now = self._monotonic()
        if found is not None and now < found[0]:
            return found[1]
        value = find(name)
        if len(values) >= self._entries:  # unknown keys in requests must not fill the memory
            values.clear()
        # `clear` replaces the dictionary: a value read before a change ends up in the old one.
        values[name] = (now + self._seconds, value)
        return value

    def clear(self) -> None:
        """Drop all values."""
        self._values = {}


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


def install_defaults(directory: Directory, administrator: str, now: datetime) -> None:
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
