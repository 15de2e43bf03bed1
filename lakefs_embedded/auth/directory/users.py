"""Users."""

from __future__ import annotations

from collections.abc import Iterator

from lakefs_embedded.auth import model
from lakefs_embedded.auth.directory.records import AuthRecords, Page, page_of
from lakefs_embedded.auth.errors import UserNotFoundError
from lakefs_embedded.auth.model import Clock, User


class UserStore:
    """Stored users."""

    def __init__(self, records: AuthRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    def create(self, name: str, friendly_name: str = "", email: str = "") -> User:
        """Create a user; raises AlreadyExistsError, InvalidNameError."""
        user = User(model.check_name(name, "User"), self._clock(), friendly_name, email)
        self._records.create(model.user_key(name), user.encode())
        return user

    def get(self, name: str) -> User:
        """Read a user; raises UserNotFoundError."""
        return User.decode(self._records.read(model.user_key(name), UserNotFoundError))

    def list(self, *, prefix: str = "", after: str = "", amount: int) -> Page[User]:
        """List users in name order."""
        return page_of(self._records.named(model.user_key(""), prefix, after, User.decode), amount)

    def delete(self, name: str) -> None:
        """Remove a user with its credentials (first), policies and memberships; raises UserNotFoundError."""
        self.get(name)
        membership = f"/users/{name}".encode()

        def links() -> Iterator[bytes]:
            yield from self._records.keys(model.credential_key(name))
            yield from self._records.keys(model.user_policy_key(name))
            yield from (key for key in self._records.keys(b"gUsers/") if key.endswith(membership))

        self._records.remove_entity(model.user_key(name), links)
