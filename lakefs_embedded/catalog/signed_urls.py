"""Pre-signed URLs: clients read and write objects in the store directly; only the store checks the URL.

A URL gives access to one object until it expires, even after its user has lost all permissions.

Source: lakeFS pkg/block/s3/adapter.go (GetPreSignedURL), pkg/api/controller.go (behaviour only).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectWriter
from dredge.storage.model import UrlSigner
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
        signer, expires = self._signer(repository, self._namespaces.of(repository).objects)
        return SignedUrl(signer.presign_put(key, int(URL_LIFE.total_seconds())), expires)

    def _read(self, repository: Repository, objects: ObjectWriter, key: str, filename: str) -> SignedUrl:
        signer, expires = self._signer(repository, objects)
        return SignedUrl(signer.presign_get(key, int(URL_LIFE.total_seconds()), filename), expires)

    def _signer(self, repository: Repository, objects: ObjectWriter) -> tuple[UrlSigner, datetime]:
        if self._settings.presign and isinstance(objects, UrlSigner):
            return objects, self._clock() + URL_LIFE
        if repository.storage_namespace.startswith(("local:", "file:")):
            raise PresignUnsupportedError("local adapter presigned URL: operation not supported")
        raise PresignUnsupportedError
