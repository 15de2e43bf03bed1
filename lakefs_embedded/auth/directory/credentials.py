"""Credentials: access keys of users, with their secrets encrypted."""

from __future__ import annotations

from lakefs_embedded.auth import model
from lakefs_embedded.auth.directory.records import AuthRecords, Page, page_of
from lakefs_embedded.auth.directory.users import UserStore
from lakefs_embedded.auth.errors import AlreadyExistsError, CredentialsNotFoundError
from lakefs_embedded.auth.model import Clock, Credential
from lakefs_embedded.auth.secrets import SecretBox


class CredentialStore:
    """Stored credentials."""

    def __init__(self, records: AuthRecords, users: UserStore, box: SecretBox, clock: Clock) -> None:
        self._records = records
        self._users = users
        self._box = box
        self._clock = clock

    def add(self, user: str, access_key_id: str, secret: str) -> Credential:
        """Give a user a key pair; raises AlreadyExistsError, InvalidNameError."""
        model.check_key_id(access_key_id)
        self._users.get(user)
        if self._owner_of(access_key_id) is not None:
            raise AlreadyExistsError
        credential = Credential(user, access_key_id, secret, self._clock())
        key = model.credential_key(user, access_key_id)
        self._records.create(key, credential.encode(self._box.seal(secret, key)))
        self._records.undo_unless(key, lambda: self._users.get(user))
        return credential

    def get(self, user: str, access_key_id: str) -> Credential:
        """Read a user's credential without its secret; raises UserNotFoundError, CredentialsNotFoundError."""
        self._users.get(user)
        key = model.credential_key(user, access_key_id)
        return Credential.decode(self._records.read(key, CredentialsNotFoundError))[0]

    def list(self, user: str, *, prefix: str = "", after: str = "", amount: int) -> Page[Credential]:
        """List a user's credentials by key id, without secrets; raises UserNotFoundError."""
        self._users.get(user)
        root = model.credential_key(user)
        return page_of(
            self._records.named(root, prefix, after, lambda value: Credential.decode(value)[0]), amount
        )

    def delete(self, user: str, access_key_id: str) -> None:
        """Remove a user's credential; raises UserNotFoundError, CredentialsNotFoundError."""
        self.get(user, access_key_id)
        self._records.delete(model.credential_key(user, access_key_id))

    def find(self, access_key_id: str, expected_owner: str | None = None) -> Credential:
        """Find a credential by key id, with its secret; an `expected_owner` (an earlier one) can save a scan over all.

        Raises CredentialsNotFoundError, also when its user no longer exists, and FormatError for an unreadable secret.
        """
        user = expected_owner
        if user is None or not self._records.exists(model.credential_key(user, access_key_id)):
            user = self._owner_of(access_key_id)
        if user is None or not self._records.exists(model.user_key(user)):
            raise CredentialsNotFoundError
        key = model.credential_key(user, access_key_id)
        found, sealed = Credential.decode(self._records.read(key, CredentialsNotFoundError))
        return Credential(user, access_key_id, self._box.open(sealed, key), found.issued)

    def _owner_of(self, access_key_id: str) -> str | None:
        ending = f"/credentials/{access_key_id}".encode()
        for key in self._records.keys(b"uCredentials/"):
            if key.endswith(ending):
                return key.split(b"/")[1].decode()
        return None
