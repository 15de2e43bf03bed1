"""Deletes objects from Google Cloud Storage: 100 keys per request, several requests at once, one outcome per key.

Listed objects, and all objects in buckets with versions, are looked up first, also in a batch; the deletion has their
generation as its condition. So an object written since the listing stays, also after a lost answer and a second
request, and the ledger can name the version that a deletion left.

The service rewrites exactly one generation, in one or more steps. The copy keeps everything except storage class and
KMS key, unless the request names them; a request that names one property must name all.

There are no delete markers: a deleted object becomes a generation that is not current. For undo as on S3, a key
without a current generation has a marker here, named after its newest generation. Removing it copies that generation
back, if the key is free; deleting the generation removes it too. Soft delete is not used: see docs/stores/gcs.md.

Source: Cloud Storage JSON API, Objects: rewrite.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import replace

from dredge.errors import ConfigError, ConflictError, DredgeError, FormatError, NotFoundError
from dredge.storage import deleting
from dredge.storage.gcs import wire
from dredge.storage.gcs.listing import FIELDS, Resource, info, pages, read_resource, tag
from dredge.storage.location import Location
from dredge.storage.model import (
    CHANGED,
    NOT_SENT,
    STORE_HOLD,
    DeleteOutcome,
    MaySend,
    ObjectInfo,
    always,
)
from dredge.storage.options import GcsOptions, StorageOptions
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
    if not wire.is_name(root, key):
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
    """Copy one generation of an object, and compare the copy with it. `generation`: of the source; "" is the current
    one. `wanted`: required size and tag of the source."""
    url = wire.object_url(options, *source)
    told = wire.ask(options, "GET", url, doing, params={"generation": generation} if generation else {})
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
        options,
        f"{url}/rewriteTo/b/{wire.segment(target[0])}/o/{wire.segment(target[1])}",
        doing,
        asked,
        body,
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
            raise FormatError(f"{doing}: the answer is not that of a rewrite: {error}") from None
        if told.done and told.resource is not None:
            return told.resource
        if not told.rewrite_token:
            raise FormatError(f"{doing}: the copy has not ended, and the answer has no token to continue")
        asked["rewriteToken"] = told.rewrite_token


def _ask_step(
    options: GcsOptions, url: str, doing: str, asked: dict[str, Any], body: str, headers: dict[str, str]
) -> bytes:
    try:
        return wire.ask(options, "POST", url, doing, params=asked, data=body, headers=headers).body
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
        if not wire.is_name(self._root, key):
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
        url = wire.bucket_url(self._options.gcs, self._bucket)
        asked = {"fields": "versioning,softDeletePolicy"}
        answer = wire.ask(self._options.gcs, "GET", url, doing, (200, 401, 403, 404), params=asked)
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


_CHANGED = "ChangedMeanwhile"
_HELD = frozenset({"objectUnderActiveHold", "retentionPolicyNotMet"})
"""Why the service refuses: a temporary or event-based hold; a retention policy of the bucket, or of the object."""


class _GcsBatches(deleting.Batches):
    BATCH_KEYS = wire.BATCH_PARTS
    CODES: ClassVar = deleting.Codes(
        throttled=frozenset(str(status) for status in wire.THROTTLED),
        # A part without an answer is sent again with the others: more parts cost no request.
        transient=frozenset(
            {
                deleting.UNCLEAR,
                deleting.CONNECTION_LOST,
                *(str(status) for status in wire.PASSING - wire.THROTTLED),
            }
        ),
        alone=frozenset(),
    )

    def _can_name(self, key: str) -> bool:
        return wire.is_name(self._root, key)

    def _delete(self, items: Sequence[deleting.Item], queries: Sequence[wire.Query]) -> list[DeleteOutcome]:
        parts = [
            wire.Part("DELETE", self._root + key, query)
            for (key, _), query in zip(items, queries, strict=True)
        ]
        try:
            answers = self._ask(parts)
        except DredgeError as error:
            code = deleting.CONNECTION_LOST if error.kind == "unavailable" else type(error).__name__
            return deleting.all_failed(items, code, str(error))
        return [self._outcome(key, answer) for (key, _), answer in zip(items, answers, strict=True)]

    def _ask(self, parts: list[wire.Part]) -> list[wire.PartAnswer | None]:
        return wire.send_batch(self._options.gcs, self._bucket, parts, f"deleting in {self.uri}")

    def _outcome(self, key: str, answer: wire.PartAnswer | None) -> DeleteOutcome:
        if answer is None:
            return DeleteOutcome(key, "failed", deleting.UNCLEAR, "the server did not answer about this key")
        if answer.status in {200, 204}:
            return DeleteOutcome(key, "deleted")
        if answer.status == 404 and wire.is_about_bucket(answer.body):
            return DeleteOutcome(key, "failed", "NoSuchBucket", "the bucket does not exist")
        if answer.status == 404:
            return DeleteOutcome(key, "missing")
        if answer.status == 412:
            return DeleteOutcome(key, "failed", _CHANGED, "it was written again meanwhile")
        code, message = wire.reason(answer.status, answer.body)
        return DeleteOutcome(
            key, "failed", str(answer.status) if answer.status in wire.PASSING else code, message
        )


class GcsDeleter(_GcsBatches, deleting.BatchDeleter):
    """Deletes objects below a prefix."""

    def __init__(
        self, location: Location, options: StorageOptions, rate: deleting.AdaptiveRate | None = None
    ) -> None:
        super().__init__(location, options, rate)
        self._listed: Mapping[str, ObjectInfo] = {}

    def delete_listed(self, objects: Sequence[ObjectInfo], may_send: MaySend = always) -> list[DeleteOutcome]:
        if objects:
            self._prepare()  # once for all calls
        listed = {found.key: found for found in objects}
        told = self._of(listed).delete([found.key for found in objects], may_send)
        return [_kept(outcome) for outcome in told]

    def _of(self, listed: Mapping[str, ObjectInfo]) -> Self:
        made = type(self)(self._location, self._options, self._rate)
        made._versioned, made._sleep, made._listed = self._versioned, self._sleep, listed
        return made

    def _prepare(self) -> None:
        if self._versioned is None:
            found = GcsVersions(self._location, self._options).versioning()
            self._versioned = found in {"enabled", "unknown"}

    def _send(self, items: list[deleting.Item], may_send: MaySend) -> list[DeleteOutcome]:
        looks = bool(self._versioned or self._listed)
        generations = self._look([key for key, _ in items]) if looks else {}
        told = {key: found for key, found in generations.items() if isinstance(found, DeleteOutcome)}
        asked = [item for item in items if item[0] not in told]
        if looks and asked and not may_send():  # the lookup may have taken long
            told |= {key: DeleteOutcome(key, "failed", NOT_SENT) for key, _ in asked}
        elif asked:
            for outcome in self._delete(asked, [_condition(generations.get(key)) for key, _ in asked]):
                told[outcome.key] = self._with_marker(outcome, generations.get(outcome.key))
        return [told[key] for key, _ in items]

    def _with_marker(self, outcome: DeleteOutcome, generation: str | DeleteOutcome | None) -> DeleteOutcome:
        leaves = self._versioned and isinstance(generation, str) and outcome.outcome == "deleted"
        return replace(outcome, version_id=marker_id(str(generation))) if leaves else outcome

    def _look(self, keys: list[str]) -> dict[str, str | DeleteOutcome]:
        """The current generation of each object, or an outcome. A failed lookup leaves no deletion in doubt."""
        try:
            found = self._generations(keys)
        except DredgeError as error:
            code = deleting.NOT_CONNECTED if error.kind == "unavailable" else type(error).__name__
            return {key: DeleteOutcome(key, "failed", code, str(error)) for key in keys}
        return {
            key: replace(told, code=deleting.NOT_CONNECTED)
            if isinstance(told, DeleteOutcome) and self.CODES.is_doubtful(told.code)
            else told
            for key, told in found.items()
        }

    def _generations(self, keys: list[str]) -> dict[str, str | DeleteOutcome]:
        """The current generation of each object, or an outcome."""
        parts = [wire.Part("GET", self._root + key, (("fields", FIELDS),)) for key in keys]
        found: dict[str, str | DeleteOutcome] = {}
        for key, answer in zip(keys, self._ask(parts), strict=True):
            if answer is not None and answer.status == 200:
                found[key] = self._as_listed(key, read_resource(answer.body, f"lookup of {key!r}"))
            else:
                found[key] = self._outcome(key, answer)
        return found

    def _as_listed(self, key: str, found: Resource) -> str | DeleteOutcome:
        """The generation of an object, if it is the listed object."""
        listed = self._listed.get(key)
        if listed is None or listed.etag is None or _is_same(listed, found):
            return found.generation
        return DeleteOutcome(key, "failed", _CHANGED, "it was written again since it was listed")


class GcsVersionDeleter(_GcsBatches, deleting.BatchVersionDeleter):
    """Deletes single generations."""

    def _send(self, items: list[deleting.Item], _may_send: MaySend) -> list[DeleteOutcome]:
        return self._delete(items, [(("generation", version),) for _, version in items])


def _condition(generation: object) -> wire.Query:
    return (("ifGenerationMatch", generation),) if isinstance(generation, str) else ()


def _is_same(listed: ObjectInfo, found: Resource) -> bool:
    if (str(listed.size), listed.etag) != (found.size, tag(found)):
        return False
    return datetime.fromisoformat(found.updated) == listed.last_modified


def _kept(outcome: DeleteOutcome) -> DeleteOutcome:
    # A retry would not help: the object stays for the next run.
    if outcome.outcome != "failed" or outcome.code not in {_CHANGED, *_HELD}:
        return outcome
    return replace(outcome, outcome="kept", code=CHANGED if outcome.code == _CHANGED else STORE_HOLD)
