"""Signatures on handed-out addresses, and pre-signed URLs.

    data/<slice>/<xid>,<signature>        the signed text is the object's key, comma and all

    signature = HMAC-SHA256(secret, JSON of repository, branch, path and the address before the comma),
                URL-safe base64 without padding, 43 characters

Nothing is stored: the signature proves the path, and the xid the time. By a pre-signed URL clients read and write
objects in the store directly; only the store checks it. It gives access to one object until it expires, even after its
user has lost all permissions.

Source: lakeFS pkg/catalog/catalog.go (VerifyLinkAddress), pkg/block/s3/adapter.go (GetPreSignedURL),
pkg/api/controller.go (behaviour only).
"""

import base64
import hashlib
import hmac
import json
import re
from datetime import datetime, timedelta
from urllib.parse import quote

from dredge.errors import FormatError
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from dredge.storage.location import parse_uri
from dredge.xid import ascending_time
from lakefs_embedded.catalog.entries import ObjectBytes
from lakefs_embedded.catalog.model import Clock, Namespaces, Settings
from lakefs_embedded.catalog.results import SignedUrl
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import BadRequestError, LinkAddressError

_SEPARATOR = ","
# Characters that Go's encoder escapes and Python's does not.
_GO_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def sign_address(secret: str, repository: str, branch: str, path: str, address: str) -> str:
    """Sign a new relative address, `data/<slice>/<xid>`, for one path. Returns the key to write to."""
    return f"{address}{_SEPARATOR}{_signature(secret, repository, branch, path, address)}"


def verify_address(
    secret: str, repository: str, branch: str, path: str, signed: str, *, now: datetime, expiry: timedelta
) -> None:
    """Refuse an address with a wrong signature, or older than `expiry`."""
    address, separator, signature = signed.partition(_SEPARATOR)
    if not separator:
        raise LinkAddressError("address is not signed: link address invalid")
    expected = _signature(secret, repository, branch, path, address)
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogateescape")):
        raise LinkAddressError("invalid address signature: invalid address")
    try:
        handed_out = handed_out_at(signed)
    except FormatError:
        raise LinkAddressError("malformed address: link address invalid") from None
    if now - handed_out > expiry:
        raise LinkAddressError("link address expired")


def handed_out_at(signed: str) -> datetime:
    """The creation time of an address, to the second. Raises FormatError if it has no xid."""
    return ascending_time(signed.partition(_SEPARATOR)[0].rpartition("/")[2])


def _signature(secret: str, repository: str, branch: str, path: str, address: str) -> str:
    members = {"Repository": repository, "Branch": branch, "Path": path, "PhysicalAddress": address}
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)
    digest = hmac.new(secret.encode(), text.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


URL_LIFE = timedelta(minutes=15)


class PresignUnsupportedError(BadRequestError):
    """The repository's store cannot sign URLs, or `presign` is off."""

    default = "operation not supported"


class SignedUrls:
    """Signs URLs of objects."""

    def __init__(
        self, namespaces: Namespaces, object_bytes: ObjectBytes, clock: Clock, settings: Settings
    ) -> None:
        self._namespaces = namespaces
        self._bytes = object_bytes
        self._clock = clock
        self._settings = settings

    def read_entry(self, repository: Repository, path: str, entry: Entry) -> SignedUrl:
        """Sign a URL to read an entry's bytes; browsers save them under the last name of the path."""
        objects, key = self._bytes.locate(repository, entry)
        return self._read(repository, objects, key, path.rpartition("/")[2])

    def read_key(self, repository: Repository, key: str, filename: str = "") -> SignedUrl:
        """Sign a URL to read an object of the repository's namespace."""
        return self._read(repository, self._namespaces.of(repository).objects, key, filename)

    def write_key(self, repository: Repository, key: str) -> SignedUrl:
        """Sign a URL to write an object of the repository's namespace."""
        return self._sign(repository, self._namespaces.of(repository).objects, key, writes=True)

    def _read(self, repository: Repository, objects: ObjectWriter, key: str, filename: str) -> SignedUrl:
        return self._sign(repository, objects, key, _attachment(filename) if filename else "")

    def _sign(
        self,
        repository: Repository,
        objects: ObjectWriter,
        key: str,
        disposition: str = "",
        writes: bool = False,
    ) -> SignedUrl:
        if self._settings.presign:
            url = sign_url(objects, key, int(URL_LIFE.total_seconds()), disposition, writes)
            if url is not None:
                return SignedUrl(url, self._clock() + URL_LIFE)
        if repository.storage_namespace.startswith(("local:", "file:")):
            raise PresignUnsupportedError("local adapter presigned URL: operation not supported")
        raise PresignUnsupportedError


def sign_url(
    objects: ObjectWriter, key: str, seconds: int, disposition: str = "", writes: bool = False
) -> str | None:
    """Sign the URL of an object on S3 or Azure, without a request; None for other stores. On Azure a client that writes
    also sends the header `x-ms-blob-type: BlockBlob`.
    """
    options = getattr(objects, "options", None)
    if options is None:
        return None
    place = parse_uri(objects.uri, options)
    name = f"{place.root}/{key}" if place.root else key
    if place.driver == "s3":
        from dredge.storage.s3.access import signing_client

        target = {"Bucket": place.bucket, "Key": name}
        target |= {"ResponseContentDisposition": disposition} if disposition else {}
        call = "put_object" if writes else "get_object"
        return signing_client(options, place.bucket).generate_presigned_url(call, target, ExpiresIn=seconds)
    if place.driver == "azure":
        from dredge.storage.azure.clients import signed_url

        return signed_url(options, place.bucket, name, seconds, "racw" if writes else "r", disposition)
    return None


def _attachment(filename: str) -> str:
    """A Content-Disposition with a file name (RFC 6266)."""
    if re.fullmatch(r"[A-Za-z0-9!#$&+.^_`|~-]+", filename):
        return f"attachment; filename={filename}"
    if filename.isascii() and filename.isprintable():
        escaped = filename.replace("\\", "\\\\").replace('"', '\\"')
        return f'attachment; filename="{escaped}"'
    return "attachment; filename*=utf-8''" + quote(filename, safe="", errors="replace")
