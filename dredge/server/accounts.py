"""Who may use the server: one key pair, and tokens signed after a login with it.

A token is a JWT (HS256) like a real server's: header, claims and an HMAC-SHA256 over both, each base64url
without padding. Nothing here is ever logged; comparisons take the same time whatever is wrong.

Source: lakeFS pkg/auth (basic, JWT), pkg/api/auth_middleware.go.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from dredge.errors import ConflictError
from dredge.graveler.errors import NotUniqueError
from dredge.kv import Store
from dredge.server.failures import UnauthorizedError
from dredge.server.folders import Credentials

AUTH_PARTITION = b"auth"
SETUP_KEY = b"installation_metadata/setup_timestamp"
_AUDIENCE = "login"


class AlreadySetUpError(NotUniqueError):
    """The server has its first user; setting it up again is refused."""

    default = "lakeFS already initialized"


@dataclass(frozen=True, slots=True)
class User:
    """Who a request comes from."""

    name: str
    created: datetime


class Accounts:
    """The server's credentials and tokens.

    Args:
        credentials: the key pair; None until `setup` makes one.
        signing_key: of the tokens.
        login_seconds: life of a token.
        clock: the time, aware UTC.
        kv: where the moment of setup is kept, at the place a real server keeps it.
    """

    def __init__(
        self,
        credentials: Credentials | None,
        *,
        signing_key: str,
        login_seconds: int,
        clock: Callable[[], datetime],
        kv: Store,
    ) -> None:
        self._credentials = credentials
        # A key of its own: no signature on an address can ever pass for one on a token.
        self._key = hashlib.sha256(b"login token\0" + signing_key.encode()).digest()
        self._login_seconds = login_seconds
        self._clock = clock
        self._kv = kv
        self._lock = threading.Lock()
        self._created = clock() if credentials is None else self._mark_set_up()

    @property
    def initialized(self) -> bool:
        """Whether there is a user."""
        return self._credentials is not None

    def setup(self, user_name: str, key: tuple[str, str] | None = None) -> tuple[Credentials, datetime]:
        """Make the first user. Its key pair lives as long as this process: only the moment is kept in the
        store.

        Args:
            user_name: its name.
            key: access key id and secret; None generates a pair.

        Raises:
            AlreadySetUpError: 409.
        """
        with self._lock:
            if self._credentials is not None:
                raise AlreadySetUpError
            made = Credentials.generate(user_name) if key is None else Credentials(*key, user_name)
            self._created = self._mark_set_up()
            self._credentials = made
            return made, self._created

    def login(self, access_key_id: str, secret_access_key: str) -> tuple[str, datetime]:
        """Exchange a key pair for a token.

        Returns:
            The token and when it ends.

        Raises:
            UnauthorizedError: 401.
        """
        user = self._by_key(access_key_id, secret_access_key)
        issued = int(self._clock().timestamp())
        expires = issued + self._login_seconds
        claims = {"aud": [_AUDIENCE], "sub": user.name, "iat": issued, "exp": expires}
        signed = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(claims)}"
        return f"{signed}.{self._sign(signed)}", datetime.fromtimestamp(expires, UTC)

    def authenticate(self, authorization: str | None) -> User:
        """Find out who sent a request, by its Authorization header.

        Raises:
            UnauthorizedError: 401, also when there is no header.
        """
        scheme, _, rest = (authorization or "").partition(" ")
        if scheme.lower() == "basic":
            try:
                name, colon, secret = base64.b64decode(rest, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                raise UnauthorizedError from None
            if colon:
                return self._by_key(name, secret)
        elif scheme.lower() == "bearer":
            return self._by_token(rest.strip())
        raise UnauthorizedError

    def _by_key(self, access_key_id: str, secret: str) -> User:
        known = self._credentials
        if known is None:
            raise UnauthorizedError
        same_id = hmac.compare_digest(access_key_id.encode(), known.access_key_id.encode())
        same_secret = hmac.compare_digest(secret.encode(), known.secret_access_key.encode())
        if not (same_id and same_secret):
            raise UnauthorizedError
        return User(known.user_name, self._created)

    def _by_token(self, token: str) -> User:
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(signed).encode()):
            raise UnauthorizedError
        try:
            claims = json.loads(_decode(signed.partition(".")[2]))
            audience, name, expires = claims["aud"], claims["sub"], int(claims["exp"])
        except (ValueError, KeyError, TypeError):
            raise UnauthorizedError from None
        if _AUDIENCE not in audience or expires <= self._clock().timestamp():
            raise UnauthorizedError
        return User(name, self._created)

    def _sign(self, text: str) -> str:
        return _unpadded(hmac.new(self._key, text.encode(), hashlib.sha256).digest())

    def _mark_set_up(self) -> datetime:
        """Keep the moment of setup, or read the one that is kept."""
        now = self._clock()
        try:
            self._kv.set_if(AUTH_PARTITION, SETUP_KEY, f"{now:%Y-%m-%dT%H:%M:%SZ}".encode(), None)
        except ConflictError:
            return datetime.fromisoformat(self._kv.get(AUTH_PARTITION, SETUP_KEY).decode())
        return now


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encode(value: object) -> str:
    return _unpadded(json.dumps(value, separators=(",", ":")).encode())


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
