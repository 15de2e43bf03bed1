"""Modules on cryptography: crypto/aes, hmac, sha256, and uuid.

Source: lakeFS pkg/actions/lua/crypto, uuid.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import uuid

from dredge.graveler.actions.lua.library import Library, function

_BLOCK = 16


def _encrypt(key: bytes, text: bytes) -> bytes:
    """AES-CBC with PKCS padding; the random initialisation vector comes first."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    vector = os.urandom(_BLOCK)
    missing = _BLOCK - len(text) % _BLOCK
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return vector + encryptor.update(text + bytes([missing]) * missing) + encryptor.finalize()


def _decrypt(key: bytes, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if len(data) < 2 * _BLOCK or len(data) % _BLOCK:
        raise ValueError(f"not a vector of {_BLOCK} bytes and whole blocks behind it")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(data[:_BLOCK])).decryptor()
    padded = decryptor.update(data[_BLOCK:]) + decryptor.finalize()
    if not 1 <= padded[-1] <= _BLOCK:
        raise ValueError("wrong padding: another key, or not encrypted")
    return padded[: -padded[-1]]


MODULES: dict[str, Library] = {
    "crypto/aes": {"encryptCBC": function("s s", _encrypt), "decryptCBC": function("s s", _decrypt)},
    "crypto/hmac": {
        "sign_sha256": function("s s", lambda text, key: hmac.digest(key, text, "sha256")),
        "sign_sha1": function("s s", lambda text, key: hmac.digest(key, text, "sha1")),
    },
    "crypto/sha256": {"digest": function("s", lambda text: hashlib.sha256(text).digest())},
    "uuid": {"new": function("", lambda: str(uuid.uuid4()))},
}
