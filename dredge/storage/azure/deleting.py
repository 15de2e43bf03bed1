"""Deletes blobs from Azure: 256 blobs per request, several requests at once, one outcome per blob.

A batch has a request for each blob in its body. The answers have Content-IDs; the SDK relies on their order, which the
service does not promise.

Source: Blob service REST API, Blob Batch.

A copy is one request up to 256 MiB, else block by block; both appear whole or not at all. The asynchronous Copy Blob
has no limit, but shows an incomplete target, and leaves an empty one after a failure.

There are no delete markers: a deleted blob becomes a version that is not current. For undo as on S3, a name without a
current version has a marker here, named after its newest version. Removing it copies that version back, if the name is
free; the copy has a new tag. Deleting the version removes it too. The time of a deletion is unknown, so a marker has
the time of its version.

Only the management API, and the answer to Put Blob (with a version id), show whether an account keeps versions.
Deleted versions are kept and paid for until the days of soft delete end; no call ends them earlier.

Source: Azure's documentation, "Blob versioning", "Soft delete for blobs"; REST API, Put Blob, Delete Blob, List
Blobs,
Copy Blob From URL, Put Block From URL, Get Blob Service Properties.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any, ClassVar

from msgspec.structs import replace

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError
from dredge.storage import deleting
from dredge.storage.azure.clients import (
    FOLDER_MARK,
    THROTTLED,
    TRANSIENT,
    code_of,
    container_client,
    service_client,
    source_access,
    translate,
    translated,
)
from dredge.storage.keys import is_exact
from dredge.storage.location import Location, container_of, parse_uri
from dredge.storage.model import DeleteOutcome, MaySend, ObjectInfo
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import ordered_map
from dredge.storage.remote import MARKER, BaseCopier, MarkerDeleter, Place
from dredge.storage.undo import NULL_VERSION, ObjectVersion, Versioning, VersionReader, check_source

COPY_LIMIT_BYTES = 256 << 20
BLOCK_BYTES = 100 << 20
_BLOCKS_AT_ONCE = 8
_ACCESS_SECONDS = 3600


class AzureCopier(BaseCopier):
    """See `dredge.storage.undo.ObjectCopier`; source and target are folders of one account."""

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        return self.copy_to(key, key, if_absent, size, etag)

    def copy_version(self, key: str, version: str) -> ObjectInfo:
        """Copy a version to its key, which must be free; see `ObjectCopier.copy`."""
        return self.copy_to(key, key, if_absent=True, version=version)

    def copy_to(
        self,
        key: str,
        target: str,
        if_absent: bool = False,
        size: int | None = None,
        etag: str | None = None,
        version: str = "",
    ) -> ObjectInfo:
        """Copy an object to another key; see `ObjectCopier.copy`. `version` is that of the source, "" for the
        current one."""
        source = self._look(self._source, key, version)
        check_source(key, source.size, source.etag.strip('"'), size, etag)
        name = _name(self._target, target)
        if not is_exact(name):
            raise NotFoundError(f"{target!r} cannot be addressed exactly in {self._target.uri}")
        client = container_client(self._options, self._target.bucket).get_blob_client(name)
        with translated(f"copying {key!r} from {self._source.uri} to {self._target.uri}"):
            send = self._send_whole if source.size <= COPY_LIMIT_BYTES else self._send_blocks
            self._tell_conflicts(lambda: send(client, key, version, source, if_absent), key, if_absent)
        copied = self._look(self._target, target)
        _compare(key, source, copied)
        return ObjectInfo(target, copied.size, copied.last_modified, copied.etag.strip('"'))

    def _tell_conflicts(self, send: Callable[[], None], key: str, if_absent: bool) -> None:
        # The service's answers for an existing target and for a changed source are similar.
        from azure.core.exceptions import HttpResponseError

        try:
            send()
        except HttpResponseError as error:
            if error.status_code not in (409, 412):
                raise
            code = code_of(error)
            if if_absent and code in {"BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet"}:
                raise ConflictError(
                    f"{key!r} exists already in {self._target.uri}; nothing was written"
                ) from None
            if code in {"SourceConditionNotMet", "ConditionNotMet", "CannotVerifyCopySource"}:
                raise FormatError(f"{key!r} changed since it was looked up; nothing was copied") from None
            raise

    def _look(self, location: Location, key: str, version: str = "") -> Any:
        name = _name(location, key)
        if not key or not is_exact(name):
            raise NotFoundError(f"{key!r} cannot be addressed exactly in {location.uri}")
        with translated(f"stat of {key!r} in {location.uri}"):
            client = container_client(self._options, location.bucket).get_blob_client(name)
            found: Any = client.get_blob_properties(version_id=version or None)
        marks = {name.lower(): value for name, value in (found.metadata or {}).items()}
        if marks.get(FOLDER_MARK) == "true" and not found.size:
            raise NotFoundError(f"{key!r} is a directory, not an object")
        return found

    def _send_whole(self, client: Any, key: str, version: str, source: Any, if_absent: bool) -> None:
        url, access = self._access(key, version)
        client.start_copy_from_url(
            url,
            requires_sync=True,
            **access,
            **_kept_tier(source),
            **_from(source),
            **only_if_absent(if_absent),
        )

    def _access(self, key: str, version: str) -> tuple[str, dict[str, str]]:
        name = _name(self._source, key)
        return source_access(self._options, self._source.bucket, name, _ACCESS_SECONDS, version)

    def _send_blocks(self, client: Any, key: str, version: str, source: Any, if_absent: bool) -> None:
        from azure.storage.blob import BlobBlock

        upload_id = new_upload_id()

        def send(number: int) -> str:
            start = (number - 1) * BLOCK_BYTES
            url, access = self._access(key, version)
            name = block_id(upload_id, number)
            length = min(BLOCK_BYTES, source.size - start)
            client.stage_block_from_url(
                name, url, source_offset=start, source_length=length, **access, **_from_block(source)
            )
            return name

        count = -(-source.size // BLOCK_BYTES)
        names = list(ordered_map(send, range(1, count + 1), _BLOCKS_AT_ONCE))
        client.commit_block_list(
            [BlobBlock(block_id=name) for name in names],
            content_settings=source.content_settings,
            metadata=source.metadata,
            **_kept_tier(source),
            **only_if_absent(if_absent),
        )


def _from(source: Any) -> dict[str, Any]:
    # The object that was looked up, not a later one.
    from azure.core import MatchConditions

    return {"source_etag": source.etag, "source_match_condition": MatchConditions.IfNotModified}


def _from_block(source: Any) -> dict[str, Any]:
    # The SDK's call for a block has no such argument.
    return {"headers": {"x-ms-source-if-match": source.etag}}


def block_id(upload_id: str, number: int) -> str:
    """Id of a block; all ids of a blob have one length."""
    return f"{upload_id}{number:05d}"


def new_upload_id() -> str:
    """Id of an upload."""
    return secrets.token_hex(8)


def only_if_absent(wanted: bool) -> dict[str, Any]:
    """Arguments of the SDK for a write to a free name."""
    from azure.core import MatchConditions

    return {"match_condition": MatchConditions.IfMissing} if wanted else {}


def _kept_tier(source: Any) -> dict[str, Any]:
    # Only a tier of the blob itself, not of the account.
    from azure.storage.blob import StandardBlobTier

    if not source.blob_tier or source.blob_tier_inferred:
        return {}
    return {"standard_blob_tier": StandardBlobTier(str(source.blob_tier))}


def _name(location: Location, key: str) -> str:
    return f"{location.root}/{key}" if location.root else key


def _compare(key: str, source: Any, copied: Any) -> None:
    """Compare sizes, and hashes if both have one; raises FormatError."""
    if source.size != copied.size:
        raise FormatError(f"the copy of {key!r} has another size than its source")
    hashes = [bytes(found.content_settings.content_md5 or b"") for found in (source, copied)]
    if all(hashes) and hashes[0] != hashes[1]:
        raise FormatError(f"the copy of {key!r} has another MD5 than its source")


PROBE = ".dredge-versioning"


def copier_inside(source: Location, target: Location, options: StorageOptions) -> AzureCopier | None:
    """A copier between folders of one account; None for two accounts."""
    same = container_of(source.bucket).endpoint == container_of(target.bucket).endpoint
    return AzureCopier(source, target, options) if same else None


class AzureVersions(Place, VersionReader):
    """See `dredge.storage.undo.VersionReader`."""

    def versioning(self, probe_uri: str = "") -> Versioning:
        """See `VersionReader.versioning`; a small blob in the given folder shows it."""
        if not probe_uri:
            return "unknown"
        place = parse_uri(probe_uri, self._options)
        here, there = (container_of(item.bucket) for item in (self._location, place))
        if here.endpoint != there.endpoint:
            return "unknown"
        name = f"{place.root}/{PROBE}" if place.root else PROBE
        try:
            with translated(f"asking whether {here.account} keeps versions"):
                client: Any = container_client(self._options, place.bucket).get_blob_client(name)
                answer = client.upload_blob(
                    b"The answer to this tells whether versions are kept.\n", overwrite=True
                )
        except ConfigError as error:
            if "no such container" in str(error):
                raise
            return "unknown"
        return "enabled" if answer.get("version_id") else "off"

    def versions(self, key: str) -> list[ObjectVersion]:
        """See `VersionReader.versions`; a marker comes first if no version is current."""
        name = self._root + key
        if not key or not is_exact(name):
            return []
        with translated(f"listing versions of {key!r} in {self._location.uri}"):
            found = [_version(item) for item in self._of_name(name)]
        found.sort(key=lambda item: (item.is_latest, item.version_id), reverse=True)
        if sum(item.is_latest for item in found) > 1:
            raise FormatError(f"{key!r} in {self._location.uri} has two current versions, and is unchanged")
        if not found or found[0].is_latest:
            return found
        newest = found[0]
        marker = replace(newest, version_id=newest.version_id + MARKER, is_latest=True, is_marker=True)
        return [replace(marker, size=0, etag=None), *found]

    def brings_back_copies(self) -> bool:
        return True

    def kept_seconds(self) -> int | None:
        from azure.core.exceptions import AzureError

        try:
            with service_client(self._options, self._location.bucket) as service:
                found: Any = service.get_service_properties()["delete_retention_policy"]
        except AzureError:
            return None
        return int(found.days) * 86_400 if found.enabled and found.days else 0

    def _of_name(self, name: str) -> Iterator[Any]:
        # Longer names follow the exact one.
        client: Any = container_client(self._options, self._location.bucket)
        for item in client.list_blobs(name, include=["versions"]):
            if item.name != name:
                return
            yield item


class AzureMarkerDeleter(MarkerDeleter):
    """Restores the version below a deletion."""

    def _restore(self, key: str, version: str) -> None:
        AzureCopier(self._location, self._location, self._options).copy_version(key, version)


def _version(found: Any) -> ObjectVersion:
    # A blob older than versioning has no version id while it is current.
    if found.last_modified is None or found.etag is None:
        raise FormatError(f"the store gave no Last-Modified or ETag for a version of {found.name!r}")
    is_latest = bool(found.is_current_version) or not found.version_id
    return ObjectVersion(
        version_id=str(found.version_id or NULL_VERSION),
        is_latest=is_latest,
        is_marker=False,
        size=int(found.size),
        etag=str(found.etag).strip('"'),
        last_modified=found.last_modified.astimezone(UTC),
    )


BATCH_ATTEMPTS = 3
"""After this many errors of the service for a batch, each of its blobs gets its own request."""
_GONE = frozenset({"BlobNotFound", "ResourceNotFound"})
_ID = re.compile(rb"^Content-ID:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"^HTTP/[\d.]+ (\d{3})", re.MULTILINE)
_CODE = re.compile(rb"^x-ms-error-code:\s*(\w+)\s*$|<Code>(\w+)</Code>", re.IGNORECASE | re.MULTILINE)
_NO_BATCH = "NoSuchBatch"
"""This endpoint refused a batch of these blobs."""
CODES = deleting.Codes(
    throttled=THROTTLED,
    transient=TRANSIENT,
    alone=TRANSIENT | {deleting.UNCLEAR},
    no_batches=frozenset({_NO_BATCH}),
    batch_attempts=BATCH_ATTEMPTS,
)


class _AzureBatches(deleting.Batches):
    BATCH_KEYS = 256
    CODES: ClassVar = CODES

    def _can_name(self, key: str) -> bool:
        return is_exact(self._root + key) and bool(key)

    def _send(self, items: list[deleting.Item], _may_send: MaySend) -> list[DeleteOutcome]:
        from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError

        client: Any = container_client(self._options, self._bucket, retries=False)
        try:
            return self._send_single(client, *items[0]) if len(items) == 1 else self._send_bulk(client, items)
        except HttpResponseError as error:
            code, status = code_of(error), error.status_code or 0
            words = str(translate(error, "delete"))
            if status == 404 and code not in _GONE:
                raise ConfigError(f"deleting in {self.uri}: {words}") from None
            if status in {429, 500, 502, 503, 504} and not CODES.may_pass(code):
                code = str(status)
            if len(items) > 1 and status not in {401, 403} and not CODES.may_pass(code):
                code = _NO_BATCH
            return deleting.all_failed(items, code, words)
        except AzureError as error:
            unsent = isinstance(error, ServiceRequestError)
            code = deleting.NOT_CONNECTED if unsent else deleting.CONNECTION_LOST
            return deleting.all_failed(items, code, str(translate(error, "delete")))

    def _send_single(self, client: Any, key: str, version: str) -> list[DeleteOutcome]:
        from azure.core.exceptions import ResourceNotFoundError

        try:
            client.delete_blob(self._root + key, **({"version_id": version} if version else {}))
        except ResourceNotFoundError as error:
            if code_of(error) not in _GONE:
                raise
            return [DeleteOutcome(key, "missing")]
        return [DeleteOutcome(key, "deleted")]

    def _send_bulk(self, client: Any, items: list[deleting.Item]) -> list[DeleteOutcome]:
        answers: list[Any] = []
        # The SDK raises for an answer that is not a batch; the bytes of the answer decide.
        with suppress(ValueError):
            client.delete_blobs(
                *(
                    {"name": self._root + key, "version_id": version} if version else self._root + key
                    for key, version in items
                ),
                raise_on_any_failure=False,
                raw_response_hook=lambda answer: answers.append(answer.http_response.body()),
            )
        return read_answers([key for key, _ in items], answers[-1] if answers else b"")


class AzureDeleter(_AzureBatches, deleting.BatchDeleter):
    """Deletes blobs below a prefix of a container."""


class AzureVersionDeleter(_AzureBatches, deleting.BatchVersionDeleter):
    """Deletes single versions; the service refuses current ones."""


def read_answers(keys: Sequence[str], body: bytes) -> list[DeleteOutcome]:
    """Outcome of each key by the answer to a batch; unclear without an answer, or with two. `keys`: in the order of the
    requests; the index is the Content-ID."""
    said: dict[int, DeleteOutcome] = {}
    boundary = body.lstrip().split(b"\r\n", 1)[0]
    for part in body.split(boundary) if boundary.startswith(b"--") else []:
        number, status = _ID.search(part), _STATUS.search(part)
        if number is None or status is None:
            continue
        place = int(number[1])
        if place in said or place >= len(keys):
            # An answer for an unknown key, or a second one: any of the keys may be meant.
            return deleting.all_failed(
                ((key, "") for key in keys), deleting.UNCLEAR, "the service answered about other requests"
            )
        said[place] = _outcome(keys[place], int(status[1]), _CODE.search(part))
    silent = "the service did not answer about this blob"
    return [
        said.get(place) or DeleteOutcome(key, "failed", deleting.UNCLEAR, silent)
        for place, key in enumerate(keys)
    ]


def _outcome(key: str, status: int, code: re.Match[bytes] | None) -> DeleteOutcome:
    name = ((code[1] or code[2]) if code else b"").decode()
    if status == 202:
        return DeleteOutcome(key, "deleted")
    if status == 404 and name in _GONE:
        return DeleteOutcome(key, "missing")
    if status >= 500 and not CODES.may_pass(name):
        name = str(status) if CODES.may_pass(str(status)) else "500"
    return DeleteOutcome(key, "failed", name or str(status), f"the service answered {status} {name}".rstrip())
