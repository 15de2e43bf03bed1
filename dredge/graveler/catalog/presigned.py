"""API calls for objects whose parts a client writes to the object store itself, with presigned URLs.

The object's address is handed out and finally linked as for any direct upload (see `addresses`): with the same
signature, the same maximum age and, in profile `design`, the same single use. No other state is kept.

Source: lakeFS pkg/api/controller.go (CreatePresignMultipartUpload and its companions; behaviour only).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dredge.errors import NotFoundError
from dredge.graveler.catalog.addresses import AddressService
from dredge.graveler.catalog.entries import address_to_keep
from dredge.graveler.catalog.model import Clock, Namespaces, Refs
from dredge.graveler.catalog.multiparts import UploadNotFoundError
from dredge.graveler.catalog.reading import ReadingService
from dredge.graveler.catalog.results import ObjectStats
from dredge.graveler.catalog.settings import Settings
from dredge.graveler.catalog.signing import verify_address
from dredge.graveler.committed import AddressType
from dredge.graveler.errors import (
    DataNotFoundError,
    InvalidValueError,
    LinkAddressError,
    UnsupportedError,
    described,
)
from dredge.graveler.refs.names import check_path
from dredge.graveler.refs.records import Repository
from dredge.storage.uploads import (
    PART_NUMBER_MAX,
    PartSigner,
    UploadRefusedError,
    Uploads,
    check_part_number,
    open_uploads,
)

URL_SECONDS = 15 * 60


@dataclass(frozen=True, slots=True)
class PresignedUpload:
    """An upload that has begun.

    Args:
        upload_id: id given by the object store.
        physical_address: full URI, to be passed to every further call.
        urls: one per part, to PUT the part to.
    """

    upload_id: str
    physical_address: str
    urls: list[str]


class PresignedService:
    """Begins uploads in parts, signs the URLs of parts, completes and aborts.

    Args:
        refs: records.
        namespaces: where the parts are.
        addresses: hands out the object's address, and links it.
        reading: reads the sources of copied parts.
        clock: the time that addresses are compared with.
        settings: signing key, expiry, and whether URLs are signed at all.
    """

    def __init__(
        self,
        refs: Refs,
        namespaces: Namespaces,
        addresses: AddressService,
        reading: ReadingService,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._refs = refs
        self._namespaces = namespaces
        self._addresses = addresses
        self._reading = reading
        self._clock = clock
        self._settings = settings

    def create_presigned_multipart(
        self, repository: str, branch: str, path: str, *, parts: int = 0
    ) -> PresignedUpload:
        """Begin an upload.

        Args:
            repository: its name.
            branch: its name.
            path: path of the object to be.
            parts: number of URLs to sign.

        Raises:
            UnsupportedError: 501, the store cannot sign URLs, or the server does not offer it.
            InvalidValueError: 400, more parts than an upload can have.
        """
        found = self._refs.repositories.writable(repository)
        if not 0 <= parts <= PART_NUMBER_MAX:
            raise InvalidValueError(f"parts must be between 0 and {PART_NUMBER_MAX}: invalid value")
        check_path(path)
        self._refs.branches.current(found, branch)
        uploads, signer = self._signer(found)
        address = self._addresses.get_physical_address(repository, branch, path)
        key, _ = address_to_keep(found, address)
        upload_id = uploads.begin(key)
        urls = [signer.presign_part(key, upload_id, number, URL_SECONDS) for number in range(1, parts + 1)]
        return PresignedUpload(upload_id, address, urls)

    def presign_part(
        self, repository: str, branch: str, path: str, upload_id: str, number: int, *, physical_address: str
    ) -> str:
        """Sign the URL of one part.

        Raises:
            LinkAddressError: 400, not an address for this path.
            InvalidValueError: 400, no such part number.
        """
        found = self._refs.repositories.writable(repository)
        _, signer = self._signer(found)
        key = self._own_key(found, branch, path, physical_address)
        try:
            check_part_number(number)
        except UploadRefusedError as error:
            raise InvalidValueError(f"{error}: invalid value") from None
        return signer.presign_part(key, upload_id, number, URL_SECONDS)

    def copy_part(
        self,
        repository: str,
        branch: str,
        path: str,
        upload_id: str,
        number: int,
        *,
        physical_address: str,
        source: tuple[str, str, str],
        span: tuple[int, int] | None = None,
    ) -> str:
        """Make a part of the bytes of an object.

        Args:
            repository: its name.
            branch: its name.
            path: path of the object to be.
            upload_id: id of the upload.
            number: of the part.
            physical_address: address that was handed out.
            source: repository, ref and path of the object to copy from.
            span: first and last byte to copy; None copies all.

        Returns:
            The part's ETag.

        Raises:
            LinkAddressError: 400, not an address for this path.
            PathNotFoundError: 404, no such source.
            UploadNotFoundError: 404.
            InvalidValueError: 400, no such part number, or the span is not inside the source.
        """
        found = self._refs.repositories.writable(repository)
        uploads, _ = self._signer(found)
        key = self._own_key(found, branch, path, physical_address)
        with described("/".join(source)):
            content = self._reading.get_object(*source)
        start, last = span or (0, content.stats.size_bytes - 1)
        if last >= content.stats.size_bytes and span is not None:
            raise InvalidValueError("range is not inside the source object: invalid value")
        try:
            with content.stream(start, last + 1 - start) as chunks:
                return uploads.put_part(key, upload_id, number, chunks).etag
        except NotFoundError as error:
            if isinstance(error, DataNotFoundError):
                raise
            raise UploadNotFoundError from None
        except UploadRefusedError as error:
            raise InvalidValueError(f"{error}: invalid value") from None

    def complete_presigned_multipart(
        self,
        repository: str,
        branch: str,
        path: str,
        upload_id: str,
        parts: Sequence[tuple[int, str]],
        *,
        physical_address: str,
        metadata: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> ObjectStats:
        """Put the parts together and link the object.

        Args:
            repository: its name.
            branch: its name.
            path: path of the object.
            upload_id: id of the upload.
            parts: number and ETag of each part, ascending.
            physical_address: address that was handed out.
            metadata: user metadata.
            content_type: stored in the entry.

        Raises:
            LinkAddressError: 400, not an address for this path, or expired.
            UploadNotFoundError: 404.
            InvalidValueError: 400, the parts do not match those uploaded.
        """
        found = self._refs.repositories.writable(repository)
        uploads, _ = self._signer(found)
        self._refs.protection.require_writable(found, branch)
        self._refs.branches.current(found, branch)
        key = self._own_key(found, branch, path, physical_address)
        try:
            done = uploads.complete(key, upload_id, parts)
        except NotFoundError:
            raise UploadNotFoundError from None
        except UploadRefusedError as error:
            raise InvalidValueError(f"{error}: invalid value") from None
        return self._addresses.link_physical_address(
            repository,
            branch,
            path,
            physical_address=physical_address,
            checksum=done.etag,
            size_bytes=done.info.size,
            mtime=done.info.last_modified,
            metadata=metadata,
            content_type=content_type,
        )

    def abort_presigned_multipart(
        self, repository: str, branch: str, path: str, upload_id: str, *, physical_address: str
    ) -> None:
        """Give an upload up, with all its parts.

        Raises:
            LinkAddressError: 400, not an address for this path.
            UploadNotFoundError: 404.
        """
        found = self._refs.repositories.writable(repository)
        uploads, _ = self._signer(found)
        key = self._own_key(found, branch, path, physical_address)
        try:
            uploads.abort(key, upload_id)
        except NotFoundError:
            raise UploadNotFoundError from None

    def _signer(self, found: Repository) -> tuple[Uploads, PartSigner]:
        uploads = open_uploads(self._namespaces.of(found).objects)
        if not self._settings.presign_multipart or not isinstance(uploads, PartSigner):
            raise UnsupportedError("presign multipart upload API is not supported")
        return uploads, uploads

    def _own_key(self, found: Repository, branch: str, path: str, physical_address: str) -> str:
        """The key of an address that was handed out for a path; refuses any other address."""
        check_path(path)
        key, address_type = address_to_keep(found, physical_address)
        if address_type != AddressType.RELATIVE:
            raise LinkAddressError
        verify_address(
            self._settings.signing_key,
            found.name,
            branch,
            path,
            key,
            now=self._clock(),
            expiry=self._settings.link_expiry,
        )
        return key
