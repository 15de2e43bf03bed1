"""The versions that an account keeps, each with an id of its own that never names anything else.

There are no delete markers: what is deleted becomes a version that is not the current one. So that a deletion can be
spoken of and taken back as on S3, a name without a current version has a marker here, named after the newest version:
it is "taken away" by copying that version back, under the condition that the name is still free, and goes by itself
with the version. The copy is a version of its own, with a tag of its own. When a name was deleted the service does not
tell; a marker is as old as the version below it, or younger.

Whether an account keeps versions is told by the management API, and to whoever writes: the answer to Put Blob has the
id of the version that it made. Versions that are deleted for good stay, and are paid for, until the days of soft delete
are over; no call of Dredge's can end that time.

Source: Azure's documentation, "Blob versioning", "Soft delete for blobs"; REST API, Put Blob, Delete Blob, List Blobs,
Copy Blob From URL, Get Blob Service Properties.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

from dredge.errors import ConfigError, ConflictError, DredgeError, FormatError, NotFoundError
from dredge.storage.azure.clients import container_client, service_client
from dredge.storage.azure.copying import AzureCopier
from dredge.storage.azure.deleting import CODES, AzureDeleter, Deletion, send_deletions
from dredge.storage.azure.errors import translated
from dredge.storage.azure.names import is_exact
from dredge.storage.azure.uris import container_of
from dredge.storage.deleting import DeleteLoop
from dredge.storage.location import Location, parse_uri
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, always
from dredge.storage.options import StorageOptions
from dredge.storage.rate import AdaptiveRate
from dredge.storage.undo import NULL_VERSION, ObjectVersion, Versioning

PROBE = ".dredge-versioning"
_MARKER = "-deleted"


class AzureVersions:
    """See `dredge.storage.undo.VersionReader`, `KeepsDeletedBytes` and `BringsBackCopies`."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options
        self._root = location.root + "/" if location.root else ""

    def versioning(self, probe_uri: str = "") -> Versioning:
        """Whether the account keeps what is deleted, told by what it answers to a small blob in a folder of our own."""
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
        """Every version of a key, the newest first, below a marker where none is current."""
        name = self._root + key
        if not key or not is_exact(name):
            return []
        with translated(f"listing versions of {key!r} in {self._location.uri}"):
            found = [_version(item) for item in self._of_name(name)]
        found.sort(key=lambda item: (item.is_latest, item.version_id), reverse=True)
        if sum(item.is_latest for item in found) > 1:
            raise FormatError(f"{key!r} in {self._location.uri} has two current versions; nothing was done")
        if not found or found[0].is_latest:
            return found
        newest = found[0]
        marker = replace(newest, version_id=newest.version_id + _MARKER, is_latest=True, is_marker=True)
        return [replace(marker, size=0, etag=None), *found]

    def brings_back_copies(self) -> bool:
        """A version comes back as a copy with a tag of its own."""
        return True

    def kept_seconds(self) -> int | None:
        """For how long soft delete keeps the bytes; None when the credentials may not ask."""
        from azure.core.exceptions import AzureError

        try:
            with service_client(self._options, self._location.bucket) as service:
                found: Any = service.get_service_properties()["delete_retention_policy"]
        except AzureError:
            return None
        return int(found.days) * 86_400 if found.enabled and found.days else 0

    def _of_name(self, name: str) -> Iterator[Any]:
        """What is listed of exactly this name; names that only begin like it come after it."""
        client: Any = container_client(self._options, self._location.bucket)
        for item in client.list_blobs(name, include=["versions"]):
            if item.name != name:
                return
            yield item


class AzureMarkerDeleter:
    """Takes away what stands for a deletion, by copying the version below it back; see `VersionDeleter`."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._copier = AzureCopier(location, location, options)

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Bring each object back, unless something has been written under its key since."""
        return [self._bring_back(key, version, may_send) for key, version in wanted]

    def _bring_back(self, key: str, marker: str, may_send: MaySend) -> DeleteOutcome:
        if not may_send():
            return DeleteOutcome(key, "failed", NOT_SENT)
        try:
            self._copier.copy_version(key, marker.removesuffix(_MARKER))
        except (NotFoundError, ConflictError):
            return DeleteOutcome(key, "missing")
        except DredgeError as error:
            return DeleteOutcome(key, "failed", error.kind, str(error))
        return DeleteOutcome(key, "deleted", version_id=marker)


class AzureVersionDeleter:
    """Deletes single versions; see `dredge.storage.undo.VersionDeleter`. The service refuses the current one."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options
        self._root = location.root + "/" if location.root else ""
        self._sleep = time.sleep

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete versions for good. A marker is no thing of its own: it goes with its version."""
        outcomes = {
            item: DeleteOutcome(item[0], "deleted", version_id=item[1])
            for item in wanted
            if item[1].endswith(_MARKER)
        }
        named = [item for item in dict.fromkeys(wanted) if item not in outcomes]
        exact = [item for item in named if item[0] and item[1] and is_exact(self._root + item[0])]
        outcomes |= {item: DeleteOutcome(item[0], "not_addressable") for item in set(named).difference(exact)}
        size = AzureDeleter.BATCH_KEYS
        batches = [exact[start : start + size] for start in range(0, len(exact), size)]
        loop = DeleteLoop[tuple[str, str]](self._send, CODES, _key_of, AdaptiveRate(), self._sleep)
        found = loop.delete(batches, may_send, self._options.delete_requests)
        outcomes |= {item: replace(told, version_id=item[1]) for item, told in found.items()}
        return [outcomes[item] for item in wanted]

    def _send(self, items: list[tuple[str, str]], _may_send: MaySend) -> list[DeleteOutcome]:
        wanted = [Deletion(key, self._root + key, version) for key, version in items]
        return send_deletions(self._options, self._location.bucket, wanted, self._location.uri)


def _key_of(item: tuple[str, str]) -> str:
    return item[0]


def _version(found: Any) -> ObjectVersion:
    """A row of a listing; what was written before versions were kept has no id as long as it is the current one."""
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
