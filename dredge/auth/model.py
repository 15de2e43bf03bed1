"""Users, groups, policies and credentials: what they hold, how they are stored, under which keys.

    users/<user>                                UserData
    groups/<group>                              GroupData
    policies/<policy>                           PolicyData
    uCredentials/<user>/credentials/<key id>    CredentialData, the secret encrypted
    gUsers/<group>/users/<user>                 SecondaryIndex: a membership
    uPolicies/<user>/policies/<policy>          SecondaryIndex: a policy of a user
    gPolicies/<group>/policies/<policy>         SecondaryIndex: a policy of a group

All lie in one partition, `auth`. Names hold no slash, so a prefix with its slash belongs to one name.

Source: lakeFS pkg/auth/model (model.go, model.proto, validation.go).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from dredge.auth.errors import InvalidNameError
from dredge.errors import FormatError
from dredge.graveler.messages import auth_pb2, graveler_pb2

PARTITION = b"auth"
SETUP_KEY = b"installation_metadata/setup_timestamp"

_NAME = re.compile(r"[\w+=.,@\-]{1,127}", re.ASCII)
_KEY_ID = re.compile(r"[!-.0-~]{3,128}")  # printable, no slash


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who can have credentials."""

    name: str
    created: datetime
    friendly_name: str = ""
    email: str = ""

    @property
    def committer(self) -> str:
        """What stands in commits."""
        return self.email or self.name

    def encode(self) -> bytes:
        """The stored bytes."""
        return auth_pb2.UserData(
            created_at=_stamp(self.created),
            username=self.name,
            friendly_name=self.friendly_name,
            email=self.email,
            source="internal",
        ).SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes) -> User:
        """Read stored bytes."""
        message = _parse(auth_pb2.UserData(), data)
        return cls(message.username, _moment(message.created_at), message.friendly_name, message.email)


@dataclass(frozen=True, slots=True)
class Group:
    """Users that share policies."""

    name: str
    created: datetime
    description: str = ""

    def encode(self) -> bytes:
        """The stored bytes."""
        return auth_pb2.GroupData(
            created_at=_stamp(self.created), display_name=self.name, description=self.description
        ).SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes) -> Group:
        """Read stored bytes."""
        message = _parse(auth_pb2.GroupData(), data)
        return cls(message.display_name, _moment(message.created_at), message.description)


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a policy.

    Attributes:
        effect: `allow` or `deny`.
        actions: patterns such as `fs:Read*`.
        resource: an ARN pattern, `*`, or a JSON list of those.
        conditional: it holds only under conditions, which this server cannot evaluate.
    """

    effect: str
    actions: tuple[str, ...]
    resource: str
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """Named statements."""

    name: str
    created: datetime
    statements: tuple[Statement, ...]

    def encode(self) -> bytes:
        """The stored bytes."""
        return auth_pb2.PolicyData(
            created_at=_stamp(self.created),
            display_name=self.name,
            statements=[
                auth_pb2.StatementData(effect=each.effect, action=each.actions, resource=each.resource)
                for each in self.statements
            ],
            acl=auth_pb2.ACLData(),
        ).SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes) -> Policy:
        """Read stored bytes."""
        message = _parse(auth_pb2.PolicyData(), data)
        statements = tuple(
            Statement(each.effect, tuple(each.action), each.resource, conditional=bool(each.condition))
            for each in message.statements
        )
        return cls(message.display_name, _moment(message.created_at), statements)


@dataclass(frozen=True, slots=True)
class Credential:
    """A key pair and whose it is.

    Attributes:
        user: name.
        access_key_id: shown in logs and answers.
        secret: never shown, except once when it was made. Empty in listings.
        issued: aware UTC.
    """

    user: str
    access_key_id: str
    secret: str = field(repr=False)
    issued: datetime

    def encode(self, sealed: bytes) -> bytes:
        """The stored bytes; `sealed` is the encrypted secret."""
        return auth_pb2.CredentialData(
            access_key_id=self.access_key_id,
            secret_access_key_encrypted_bytes=sealed,
            issued_date=_stamp(self.issued),
            user_id=self.user.encode(),
        ).SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes) -> tuple[Credential, bytes]:
        """Read stored bytes: the credential without its secret, and the encrypted secret."""
        message = _parse(auth_pb2.CredentialData(), data)
        found = cls(message.user_id.decode(), message.access_key_id, "", _moment(message.issued_date))
        return found, message.secret_access_key_encrypted_bytes


def check_name(name: str, what: str) -> str:
    """Refuse a name that no user, group or policy can have.

    Raises:
        InvalidNameError: 400.
    """
    if "%" in name:
        raise InvalidNameError(f"{what} name cannot contain '%'")
    if _NAME.fullmatch(name) is None:
        raise InvalidNameError
    return name


def check_key_id(key_id: str) -> str:
    """Refuse an access key id that cannot be a key of the store.

    Raises:
        InvalidNameError: 400.
    """
    if _KEY_ID.fullmatch(key_id) is None:
        raise InvalidNameError("invalid access key ID")
    return key_id


def user_key(user: str) -> bytes:
    """Where a user is; with "" the prefix of all."""
    return f"users/{user}".encode()


def group_key(group: str) -> bytes:
    """Where a group is; with "" the prefix of all."""
    return f"groups/{group}".encode()


def policy_key(policy: str) -> bytes:
    """Where a policy is; with "" the prefix of all."""
    return f"policies/{policy}".encode()


def credential_key(user: str, access_key_id: str = "") -> bytes:
    """Where a user's credential is; without an id the prefix of all the user's."""
    return f"uCredentials/{user}/credentials/{access_key_id}".encode()


def membership_key(group: str, user: str = "") -> bytes:
    """Where it stands that a user is in a group; without a user the prefix of the group's."""
    return f"gUsers/{group}/users/{user}".encode()


def user_policy_key(user: str, policy: str = "") -> bytes:
    """Where it stands that a user has a policy; without a policy the prefix of the user's."""
    return f"uPolicies/{user}/policies/{policy}".encode()


def group_policy_key(group: str, policy: str = "") -> bytes:
    """Where it stands that a group has a policy; without a policy the prefix of the group's."""
    return f"gPolicies/{group}/policies/{policy}".encode()


def encode_index(primary: bytes) -> bytes:
    """A secondary index entry that leads to a primary key."""
    return graveler_pb2.SecondaryIndex(primary_key=primary).SerializeToString(deterministic=True)


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment.astimezone(UTC))
    return stamp


def _moment(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(tzinfo=UTC)


def _parse[M: (auth_pb2.UserData, auth_pb2.GroupData, auth_pb2.PolicyData, auth_pb2.CredentialData)](
    message: M, data: bytes
) -> M:
    try:
        message.ParseFromString(data)
    except DecodeError as problem:
        raise FormatError(f"a record of the partition auth is damaged: {problem}") from None
    return message
