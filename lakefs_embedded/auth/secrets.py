"""Secrets at rest: encrypted and not hashed, because verifying an S3 signature needs the secret itself.

    sealed   1 byte version (1) | 12 bytes nonce | AES-256-GCM ciphertext and tag

The encryption key is derived from the server's signing key. User and key id are authenticated: a sealed secret cannot
be decrypted from another record. A real server encrypts in another way (NaCl, key by scrypt), so neither can read the
other's credentials.
"""

from __future__ import annotations

import hashlib
import secrets as random

from dredge.errors import FormatError

_VERSION = b"\x01"
_NONCE_BYTES = 12
_KEY_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class SecretBox:
    """Encrypts and decrypts secrets with the server's signing key."""

    def __init__(self, signing_key: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        # A key for this purpose only: signatures made elsewhere reveal nothing about it.
        self._cipher = AESGCM(hashlib.sha256(b"credential secret\0" + signing_key.encode()).digest())

    def seal(self, secret: str, bound: bytes) -> bytes:
        """Encrypt a secret, bound to the key of its record: `open` needs the same `bound`."""
        nonce = random.token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, secret.encode(), bound)

    def open(self, sealed: bytes, bound: bytes) -> str:
        """Decrypt a secret. Raises FormatError: changed, or of another server, signing key or record."""
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
    """Generate an access key id in lakeFS's format, 20 characters."""
    return "AKIAJ" + "".join(random.choice(_KEY_ALPHABET) for _ in range(14)) + "Q"


def new_secret() -> str:
    """Generate a secret access key, 40 characters."""
    return random.token_urlsafe(30)
