"""A request for a handler of the gateway: signature verified, key parsed, permissions and user metadata at hand.

User metadata are headers `x-amz-meta-*`, stored in entries as lakeFS stores them:

    x-amz-meta-Colour: blue   ->   {"X-Amz-Meta-colour": "blue"}

Values that are not ASCII are accepted encoded (RFC 2047) or as UTF-8 bytes; responses encode them.

Source: lakeFS pkg/gateway/operations/operation_utils.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header
from urllib.parse import quote, unquote_to_bytes

from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.auth.permissions import object_arn
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.errors import ReadOnlyError
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.payload import Payload
from lakefs_embedded.gateway.sigv4 import RawRequest

XML_BODY_MAX = 4 << 20  # bytes: 1,000 keys of 1,024 bytes with every third character escaped


@dataclass(frozen=True, slots=True)
class Target:
    """The object of a URL, a copy source or the prefix of a listing.

    Attributes:
        ref: first part of the key: a branch, or any ref for reads.
        has_path: whether the key contains a slash: `main/` has an empty path, `main` has none.
    """

    repository: str
    ref: str = ""
    path: str = ""
    has_path: bool = False

    @classmethod
    def of_key(cls, repository: str, key: str) -> Target:
        """Split a key into ref and path."""
        ref, slash, path = key.partition("/")
        return cls(repository, ref, path, bool(slash))

    @classmethod
    def of_url(cls, encoded: bytes) -> Target:
        """Parse the path of a path-style URL, `/<repository>/<ref>/<path>`, without normalising it."""
        repository, _, key = percent_decoded(encoded).removeprefix("/").partition("/")
        return cls.of_key(repository, key)

    @property
    def arn(self) -> str:
        """ARN of the object; the branch is not part of it."""
        return object_arn(self.repository, self.path)


def percent_decoded(encoded: bytes) -> str:
    """Decode percent-encoding. Raises S3Error: not UTF-8."""
    try:
        return unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "The URI is not UTF-8.") from None


@dataclass(frozen=True, slots=True)
class S3Request:
    """One verified request.

    Attributes:
        query: decoded query parameters; the first value of a repeated one.
        base_url: `http://host`, with the Host header of the request.
    """

    catalog: Catalog
    raw: RawRequest
    target: Target
    query: Mapping[str, str]
    payload: Payload
    user: str
    accounts: Accounts
    base_url: str

    @property
    def repository(self) -> str:
        """Repository name in the URL."""
        return self.target.repository

    def header(self, name: str) -> str:
        """Return a header, decoded as UTF-8 if valid, otherwise as Latin-1; "" if it is missing."""
        text = self.raw.text(name)
        try:
            return text.encode("latin-1").decode()
        except UnicodeDecodeError:
            return text

    def require(self, action: str, resource: str) -> None:
        """Check a permission of the user. Raises S3Error: AccessDenied."""
        if not self.accounts.allows(self.user, action, resource):
            raise S3Error("AccessDenied")

    @property
    def follows_lakefs(self) -> bool:
        """Whether the gateway follows lakeFS instead of S3."""
        return self.catalog.settings.profile == "lakefs"

    def refuse_read_only(self) -> None:
        """Check that the repository may be written to, before any other check."""
        if self.catalog.repositories.get_repository(self.repository).read_only:
            raise ReadOnlyError

    def number(self, name: str, default: int, largest: int) -> int:
        """Return a non-negative integer of the query, at most `largest`. Raises S3Error: InvalidArgument."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdecimal()) or len(text) > 10:
            raise S3Error("InvalidArgument", f"Argument {name} must be an integer between 0 and 2147483647")
        return min(int(text), largest)

    def xml(self, *, checksums: bool = True) -> bytes:
        """Read and verify an XML body."""
        return self.payload.read(XML_BODY_MAX, checksums=checksums)

    def content(self) -> bytes | Iterator[bytes]:
        """Return the body of an upload: bytes if it is small, otherwise an iterator."""
        pieces = self.payload.open()
        length = self.raw.text("content-length")
        if length.isdecimal() and int(length) <= 64 << 10:
            return b"".join(pieces)
        return pieces

    def copy_source(self) -> Target | None:
        """Parse `x-amz-copy-source`, `[/]<repository>/<ref>/<path>`, percent-encoded; None without it."""
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


STORED_PREFIX = "X-Amz-Meta-"
BYTES_MAX = 2048  # names and values together
_PREFIX = b"x-amz-meta-"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_WORD_MAX = 75 - len("=?utf-8?q??=")
_ENCODED = re.compile(r"=\?[^?]+\?[bBqQ]\?[^?]*\?=")


def read_metadata(request: RawRequest) -> dict[str, str]:
    """Read the user metadata of an upload. Raises S3Error: more than 2 KB.

    Values of a repeated header are joined by commas.
    """
    found: dict[str, str] = {}
    size = 0
    for raw_name, raw_value in request.headers:
        if raw_name.startswith(_PREFIX):
            name = raw_name.removeprefix(_PREFIX).decode("latin-1").lower()
            value = _decode(raw_value)
            size += len(name) + len(value)
            if size > BYTES_MAX:
                raise S3Error("MetadataTooLarge")
            if _NAME.fullmatch(name):
                earlier = found.get(STORED_PREFIX + name)
                found[STORED_PREFIX + name] = value if earlier is None else f"{earlier},{value}"
    return found


def metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Build response headers; metadata not set through S3 is left out."""
    headers: dict[str, str] = {}
    missing = 0
    for key, value in metadata.items():
        name = key.removeprefix(STORED_PREFIX)
        if name == key:
            continue
        if _NAME.fullmatch(name):
            headers[f"x-amz-meta-{name.lower()}"] = _encode(value)
        else:
            missing += 1
    if missing:
        headers["x-amz-missing-meta"] = str(missing)
    return headers


def _decode(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    if not _ENCODED.search(text):
        return text.strip()
    try:
        parts = decode_header(text)
        return "".join(
            part if isinstance(part, str) else part.decode(charset or "utf-8") for part, charset in parts
        )
    except (HeaderParseError, UnicodeDecodeError, LookupError):
        raise S3Error("InvalidArgument", "Invalid header value.") from None


def _encode(value: str) -> str:
    if value.isascii() and (value.isprintable() or value.replace("\t", "").isprintable()):
        return value
    words, word = [], ""
    for char in value:
        encoded = _q_encoded(char)
        if len(word) + len(encoded) > _WORD_MAX:
            words.append(word)
            word = ""
        word += encoded
    return " ".join(f"=?utf-8?q?{each}?=" for each in (*words, word))


def _q_encoded(char: str) -> str:
    if char == " ":
        return "_"
    if "!" <= char <= "~" and char not in "=?_":
        return char
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
