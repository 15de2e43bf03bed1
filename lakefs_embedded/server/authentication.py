"""Authentication: a key pair (basic), or a login token (bearer, or the session cookie).

A token is a JWT (HS256) like a real server's: header, claims and an HMAC-SHA256 over both, each base64url without
padding. It holds the user name but no permissions; it is valid no longer than the user exists. Secrets and signatures
are never logged, and are compared in constant time.

Source: lakeFS pkg/auth (basic, JWT), pkg/api/auth_middleware.go.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.auth.model import Credential, User
from lakefs_embedded.errors import UnauthorizedError

COOKIE = "internal_auth_session"
LOGIN_SECONDS = 7 * 24 * 3600
_AUDIENCE = "login"


@dataclass(frozen=True, slots=True)
class _Claims:
    """Claims of a token with a valid signature: user name, and time of issue in Unix seconds."""

    user: str
    issued: int


class Authenticator:
    """Finds the user of a request; tokens are signed with a key derived from `signing_key`."""

    def __init__(
        self,
        accounts: Accounts,
        *,
        signing_key: str,
        login_seconds: int = LOGIN_SECONDS,
        clock: Callable[[], datetime],
    ) -> None:
        self._accounts = accounts
        # A key for this purpose only: no signature on an address can ever pass for one on a token.
        self._key = hashlib.sha256(b"login token\0" + signing_key.encode()).digest()
        self._login_seconds = login_seconds
        self._clock = clock

    def login(self, access_key_id: str, secret_access_key: str) -> tuple[str, datetime]:
        """Exchange a key pair for a token. Returns the token and its expiry (aware UTC)."""
        credential = self._accounts.identify(access_key_id)
        return self.token(_owner(credential, secret_access_key))

    def token(self, user_name: str) -> tuple[str, datetime]:
        """Make a token for a user, with its expiry; only for the server's own calls in a user's name."""
        user = self._accounts.user(user_name)
        issued = int(self._clock().timestamp())
        expires = issued + self._login_seconds
        claims = {"aud": [_AUDIENCE], "sub": user.name, "iat": issued, "exp": expires}
        signed = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(claims)}"
        return f"{signed}.{self._sign(signed)}", datetime.fromtimestamp(expires, UTC)

    def authenticate(self, authorization: str | None, cookie: str | None = None) -> User:
        """Find the user by the Authorization header or, without one, by the session cookie."""
        found = self._read(authorization, cookie)
        if isinstance(found, _Claims):
            return self._token_user(self._accounts.user(found.user), found)
        key_id, secret = found
        return self._accounts.user(_owner(self._accounts.identify(key_id), secret))

    def authenticate_cached(self, authorization: str | None, cookie: str | None = None) -> User | None:
        """Return the result of `authenticate` without access to the store, or None; never blocks."""
        found = self._read(authorization, cookie)
        if isinstance(found, _Claims):
            user = self._accounts.cached_user(found.user)
            return None if user is None else self._token_user(user, found)
        credential = self._accounts.cached_credential(found[0])
        return None if credential is None else self._accounts.cached_user(_owner(credential, found[1]))

    def _read(self, authorization: str | None, cookie: str | None) -> tuple[str, str] | _Claims:
        if not authorization and cookie:
            return self._claims(cookie)
        scheme, _, rest = (authorization or "").partition(" ")
        if scheme.lower() == "basic":
            try:
                name, colon, secret = base64.b64decode(rest, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                raise UnauthorizedError from None
            if colon:
                return name, secret
        elif scheme.lower() == "bearer":
            return self._claims(rest.strip())
        raise UnauthorizedError

    def _claims(self, token: str) -> _Claims:
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(signed).encode()):
            raise UnauthorizedError
        try:
            claims = json.loads(_decode(signed.partition(".")[2]))
            audience, name = claims["aud"], str(claims["sub"])
            issued, expires = int(claims["iat"]), int(claims["exp"])
        except (ValueError, KeyError, TypeError):
            raise UnauthorizedError from None
        if _AUDIENCE not in audience or expires <= self._clock().timestamp():
            raise UnauthorizedError
        return _Claims(name, issued)

    def _token_user(self, user: User, claims: _Claims) -> User:
        if claims.issued < int(user.created.timestamp()):  # of an earlier user with the same name
            raise UnauthorizedError
        return user

    def _sign(self, text: str) -> str:
        return _unpadded(hmac.new(self._key, text.encode(), hashlib.sha256).digest())


def _owner(credential: Credential, secret: str) -> str:
    if not hmac.compare_digest(secret.encode(), credential.secret.encode()):
        raise UnauthorizedError
    return credential.user


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encode(value: object) -> str:
    return _unpadded(json.dumps(value, separators=(",", ":")).encode())


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
