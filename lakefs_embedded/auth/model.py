"""Users, groups, policies and credentials: their fields, stored encoding and keys.

    users/<user>                                UserData
    groups/<group>                              GroupData
    policies/<policy>                           PolicyData
    uCredentials/<user>/credentials/<key id>    CredentialData, the secret encrypted
    gUsers/<group>/users/<user>                 SecondaryIndex: membership of a user
    uPolicies/<user>/policies/<policy>          SecondaryIndex: policy attached to a user
    gPolicies/<group>/policies/<policy>         SecondaryIndex: policy attached to a group

All are in the partition `auth`. Names have no slash, so a key prefix ending with a slash belongs to one name. Names are
the ids of the API; times are aware UTC. Secrets are encrypted and not hashed, because verifying an S3 signature needs
the secret itself:

    sealed   1 byte version (1) | 12 bytes nonce | AES-256-GCM ciphertext and tag

The encryption key is derived from the server's signing key. User and key id are authenticated: a sealed secret cannot
be decrypted from another record. A real server encrypts in another way (NaCl, key by scrypt), so neither can read the
other's credentials.

Source: lakeFS pkg/auth/model (model.go, model.proto, validation.go).
"""

from __future__ import annotations

import hashlib
import re
import secrets as random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from dredge.errors import FormatError
from dredge.lakefs.files.messages import auth_pb2, graveler_pb2
from lakefs_embedded.errors import InvalidNameError

type Clock = Callable[[], datetime]

PARTITION = b"auth"
SETUP_KEY = b"installation_metadata/setup_timestamp"

_NAME = re.compile(r"[\w+=.,@\-]{1,127}", re.ASCII)
_KEY_ID = re.compile(r"[!-.0-~]{3,128}")  # printable, no slash


@dataclass(frozen=True, slots=True)
class User:
    """A user, with a display name ("" if none)."""

    name: str
    created: datetime
    friendly_name: str = ""
    email: str = ""

    @property
    def committer(self) -> str:
        """The committer of the user's commits: email address, otherwise name."""
        return self.email or self.name

    def encode(self) -> bytes:
        """Encode as stored (protobuf)."""
        return auth_pb2.UserData(
            created_at=_timestamp(self.created),
            username=self.name,
            friendly_name=self.friendly_name,
            email=self.email,
            source="internal",
        ).SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes) -> User:
        """Decode a stored record; raises FormatError."""
        message = _parse(auth_pb2.UserData(), data)
        return cls(message.username, _datetime(message.created_at), message.friendly_name, message.email)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of users; its policies apply to all of them."""

    name: str
    created: datetime
    description: str = ""

    def encode(self) -> bytes:
        """Encode as stored (protobuf)."""
        return auth_pb2.GroupData(
            created_at=_timestamp(self.created), display_name=self.name, description=self.description
        ).SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes) -> Group:
        """Decode a stored record; raises FormatError."""
        message = _parse(auth_pb2.GroupData(), data)
        return cls(message.display_name, _datetime(message.created_at), message.description)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a policy.

    Attributes:
        actions: patterns such as `fs:Read*`.
        resource: ARN pattern, `*`, or a JSON list of these.
        conditional: whether it has conditions, which this server cannot evaluate.
    """

    effect: str
    actions: tuple[str, ...]
    resource: str
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """A named list of statements; `created` is the time of the last change."""

    name: str
    created: datetime
    statements: tuple[Statement, ...]

    def encode(self) -> bytes:
        """Encode as stored (protobuf)."""
        return auth_pb2.PolicyData(
            created_at=_timestamp(self.created),
            display_name=self.name,
            statements=[
                auth_pb2.StatementData(effect=each.effect, action=each.actions, resource=each.resource)
                for each in self.statements
            ],
            acl=auth_pb2.ACLData(),
        ).SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes) -> Policy:
        """Decode a stored record; raises FormatError."""
        message = _parse(auth_pb2.PolicyData(), data)
        statements = tuple(
            Statement(each.effect, tuple(each.action), each.resource, conditional=bool(each.condition))
            for each in message.statements
        )
        return cls(message.display_name, _datetime(message.created_at), statements)


@dataclass(frozen=True, slots=True)
class Credential:
    """A key pair of a user; `secret` is shown only in the response to its creation, and "" in listings."""

    user: str
    access_key_id: str
    secret: str = field(repr=False)
    issued: datetime

    def encode(self, sealed: bytes) -> bytes:
        """Encode as stored (protobuf); `sealed` is the encrypted secret."""
        return auth_pb2.CredentialData(
            access_key_id=self.access_key_id,
            secret_access_key_encrypted_bytes=sealed,
            issued_date=_timestamp(self.issued),
            user_id=self.user.encode(),
        ).SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes) -> tuple[Credential, bytes]:
        """Decode a stored record into credential (without secret) and encrypted secret; raises FormatError."""
        message = _parse(auth_pb2.CredentialData(), data)
        found = cls(message.user_id.decode(), message.access_key_id, "", _datetime(message.issued_date))
        return found, message.secret_access_key_encrypted_bytes


def check_name(name: str, what: str) -> str:
    """Check the name of a user, group or policy and return it; raises InvalidNameError."""
    if "%" in name:
        raise InvalidNameError(f"{what} name cannot contain '%'")
    if _NAME.fullmatch(name) is None:
        raise InvalidNameError
    return name


def check_key_id(key_id: str) -> str:
    """Check an access key id and return it: 3 to 128 printable characters without a slash."""
    if _KEY_ID.fullmatch(key_id) is None:
        raise InvalidNameError("invalid access key ID")
    return key_id


def user_key(user: str) -> bytes:
    """Key of a user; "" gives the prefix of all users."""
    return f"users/{user}".encode()


def group_key(group: str) -> bytes:
    """Key of a group; "" gives the prefix of all groups."""
    return f"groups/{group}".encode()


def policy_key(policy: str) -> bytes:
    """Key of a policy; "" gives the prefix of all policies."""
    return f"policies/{policy}".encode()


def credential_key(user: str, access_key_id: str = "") -> bytes:
    """Key of a user's credential; without an id the prefix of the user's credentials."""
    return f"uCredentials/{user}/credentials/{access_key_id}".encode()


def membership_key(group: str, user: str = "") -> bytes:
    """Key of a membership; without a user the prefix of the group's memberships."""
    return f"gUsers/{group}/users/{user}".encode()


def user_policy_key(user: str, policy: str = "") -> bytes:
    """Key of a policy attached to a user; without a policy the prefix of the user's attachments."""
    return f"uPolicies/{user}/policies/{policy}".encode()


def group_policy_key(group: str, policy: str = "") -> bytes:
    """Key of a policy attached to a group; without a policy the prefix of the group's attachments."""
    return f"gPolicies/{group}/policies/{policy}".encode()


def encode_index(primary: bytes) -> bytes:
    """Encode the value of a link: a secondary index entry that points to a primary key."""
    return graveler_pb2.SecondaryIndex(primary_key=primary).SerializeToString(deterministic=True)


def _timestamp(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment.astimezone(UTC))
    return timestamp


def _datetime(timestamp: Timestamp) -> datetime:
    return timestamp.ToDatetime(tzinfo=UTC)


def _parse[M: (auth_pb2.UserData, auth_pb2.GroupData, auth_pb2.PolicyData, auth_pb2.CredentialData)](
    message: M, data: bytes
) -> M:
    try:
        message.ParseFromString(data)
    except DecodeError as problem:
        raise FormatError(f"a record in the partition auth is damaged: {problem}") from None
    return message


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
