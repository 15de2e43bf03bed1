"""Copies inside Google Cloud Storage, and the generations that a bucket keeps.

The service rewrites exactly one generation, in one or more steps. The copy keeps everything except storage class and
KMS key, unless the request names them; a request that names one property must name all.

There are no delete markers: a deleted object becomes a generation that is not current. For undo as on S3, a key
without a current generation has a marker here, named after its newest generation. Removing it copies that generation
back, if the key is free; deleting the generation removes it too. Soft delete is not used: see docs/stores/gcs.md.

Source: Cloud Storage JSON API, Objects: rewrite.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError
from dredge.storage.gcs.listing import FIELDS, Resource, info, pages, read_resource, tag
from dredge.storage.gcs.wire import (
    ask,
    bucket_url,
    is_name,
    object_url,
    segment,
)
from dredge.storage.location import Location
from dredge.storage.model import ObjectInfo
from dredge.storage.options import GcsOptions
from dredge.storage.remote import MARKER, BaseCopier, MarkerDeleter, Place
from dredge.storage.undo import ObjectVersion, Versioning, VersionReader, check_source

_KEPT = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "metadata",
    "storageClass",
)
_KEY_VERSION = re.compile(r"/cryptoKeyVersions/[^/]+$")

type Name = tuple[str, str]
"""Bucket and whole name of an object."""


class _Step(msgspec.Struct, rename="camel"):
    done: bool
    rewrite_token: str = ""
    resource: Resource | None = None


_step = msgspec.json.Decoder(_Step)


class GcsCopier(BaseCopier):
    """See `dredge.storage.undo.ObjectCopier`; source and target may be folders of two buckets."""

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """See `ObjectCopier.copy`; the answer to the last step describes the copy."""
        doing = f"copying {key!r} from {self._source.uri} to {self._target.uri}"
        origin, name = ((place.bucket, _name(place, key)) for place in (self._source, self._target))
        wanted = (size, etag) if size is not None or etag is not None else None
        return info(key, rewrite(self._options.gcs, origin, name, doing, if_absent=if_absent, wanted=wanted))


def _name(place: Location, key: str) -> str:
    root = f"{place.root}/" if place.root else ""
    if not is_name(root, key):
        raise NotFoundError(f"{key!r} cannot be the name of an object below {place.uri}")
    return root + key


def rewrite(
    options: GcsOptions,
    source: Name,
    target: Name,
    doing: str,
    *,
    generation: str = "",
    if_absent: bool = False,
    wanted: tuple[int | None, str | None] | None = None,
) -> Resource:
    """Copy one generation of an object, and compare the copy with it.

    Args:
        generation: of the source; "" is the current one.
        wanted: required size and tag of the source.
    """
    url = object_url(options, *source)
    told = ask(options, "GET", url, doing, params={"generation": generation} if generation else {})
    found = read_resource(told.body, doing)
    if wanted is not None:
        check_source(source[1], int(found.size), tag(found), *wanted)
    asked: dict[str, Any] = {"sourceGeneration": found.generation}
    if if_absent:
        asked["ifGenerationMatch"] = "0"
    about = json.loads(told.body)
    if about.get("kmsKeyName"):
        asked["destinationKmsKeyName"] = _KEY_VERSION.sub("", about["kmsKeyName"])
    body = json.dumps({name: about[name] for name in _KEPT if about.get(name)})
    copied = _steps(
        options, f"{url}/rewriteTo/b/{segment(target[0])}/o/{segment(target[1])}", doing, asked, body
    )
    _compare(doing, found, copied)
    return copied


def _steps(options: GcsOptions, url: str, doing: str, asked: dict[str, Any], body: str) -> Resource:
    # The token of each answer is for the next request.
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    while True:
        answer = _ask_step(options, url, doing, asked, body, headers)
        try:
            told = _step.decode(answer)
        except msgspec.MsgspecError as error:
            raise FormatError(f"{doing}: the answer is none to a rewrite: {error}") from None
        if told.done and told.resource is not None:
            return told.resource
        if not told.rewrite_token:
            raise FormatError(f"{doing}: the service is not done, and does not say how to go on")
        asked["rewriteToken"] = told.rewrite_token


def _ask_step(
    options: GcsOptions, url: str, doing: str, asked: dict[str, Any], body: str, headers: dict[str, str]
) -> bytes:
    try:
        return ask(options, "POST", url, doing, params=asked, data=body, headers=headers).body
    except ConflictError as error:
        raise ConflictError(f"{error}; nothing was written") from None
    except NotFoundError as error:
        if asked.get("rewriteToken"):
            raise FormatError(f"{error}: the source was deleted during the copy") from None
        raise


def _compare(doing: str, source: Resource, copied: Resource) -> None:
    for name in ("size", "crc32c", "md5_hash"):
        first, second = getattr(source, name), getattr(copied, name)
        if first is not None and second is not None and first != second:
            raise FormatError(f"{doing}: {name} of the copy is {second}, not {first}")


def marker_id(generation: str) -> str:
    """Id of the marker for a deletion."""
    return generation + MARKER


class GcsVersions(Place, VersionReader):
    """See `dredge.storage.undo.VersionReader`."""

    def versioning(self, probe_uri: str = "") -> Versioning:
        """See `VersionReader.versioning`; raises ConfigError for a missing bucket."""
        found = self._settings()
        if found is None:
            return "unknown"
        return "enabled" if (found.get("versioning") or {}).get("enabled") else "off"

    def kept_seconds(self) -> int | None:
        """See `VersionReader.kept_seconds`, by the bucket's soft delete policy."""
        found = self._settings()
        if found is None:
            return None
        return int((found.get("softDeletePolicy") or {}).get("retentionDurationSeconds") or 0)

    def versions(self, key: str) -> list[ObjectVersion]:
        """See `VersionReader.versions`; a marker comes first if no generation is current."""
        if not is_name(self._root, key):
            return []
        name, found = self._root + key, list[Resource]()
        fields = f"{FIELDS},timeDeleted"
        for page in pages(self._options.gcs, self._bucket, name, fields, versions="true"):
            own = [item for item in page.items if item.name == name]
            found += own
            if len(own) < len(page.items):
                break  # names that only begin like this one come after it
        found.sort(key=lambda item: int(item.generation), reverse=True)
        versions = [_version(item) for item in found]
        if not found or versions[0].is_latest:
            return versions
        newest = found[0]
        deleted = datetime.fromisoformat(newest.time_deleted or newest.updated).astimezone(UTC)
        marker = ObjectVersion(
            version_id=marker_id(newest.generation),
            is_latest=True,
            is_marker=True,
            size=0,
            etag=None,
            last_modified=deleted,
        )
        return [marker, *versions]

    def _settings(self) -> dict[str, Any] | None:
        doing = f"asking about the bucket of {self._location.uri}"
        url = bucket_url(self._options.gcs, self._bucket)
        asked = {"fields": "versioning,softDeletePolicy"}
        answer = ask(self._options.gcs, "GET", url, doing, (200, 401, 403, 404), params=asked)
        if answer.status == 404:
            raise ConfigError(f"{doing}: NoSuchBucket: it does not exist at this endpoint; check the URI")
        if answer.status != 200:
            return None
        try:
            found = json.loads(answer.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise FormatError(f"{doing}: the answer describes no bucket")
        return found


class GcsMarkerDeleter(MarkerDeleter):
    """Restores the generation below a deletion."""

    def _restore(self, key: str, version: str) -> None:
        name = (self._bucket, self._root + key)
        doing = f"restoring {key!r} in {self.uri}"
        rewrite(self._options.gcs, name, name, doing, generation=version, if_absent=True)


def _version(found: Resource) -> ObjectVersion:
    about = info(found.name, found)
    return ObjectVersion(
        version_id=found.generation,
        is_latest=found.time_deleted is None,
        is_marker=False,
        size=about.size,
        etag=about.etag,
        last_modified=about.last_modified,
    )
