"""Accounts: who a key belongs to, and what its user may do, remembered for a few seconds.

    credential = accounts.identify(access_key_id)            # its secret checks a signature
    accounts.allows(credential.user, Action.READ_OBJECT, object_arn("shop", "a/b"))

Every request asks both, so answers are kept for some seconds. A change through this process ends them at
once; one by another process on the same store is seen when they end by themselves.

Source: lakeFS pkg/auth/cache.go, pkg/auth/setup.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from dredge.auth import base, model
from dredge.auth.directory import Clock, Directory
from dredge.auth.errors import (
    AlreadySetUpError,
    InsufficientPermissionsError,
    OwnerError,
    UnknownKeyError,
)
from dredge.auth.model import Credential, User
from dredge.auth.permissions import Permission
from dredge.auth.policies import Grants
from dredge.auth.secrets import SecretBox, new_access_key_id, new_secret
from dredge.errors import ConflictError, FormatError, NotFoundError
from dredge.kv import KeyNotFoundError, Store

CACHE_SECONDS = 5.0
CACHE_ENTRIES = 10_000


class Accounts:
    """Users, keys and rights of one server.

    Args:
        kv: where they are kept.
        signing_key: of the server; secrets are sealed with a key made from it.
        clock: aware UTC.
        owner: user name, key id and secret that the server was started with. The secret is not stored, and no
            policy limits this user. None: the store alone says who there is.
        cache_seconds: how long an answer is used again.
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
        self._holders: dict[str, str] = {}  # by key id: where it was, as a hint that may be wrong
        self._users: Cache[User | None] = Cache(cache_seconds)
        self._grants: Cache[Grants | None] = Cache(cache_seconds)
        self.directory = Directory(kv, SecretBox(signing_key), clock, self._forget)
        self._owner = None if owner is None else self._install(*owner)

    # --- what requests ask ---------------------------------------------------------------------------------

    def identify(self, access_key_id: str) -> Credential:
        """Find whose an access key is, with its secret.

        Raises:
            UnknownKeyError: 401; there is none, or its user is gone, or its secret does not open.
        """
        if self._owner is not None and access_key_id == self._owner.access_key_id:
            return self._owner
        found = self._credentials.get(access_key_id, self._find_credential)
        if found is None:
            raise UnknownKeyError
        return found

    def user(self, name: str) -> User:
        """Read a user.

        Raises:
            UnknownKeyError: 401; there is none.
        """
        found = self._users.get(name, self._find_user)
        if found is None:
            raise UnknownKeyError
        return found

    def allows(self, user: str, action: str, resource: str) -> bool:
        """Whether a user may do an action on a resource (an ARN)."""
        return self._refusal(user, Permission(action, resource)) is None

    def check(self, user: str, *needed: Permission) -> None:
        """Refuse unless a user may do all of these.

        Raises:
            InsufficientPermissionsError: 401, with the first that is missing.
        """
        for permission in needed:
            refusal = self._refusal(user, permission)
            if refusal is not None:
                raise InsufficientPermissionsError(f"insufficient permissions: {refusal}")

    def allows_somewhere(self, user: str, action: str) -> bool:
        """Whether a user may do an action on anything at all."""
        if self._is_owner(user):
            return True
        grants = self._grants.get(user, self._find_grants)
        return grants is not None and grants.mentions(action)

    def at_hand(self, access_key_id: str) -> Credential | None:
        """What `identify` would answer, if that needs no store: this never waits."""
        if self._owner is not None and access_key_id == self._owner.access_key_id:
            return self._owner
        return self._credentials.peek(access_key_id)

    def user_at_hand(self, name: str) -> User | None:
        """What `user` would answer, if that needs no store."""
        return self._users.peek(name)

    def _refusal(self, user: str, permission: Permission) -> str | None:
        if self._is_owner(user):
            return None
        grants = self._grants.get(user, self._find_grants)
        return f"not allowed to {permission.action}" if grants is None else grants.refusal(permission)

    def _is_owner(self, user: str) -> bool:
        return self._owner is not None and user == self._owner.user

    # --- setting up ----------------------------------------------------------------------------------------

    @property
    def initialized(self) -> bool:
        """Whether there is a first user."""
        return self._owner is not None or self.set_up_at() is not None

    def set_up_at(self) -> datetime | None:
        """When the store got its first user; None when it has none."""
        try:
            kept = self._kv.get(model.PARTITION, model.SETUP_KEY)
        except KeyNotFoundError:
            return None
        return datetime.fromisoformat(kept.decode())

    def setup(self, user: str, key: tuple[str, str] | None = None) -> Credential:
        """Make the first user, an administrator, with the groups and policies that lakeFS begins with.

        Args:
            user: its name.
            key: access key id and secret; None makes a pair.

        Raises:
            AlreadySetUpError: 409.
            InvalidNameError: 400.
        """
        with self._lock:
            if self.initialized:
                raise AlreadySetUpError
            key_id, secret = key or (new_access_key_id(), new_secret())
            model.check_key_id(key_id)
            base.install(self.directory, model.check_name(user, "User"), self._clock())
            with suppress(NotFoundError):  # left by a setup that was cut short
                self.directory.delete_credential(user, key_id)
            made = self.directory.add_credential(user, key_id, secret)
            if not self._mark_set_up():
                # Another process was faster: its user is the first, and this one must not be a second.
                self.directory.delete_credential(user, key_id)
                if not self.directory.list_credentials(user, amount=1).results:
                    self.directory.delete_user(user)
                raise AlreadySetUpError
            return made

    def check_removable(self, user: str) -> None:
        """Refuse to remove the user that the server was started with.

        Raises:
            OwnerError: 403.
        """
        if self._is_owner(user):
            raise OwnerError

    def _install(self, user: str, access_key_id: str, secret: str) -> Credential:
        """See that the owner's user is there; its key pair stays in memory."""
        now = self._clock()
        try:
            created = self.directory.get_user(user).created
        except NotFoundError:
            base.install(self.directory, user, now)
            created = now
        self._mark_set_up()
        return Credential(user, access_key_id, secret, created)

    def _mark_set_up(self) -> bool:
        """Keep the moment of setup; False when one is kept already."""
        now = f"{self._clock():%Y-%m-%dT%H:%M:%SZ}".encode()
        try:
            self._kv.set_if(model.PARTITION, model.SETUP_KEY, now, None)
        except ConflictError:
            return False
        return True

    # --- remembering ---------------------------------------------------------------------------------------

    def _find_credential(self, access_key_id: str) -> Credential | None:
        try:
            found = self.directory.find_credential(access_key_id, self._holders.get(access_key_id))
        except (NotFoundError, FormatError):
            self._holders.pop(access_key_id, None)
            return None
        self._holders[access_key_id] = found.user
        return found

    def _find_user(self, name: str) -> User | None:
        try:
            return self.directory.get_user(name)
        except NotFoundError:
            return None

    def _find_grants(self, user: str) -> Grants | None:
        try:
            return Grants(user, self.directory.effective_policies(user))
        except NotFoundError:
            return None

    def _forget(self) -> None:
        for cache in (self._credentials, self._users, self._grants):
            cache.clear()


class Cache[T]:
    """Answers by name, each for some seconds. What was asked for before `clear` is not kept after it."""

    def __init__(
        self,
        seconds: float,
        entries: int = CACHE_ENTRIES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._entries = entries
        self._monotonic = monotonic
        self._kept: dict[str, tuple[float, T]] = {}

    def peek(self, name: str) -> T | None:
        """The answer for a name if it is still good; None when it is not, or is None itself."""
        found = self._kept.get(name)
        return found[1] if found is not None and self._monotonic() < found[0] else None

    def get(self, name: str, find: Callable[[str], T]) -> T:
        """The answer for a name, found again when there is none or it is too old."""
        kept = self._kept
        found = kept.get(name)
        now = self._monotonic()
        if found is not None and now < found[0]:
            return found[1]
        value = find(name)
        if len(kept) >= self._entries:  # strangers' keys must not fill the memory
            kept.clear()
        # `clear` puts a new dictionary in place: what was read before a change goes into the old one.
        kept[name] = (now + self._seconds, value)
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._kept = {}
