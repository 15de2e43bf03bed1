"""A request as a handler of the gateway sees it: signature verified, names taken apart, rights asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, unquote_to_bytes

from dredge.gateway.failures import S3Error
from dredge.gateway.payload import Payload
from dredge.gateway.sigv4 import RawRequest
from dredge.graveler.catalog import Catalog

SMALL_XML = 4 << 20  # 1,000 keys of 1,024 bytes with every third character escaped


class Key(Protocol):
    """A key pair and whose it is."""

    @property
    def user(self) -> str:
        """Name of the user."""

    @property
    def secret(self) -> str:
        """What signatures are made with."""


class Gatekeeper(Protocol):
    """Who may use the server."""

    def identify(self, access_key_id: str) -> Key:
        """Find a key; raises any DredgeError when there is none."""

    def allows(self, user: str, action: str, resource: str) -> bool:
        """Whether a user may do an action (`fs:ReadObject`) on a resource (`arn:lakefs:fs:::repository/…`)."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL, a copy source or a listing's prefix names.

    Attributes:
        repository: the bucket.
        ref: first part of the key: a branch, or any ref for reading.
        path: the rest of the key, raw.
        whole: whether there is a path at all: `main/` has an empty one, `main` none.
    """

    repository: str
    ref: str = ""
    path: str = ""
    whole: bool = False

    @classmethod
    def of_key(cls, repository: str, key: str) -> Target:
        """Take a key apart."""
        ref, slash, path = key.partition("/")
        return cls(repository, ref, path, bool(slash))

    @classmethod
    def of_url(cls, encoded: bytes) -> Target:
        """Take a path-style URL apart: `/<repository>/<ref>/<path>`, nothing of it normalised.

        Raises:
            S3Error: it is not UTF-8.
        """
        repository, _, key = decoded(encoded).removeprefix("/").partition("/")
        return cls.of_key(repository, key)

    @property
    def arn(self) -> str:
        """The object as policies name it: without its branch."""
        return f"{repository_arn(self.repository)}/object/{self.path}"


def repository_arn(repository: str) -> str:
    """A repository as policies name it."""
    return f"arn:lakefs:fs:::repository/{repository}"


def decoded(encoded: bytes) -> str:
    """Undo percent-encoding.

    Raises:
        S3Error: the bytes are not UTF-8.
    """
    try:
        return unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "The URI is not UTF-8.") from None


@dataclass(frozen=True, slots=True)
class S3Request:
    """One verified request.

    Attributes:
        catalog: to ask.
        raw: headers and all.
        target: what the URL names.
        query: parameters, decoded; of several with one name, the first.
        payload: the body.
        user: who signed.
        gatekeeper: knows what the user may do.
        base_url: `http://host` as the client spelled it.
    """

    catalog: Catalog
    raw: RawRequest
    target: Target
    query: Mapping[str, str]
    payload: Payload
    user: str
    gatekeeper: Gatekeeper
    base_url: str

    @property
    def repository(self) -> str:
        """Name of the repository in the URL."""
        return self.target.repository

    def header(self, name: str) -> str:
        """A header, "" when it is not there; bytes that are UTF-8 are read so."""
        text = self.raw.text(name)
        try:
            return text.encode("latin-1").decode()
        except UnicodeDecodeError:
            return text

    def require(self, action: str, resource: str) -> None:
        """Ask for a right.

        Raises:
            S3Error: AccessDenied.
        """
        if not self.gatekeeper.allows(self.user, action, resource):
            raise S3Error("AccessDenied")

    def number(self, name: str, default: int, largest: int) -> int:
        """A number of the query; larger ones count as the largest.

        Raises:
            S3Error: InvalidArgument.
        """
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdecimal()) or len(text) > 10:
            raise S3Error("InvalidArgument", f"Argument {name} must be an integer between 0 and 2147483647")
        return min(int(text), largest)

    def xml(self, *, checksums: bool = True) -> bytes:
        """The body of a request that takes XML, compared with its signature."""
        return self.payload.read(SMALL_XML, checksums=checksums)

    def content(self) -> bytes | Iterator[bytes]:
        """The body of an upload: small ones whole, larger ones in pieces."""
        pieces = self.payload.open()
        length = self.raw.text("content-length")
        if length.isdecimal() and int(length) <= 64 << 10:
            return b"".join(pieces)
        return pieces

    def copy_source(self) -> Target | None:
        """What `x-amz-copy-source` names: `[/]<repository>/<ref>/<path>`, encoded; None without the header.

        Raises:
            S3Error: InvalidArgument.
        """
        header = self.raw.text("x-amz-copy-source")
        if not header:
            return None
        name, _, version = header.partition("?versionId=")
        if version not in ("", "null"):
            raise S3Error("NotImplemented", "Objects have no versions here; name a commit instead.")
        source = Target.of_url(name.encode("latin-1"))
        if not (source.repository and source.ref and source.path):
            raise S3Error(
                "InvalidArgument",
                "Copy Source must mention the source bucket and key: sourcebucket/sourcekey.",
            )
        return source


def url_encoded(text: str) -> str:
    """Encode a key for `encoding-type=url`."""
    return quote(text, safe="/-_.~*", errors="surrogateescape")
