"""Secrets at rest: encrypted, because the S3 protocol needs them back (a signature is made with the secret).

    sealed   1 byte version (1) | 12 bytes nonce | AES-256-GCM of the secret and its tag

The key comes from the server's signing key, and user and key id are bound in, so that a sealed secret moved
to another record does not open. A real server seals in another way (NaCl, key by scrypt): its credentials
do not open here, nor ours there.
"""

from __future__ import annotations

import hashlib
import secrets as random

from dredge.errors import FormatError

_VERSION = b"\x01"
_NONCE_BYTES = 12
_KEY_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class SecretBox:
    """Seals secrets and opens them again.

    Args:
        signing_key: of the server. With another one nothing that was sealed opens.
    """

    def __init__(self, signing_key: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        # A key of its own: nothing that is signed elsewhere tells about it.
        self._cipher = AESGCM(hashlib.sha256(b"credential secret\0" + signing_key.encode()).digest())

    def seal(self, secret: str, bound: bytes) -> bytes:
        """Encrypt a secret; it opens only with the same `bound`, the key of its record."""
        nonce = random.token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, secret.encode(), bound)

    def open(self, sealed: bytes, bound: bytes) -> str:
        """Decrypt a secret.

        Raises:
            FormatError: it was sealed by another server or with another key, or changed.
        """
        from cryptography.exceptions import InvalidTag

        start = len(_VERSION) + _NONCE_BYTES
        try:
            if sealed[:1] != _VERSION:
                raise InvalidTag
            return self._cipher.decrypt(sealed[1:start], sealed[start:], bound).decode()
        except (InvalidTag, ValueError):
            raise FormatError(
                "a stored secret key cannot be decrypted: it belongs to another signing key or another server"
            ) from None


def new_access_key_id() -> str:
    """An access key id of the shape lakeFS uses, 20 characters."""
    return "AKIAJ" + "".join(random.choice(_KEY_ALPHABET) for _ in range(14)) + "Q"


def new_secret() -> str:
    """A secret key, 40 characters."""
    return random.token_urlsafe(30)
