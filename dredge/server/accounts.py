"""Who sends a request: a key pair (basic), or a token from a login (bearer, or the session cookie).

A token is a JWT (HS256) like a real server's: header, claims and an HMAC-SHA256 over both, each base64url
without padding. It names a user and holds no rights: it ends with the user. Nothing here is ever logged;
comparisons take the same time whatever is wrong.

Source: lakeFS pkg/auth (basic, JWT), pkg/api/auth_middleware.go.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from dredge.auth import Accounts, Credential, UnauthorizedError, User

COOKIE = "internal_auth_session"
_AUDIENCE = "login"


@dataclass(frozen=True, slots=True)
class _Claims:
    """What a token that was signed here says."""

    user: str
    issued: int


class Authenticator:
    """Finds the user of a request.

    Args:
        accounts: users and keys.
        signing_key: of the tokens.
        login_seconds: life of a token.
        clock: the time, aware UTC.
    """

    def __init__(
        self, accounts: Accounts, *, signing_key: str, login_seconds: int, clock: Callable[[], datetime]
    ) -> None:
        self._accounts = accounts
        # A key of its own: no signature on an address can ever pass for one on a token.
        self._key = hashlib.sha256(b"login token\0" + signing_key.encode()).digest()
        self._login_seconds = login_seconds
        self._clock = clock

    def login(self, access_key_id: str, secret_access_key: str) -> tuple[str, datetime]:
        """Exchange a key pair for a token.

        Returns:
            The token and when it ends.

        Raises:
            UnauthorizedError: 401.
        """
        credential = self._accounts.identify(access_key_id)
        user = self._accounts.user(_holder(credential, secret_access_key))
        issued = int(self._clock().timestamp())
        expires = issued + self._login_seconds
        claims = {"aud": [_AUDIENCE], "sub": user.name, "iat": issued, "exp": expires}
        signed = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(claims)}"
        return f"{signed}.{self._sign(signed)}", datetime.fromtimestamp(expires, UTC)

    def authenticate(self, authorization: str | None, cookie: str | None = None) -> User:
        """Find out who sent a request, by its Authorization header, or else by the session cookie.

        Raises:
            UnauthorizedError: 401, also when there is neither.
        """
        found = self._read(authorization, cookie)
        if isinstance(found, _Claims):
            return self._of_token(self._accounts.user(found.user), found)
        key_id, secret = found
        return self._accounts.user(_holder(self._accounts.identify(key_id), secret))

    def at_hand(self, authorization: str | None, cookie: str | None = None) -> User | None:
        """What `authenticate` answers, when that needs no look into the store; None when it does.

        Raises:
            UnauthorizedError: 401.
        """
        found = self._read(authorization, cookie)
        if isinstance(found, _Claims):
            user = self._accounts.user_at_hand(found.user)
            return None if user is None else self._of_token(user, found)
        credential = self._accounts.at_hand(found[0])
        return None if credential is None else self._accounts.user_at_hand(_holder(credential, found[1]))

    def _read(self, authorization: str | None, cookie: str | None) -> tuple[str, str] | _Claims:
        """Take the header apart: a key id and a secret, or the claims of a good token."""
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

    def _of_token(self, user: User, claims: _Claims) -> User:
        """Refuse a token that is older than the user: it was for another of that name."""
        if claims.issued < int(user.created.timestamp()):
            raise UnauthorizedError
        return user

    def _sign(self, text: str) -> str:
        return _unpadded(hmac.new(self._key, text.encode(), hashlib.sha256).digest())


def _holder(credential: Credential, secret: str) -> str:
    """The name of whose credential it is, if the secret is right."""
    if not hmac.compare_digest(secret.encode(), credential.secret.encode()):
        raise UnauthorizedError
    return credential.user


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encode(value: object) -> str:
    return _unpadded(json.dumps(value, separators=(",", ":")).encode())


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
