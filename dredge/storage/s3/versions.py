"""The versions that a bucket keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Any, cast

from dredge.errors import ConfigError, NotFoundError, UnavailableError
from dredge.storage.keys import is_text, is_xml_safe
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, always
from dredge.storage.options import StorageOptions
from dredge.storage.redact import redact
from dredge.storage.s3.clients import s3_client
from dredge.storage.s3.errors import translated
from dredge.storage.s3.wire import IS_DELETE_RESULT
from dredge.storage.undo import Expiry, ObjectVersion, Versioning

BATCH_KEYS = 1000


class S3Versions:
    """See `dredge.storage.undo.VersionReader`."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options
        self._root = location.root + "/" if location.root else ""

    def versioning(self, _probe_uri: str = "") -> Versioning:
        """Whether the bucket keeps what is deleted; raises ConfigError when there is no such bucket."""
        try:
            with translated(f"asking for the versioning of {self._location.bucket}"):
                bucket = self._location.bucket
                answer = s3_client(self._options, bucket).get_bucket_versioning(Bucket=bucket)
        except ConfigError as error:
            if "NoSuchBucket" in str(error):
                raise
            return "unknown"
        return cast(Versioning, str(answer.get("Status", "off")).lower())

    def expiry(self, prefix: str) -> Expiry:
        """When the first lifecycle rules remove versions of some keys; raises UnavailableError."""
        bucket = self._location.bucket
        try:
            with translated(f"asking for the lifecycle rules of {bucket}"):
                client = s3_client(self._options, bucket)
                found = client.get_bucket_lifecycle_configuration(Bucket=bucket)
        except NotFoundError:
            return Expiry(None)
        except ConfigError:
            return Expiry(None, known=False)
        rules = [rule for rule in found.get("Rules", []) if _is_about(rule, self._root + prefix)]
        return Expiry(_earliest(map(_days, rules)), current_days=_earliest(map(_current_days, rules)))

    def locked_days(self) -> int | None:
        """For how many days a version is locked by the bucket's own rule; raises UnavailableError."""
        bucket = self._location.bucket
        try:
            with translated(f"asking for the Object Lock of {bucket}"):
                found = s3_client(self._options, bucket).get_object_lock_configuration(Bucket=bucket)
        except NotFoundError:
            return 0
        except ConfigError:
            return None
        rule = found.get("ObjectLockConfiguration", {}).get("Rule", {}).get("DefaultRetention", {})
        return rule.get("Days", 0) + 365 * rule.get("Years", 0)

    def versions(self, key: str) -> list[ObjectVersion]:
        """Every version and marker of a key, the newest first."""
        if not key or not is_text(key):
            return []
        name, found = self._root + key, list[ObjectVersion]()
        with translated(f"listing versions of {key!r} in {self._location.uri}"):
            client = s3_client(self._options, self._location.bucket)
            pages = client.get_paginator("list_object_versions")
            for page in pages.paginate(Bucket=self._location.bucket, Prefix=name):
                items: list[tuple[Any, bool]] = [(item, False) for item in page.get("Versions", [])]
                items += [(item, True) for item in page.get("DeleteMarkers", [])]
                own = [(item, marker) for item, marker in items if item["Key"] == name]
                found += [_version(item, marker) for item, marker in own]
                if len(own) < len(items) or not items:
                    break  # keys that only begin like this one come after it
        # The sort is stable, and the store gives versions of the same time newest first.
        return sorted(
            found, key=lambda item: (not item.is_latest, -item.last_modified.timestamp(), item.is_marker)
        )


def _is_about(rule: Any, prefix: str) -> bool:
    """Whether a lifecycle rule is in force for some of the keys; tags and sizes of objects are passed over."""
    where = rule.get("Filter", {})
    named: str = rule.get("Prefix") or where.get("Prefix") or where.get("And", {}).get("Prefix") or ""
    return rule.get("Status") == "Enabled" and (named.startswith(prefix) or prefix.startswith(named))


def _days(rule: Any) -> int | None:
    """Days after which a rule removes the newest old version of a key; None where it leaves that one."""
    found = rule.get("NoncurrentVersionExpiration", {})
    return None if found.get("NewerNoncurrentVersions") else found.get("NoncurrentDays")


def _current_days(rule: Any) -> int | None:
    """Age at which a rule removes objects that nobody deleted; a date counts as no age."""
    found = rule.get("Expiration", {})
    return 0 if "Date" in found else found.get("Days")


def _earliest(days: Iterable[int | None]) -> int | None:
    return min((item for item in days if item is not None), default=None)


class S3VersionDeleter:
    """See `dredge.storage.undo.VersionDeleter`."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options
        self._root = location.root + "/" if location.root else ""

    def delete(self, wanted: Sequence[tuple[str, str]], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete versions for good."""
        bulk = [item for item in wanted if is_xml_safe(self._root + item[0])]
        outcomes: dict[tuple[str, str], DeleteOutcome] = {}
        for start in range(0, len(bulk), BATCH_KEYS):
            outcomes |= self._guarded(bulk[start : start + BATCH_KEYS], may_send)
        for item in set(wanted) - set(bulk):
            outcomes |= self._guarded([item], may_send)
        return [outcomes[item] for item in wanted]

    def _guarded(
        self, batch: list[tuple[str, str]], may_send: MaySend
    ) -> dict[tuple[str, str], DeleteOutcome]:
        if not may_send():
            return {item: DeleteOutcome(item[0], "failed", NOT_SENT) for item in batch}
        try:
            with translated(f"deleting versions in {self._location.uri}"):
                return self._send(batch)
        except (ConfigError, UnavailableError) as error:
            return {item: DeleteOutcome(item[0], "failed", error.kind, str(error)) for item in batch}

    def _send(self, batch: list[tuple[str, str]]) -> dict[tuple[str, str], DeleteOutcome]:
        bucket = self._location.bucket
        client = s3_client(self._options, bucket)
        if not is_xml_safe(self._root + batch[0][0]):
            ((key, version),) = batch
            client.delete_object(Bucket=bucket, Key=self._root + key, VersionId=version)
            return {(key, version): DeleteOutcome(key, "deleted", version_id=version)}
        objects: Any = [{"Key": self._root + key, "VersionId": version} for key, version in batch]
        answer: Any = client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": False})
        if not answer.get(IS_DELETE_RESULT):
            raise UnavailableError("the server answered without a DeleteResult")
        deleted = {(item.get("Key"), item.get("VersionId")) for item in answer.get("Deleted", [])}
        errors = {(item.get("Key"), item.get("VersionId")): item for item in answer.get("Errors", [])}
        found = {}
        for key, version in batch:
            named = (self._root + key, version)
            if named in deleted:
                found[key, version] = DeleteOutcome(key, "deleted", version_id=version)
                continue
            error = errors.get(named, {})
            message = redact(error.get("Message") or "the server did not answer about this version")
            found[key, version] = DeleteOutcome(key, "failed", error.get("Code") or "UnclearAnswer", message)
        return found


def _version(item: Any, is_marker: bool) -> ObjectVersion:
    return ObjectVersion(
        version_id=item["VersionId"],
        is_latest=item["IsLatest"],
        is_marker=is_marker,
        size=0 if is_marker else item["Size"],
        etag=None if is_marker else item["ETag"].strip('"'),
        last_modified=item["LastModified"].astimezone(UTC),
    )
