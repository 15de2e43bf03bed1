"""Pre-signed URLs: clients read and write objects in the store directly; only the store checks the URL.

A URL gives access to one object until it expires, even after its user has lost all permissions.

Source: lakeFS pkg/block/s3/adapter.go (GetPreSignedURL), pkg/api/controller.go (behaviour only).
"""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import quote

from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from dredge.storage.location import parse_uri
from lakefs_embedded.catalog.model import Clock, Namespaces
from lakefs_embedded.catalog.object_bytes import ObjectBytes
from lakefs_embedded.catalog.results import SignedUrl
from lakefs_embedded.catalog.settings import Settings
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import BadRequestError

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
