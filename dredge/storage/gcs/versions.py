"""The versions that a bucket keeps: generations, each with a number of its own that never names anything else.

There are no delete markers: what is deleted becomes a generation that is not current. So that a deletion can be spoken
of and taken back as on S3, a key without a current generation has a marker here, named after the newest generation: it
is "taken away" by copying that generation back, under the condition that the key is still free, and goes by itself with
the generation. What a bucket keeps by its soft delete policy is none of this: see docs/stores/gcs.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dredge.errors import ConfigError, ConflictError, DredgeError, FormatError, NotFoundError
from dredge.storage.gcs.batches import BATCH_PARTS, Part, PartAnswer, send_batch
from dredge.storage.gcs.copying import rewrite
from dredge.storage.gcs.errors import reason
from dredge.storage.gcs.listing import pages
from dredge.storage.gcs.names import Place
from dredge.storage.gcs.resources import FIELDS, Resource, info
from dredge.storage.gcs.wire import ask, bucket_url
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, always
from dredge.storage.options import StorageOptions
from dredge.storage.undo import ObjectVersion, Versioning

_MARKER = "-deleted"


def marker_id(generation: str) -> str:
    """What the deletion of a generation is called."""
    return generation + _MARKER


class GcsVersions:
    """See `dredge.storage.undo.VersionReader`."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options
        self._place = Place.of(location)

    def versioning(self, _probe_uri: str = "") -> Versioning:
        """Whether the bucket keeps what is deleted; raises ConfigError when there is no such bucket."""
        found = self._bucket()
        if found is None:
            return "unknown"
        return "enabled" if (found.get("versioning") or {}).get("enabled") else "off"

    def kept_seconds(self) -> int | None:
        """How long the bytes of what is deleted stay and are paid for, by the bucket's soft delete policy.

        Returns:
            Seconds; 0 where the policy is off; None when the credentials may not ask.
        """
        found = self._bucket()
        if found is None:
            return None
        return int((found.get("softDeletePolicy") or {}).get("retentionDurationSeconds") or 0)

    def versions(self, key: str) -> list[ObjectVersion]:
        """Every generation of a key, the newest first, below a marker where none is current."""
        if not self._place.holds(key):
            return []
        name, found = self._place.root + key, list[Resource]()
        fields = f"{FIELDS},timeDeleted"
        for page in pages(self._options.gcs, self._place, name, fields, versions="true"):
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

    def _bucket(self) -> dict[str, Any] | None:
        doing = f"asking about the bucket of {self._location.uri}"
        url = bucket_url(self._options.gcs, self._place.bucket)
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


class GcsMarkerDeleter:
    """Takes away what stands for a deletion, by copying the generation below it back; see `VersionDeleter`."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._options = options
        self._place = Place.of(location)

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Bring each object back, unless something has been written under its key since."""
        return [self._bring_back(key, version, may_send) for key, version in wanted]

    def _bring_back(self, key: str, version: str, may_send: MaySend) -> DeleteOutcome:
        if not may_send():
            return DeleteOutcome(key, "failed", NOT_SENT)
        name = (self._place.bucket, self._place.root + key)
        generation = version.removesuffix(_MARKER)
        try:
            doing = f"bringing {key!r} in {self._place.uri} back"
            rewrite(self._options.gcs, name, name, doing, generation=generation, if_absent=True)
        except (NotFoundError, ConflictError):
            return DeleteOutcome(key, "missing")
        except DredgeError as error:
            return DeleteOutcome(key, "failed", error.kind, str(error))
        return DeleteOutcome(key, "deleted", version_id=version)


class GcsVersionDeleter:
    """Deletes single generations; see `dredge.storage.undo.VersionDeleter`."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._options = options
        self._place = Place.of(location)

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete generations for good. A marker is no thing of its own: it goes with its generation."""
        outcomes = {
            item: DeleteOutcome(item[0], "deleted", version_id=item[1])
            for item in wanted
            if item[1].endswith(_MARKER)
        }
        named = [item for item in dict.fromkeys(wanted) if item not in outcomes]
        for start in range(0, len(named), BATCH_PARTS):
            outcomes |= self._guarded(named[start : start + BATCH_PARTS], may_send)
        return [outcomes[item] for item in wanted]

    def _guarded(
        self, batch: list[tuple[str, str]], may_send: MaySend
    ) -> dict[tuple[str, str], DeleteOutcome]:
        if not may_send():
            return {item: DeleteOutcome(item[0], "failed", NOT_SENT) for item in batch}
        parts = [Part("DELETE", self._place.root + key, (("generation", version),)) for key, version in batch]
        try:
            answers = send_batch(
                self._options.gcs, self._place.bucket, parts, f"deleting versions in {self._place.uri}"
            )
        except DredgeError as error:
            return {item: DeleteOutcome(item[0], "failed", error.kind, str(error)) for item in batch}
        return {item: _outcome(item, answer) for item, answer in zip(batch, answers, strict=True)}


def _outcome(item: tuple[str, str], answer: PartAnswer | None) -> DeleteOutcome:
    key, version = item
    if answer is None:
        return DeleteOutcome(key, "failed", "UnclearAnswer", "the server did not answer about this version")
    if answer.status in {200, 204}:
        return DeleteOutcome(key, "deleted", version_id=version)
    if answer.status == 404:
        return DeleteOutcome(key, "missing", version_id=version)
    code, message = reason(answer.status, answer.body)
    return DeleteOutcome(key, "failed", code, message)


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
