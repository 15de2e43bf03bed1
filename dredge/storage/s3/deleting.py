"""Deletes objects from S3: 1,000 keys per request, several requests at once, one outcome per key.

Bulk requests are XML, so keys that XML cannot contain are deleted one by one. In stores without bulk delete every key
gets its own request.

A copy is one request up to 5 GiB, else a multipart upload. A copy keeps content type and metadata, but takes the
bucket's encryption and the storage class STANDARD unless the request names them. A multipart upload keeps nothing, so
its first request names everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dredge.errors import (
    ConfigError,
    ConflictError,
    DredgeError,
    FormatError,
    NotFoundError,
    UnavailableError,
)
from dredge.storage import deleting
from dredge.storage.https import redact
from dredge.storage.keys import is_s3_key, is_xml_safe
from dredge.storage.location import Location
from dredge.storage.model import DeleteOutcome, MaySend, ObjectInfo
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import ordered_map
from dredge.storage.remote import BaseCopier, Place
from dredge.storage.s3.access import IS_ANSWER, s3_client
from dredge.storage.s3.resolving import THROTTLED, TRANSIENT, UNKNOWN_REQUEST, translate, translated
from dredge.storage.s3.store import COPY_LIMIT_BYTES, info_of_answer
from dredge.storage.undo import Expiry, ObjectVersion, Versioning, VersionReader, check_source

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_PARTS_AT_ONCE = 8
_KEPT = ("ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled", "StorageClass")
_SAID_AT_BEGIN = (
    *_KEPT,
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Expires",
    "Metadata",
    "WebsiteRedirectLocation",
)
_PLAIN = re.compile(r"[0-9a-f]{32}")
_CHECKSUMS = ("ChecksumCRC64NVME", "ChecksumSHA256", "ChecksumSHA1", "ChecksumCRC32C", "ChecksumCRC32")
type _Send = Callable[[str, Any, dict[str, str]], None]
_NO_CONDITION = frozenset({"NotImplemented", "501"})


class S3Copier(BaseCopier):
    """See `dredge.storage.undo.ObjectCopier`; source and target may be folders of two buckets. `LIMIT_BYTES`: largest
    object that is copied by one request. `PART_BYTES`: size of a part above that. 5 TiB, the largest object, are 5,120
    parts of a GiB; a store takes 10,000."""

    LIMIT_BYTES = COPY_LIMIT_BYTES
    PART_BYTES = 1 << 30

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        if not is_s3_key(key):
            raise NotFoundError(
                f"{key!r} cannot be the name of an object below {self._source.uri}; nothing was copied"
            )
        source = self._head(self._source, key)
        check_source(key, source["ContentLength"], source["ETag"].strip('"'), size, etag)
        if if_absent and self._is_there(key):
            raise ConflictError(f"{key!r} exists already in {self._target.uri}; nothing was written")
        with translated(f"copying {key!r} from {self._source.uri} to {self._target.uri}"):
            send = self._way(key, source, if_absent)
            _with_condition(lambda **condition: send(key, source, condition), if_absent)
        copied = self._head(self._target, key)
        _compare(key, source, copied)
        return info_of_answer(key, copied)

    def _is_there(self, key: str) -> bool:
        try:
            self._head(self._target, key)
        except NotFoundError:
            return False
        return True

    def _head(self, location: Location, key: str) -> Any:
        with translated(f"stat of {key!r} in {location.uri}"):
            return s3_client(self._options, location.bucket).head_object(
                Bucket=location.bucket, Key=_name(location, key), ChecksumMode="ENABLED"
            )

    def _way(self, key: str, source: Any, if_absent: bool) -> _Send:
        # Many stores ignore conditions of CopyObject. So for a key that must be free the copy is a multipart upload,
        # which has at least one part. The answer to its first request has the key in XML, which cannot contain every
        # key.
        if if_absent and is_xml_safe(_name(self._target, key)):
            return self._send_parts if source["ContentLength"] else self._send_nothing
        return self._send_whole if source["ContentLength"] <= self.LIMIT_BYTES else self._send_parts

    def _send_whole(self, key: str, source: Any, condition: dict[str, str]) -> None:
        self._client.copy_object(
            **self._to(key), **self._from(key, source), **_said(source, _KEPT), **condition
        )

    def _send_nothing(self, key: str, source: Any, condition: dict[str, str]) -> None:
        # An empty object has no part.
        self._client.put_object(
            **self._to(key), Body=b"", **_said(source, _SAID_AT_BEGIN), **self._tags(key, source), **condition
        )

    def _send_parts(self, key: str, source: Any, condition: dict[str, str]) -> None:
        said = _said(source, _SAID_AT_BEGIN)
        begun = self._client.create_multipart_upload(**self._to(key), **said, **self._tags(key, source))
        upload = {**self._to(key), "UploadId": begun["UploadId"]}

        def send_part(part: tuple[int, dict[str, str]]) -> dict[str, Any]:
            number, span = part
            answer: Any = self._client.upload_part_copy(
                **upload, **self._from(key, source), PartNumber=number, **span
            )
            copied = answer["CopyPartResult"]
            return {"PartNumber": number, "ETag": copied["ETag"], **_said(copied, _CHECKSUMS)}

        try:
            spans = list(_spans(source["ContentLength"], self.PART_BYTES))
            parts = list(ordered_map(send_part, spans, _PARTS_AT_ONCE))
            self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **condition)
        except BaseException as error:
            self._give_up(upload)
            _raise_if_lost(error, key)
            raise

    def _give_up(self, upload: dict[str, str]) -> None:
        # An error here must not hide the first one.
        from botocore.exceptions import BotoCoreError, ClientError

        with suppress(BotoCoreError, ClientError):
            self._client.abort_multipart_upload(**upload)

    def _tags(self, key: str, source: Any) -> dict[str, str]:
        from urllib.parse import urlencode

        if not source.get("TagCount"):
            return {}
        client, bucket = s3_client(self._options, self._source.bucket), self._source.bucket
        found = client.get_object_tagging(Bucket=bucket, Key=_name(self._source, key))
        return {"Tagging": urlencode([(tag["Key"], tag["Value"]) for tag in found["TagSet"]])}

    def _to(self, key: str) -> dict[str, str]:
        return {"Bucket": self._target.bucket, "Key": _name(self._target, key)}

    def _from(self, key: str, source: Any) -> dict[str, Any]:
        # The object that was looked up, not a later one.
        origin = {"Bucket": self._source.bucket, "Key": _name(self._source, key)}
        return {"CopySource": origin, "CopySourceIfMatch": source["ETag"]}

    @property
    def _client(self) -> Any:
        return s3_client(self._options, self._target.bucket)


def _with_condition(send: Any, if_absent: bool) -> None:
    # In a store without conditional writes only the check before the copy protects the key.
    from botocore.exceptions import ClientError

    if not if_absent:
        send()
        return
    try:
        send(IfNoneMatch="*")
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") not in _NO_CONDITION:
            raise
        send()


def _raise_if_lost(error: BaseException, key: str) -> None:
    # A lost answer may have completed the upload; a missing upload does not mean a missing source.
    from botocore.exceptions import ClientError

    if isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") == "NoSuchUpload":
        raise UnavailableError(f"the upload of {key!r} was lost, or was completed by a lost answer") from None


def _name(location: Location, key: str) -> str:
    return f"{location.root}/{key}" if location.root else key


def _said(source: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: source[name] for name in names if source.get(name)}


def _spans(size: int, part_bytes: int) -> Iterator[tuple[int, dict[str, str]]]:
    # A single part has no range: stores refuse ranges of objects shorter than a part.
    if size <= part_bytes:
        yield 1, {}
        return
    for number, start in enumerate(range(0, size, part_bytes), 1):
        yield number, {"CopySourceRange": f"bytes={start}-{min(start + part_bytes, size) - 1}"}


def _compare(key: str, source: Any, copied: Any) -> None:
    """Compare sizes, and checksums of the whole content if both have one; raises FormatError."""
    differs = "size" if source["ContentLength"] != copied["ContentLength"] else ""
    if _is_md5(source) and _is_md5(copied) and source["ETag"] != copied["ETag"]:
        differs = differs or "ETag"
    if source.get("ChecksumType") == copied.get("ChecksumType") == "FULL_OBJECT":
        for name in _CHECKSUMS:
            if name in source and name in copied and source[name] != copied[name]:
                differs = differs or name
    if differs:
        raise FormatError(f"the copy of {key!r} has another {differs} than its source")


def _is_md5(answer: Any) -> bool:
    # After a multipart upload, or with KMS keys, an ETag is no hash of the content.
    encryption = answer.get("ServerSideEncryption") or "AES256"
    return encryption == "AES256" and _PLAIN.fullmatch(answer["ETag"].strip('"')) is not None


class S3Versions(Place, VersionReader):
    """See `dredge.storage.undo.VersionReader`."""

    def versioning(self, probe_uri: str = "") -> Versioning:
        """See `VersionReader.versioning`; raises ConfigError for a missing bucket."""
        try:
            with translated(f"asking for the versioning of {self._location.bucket}"):
                bucket = self._location.bucket
                answer: Any = s3_client(self._options, bucket).get_bucket_versioning(Bucket=bucket)
        except ConfigError as error:
            if "NoSuchBucket" in str(error):
                raise
            return "unknown"
        return cast(Versioning, str(answer.get("Status", "off")).lower() if answer[IS_ANSWER] else "unknown")

    def expiry(self, prefix: str) -> Expiry:
        bucket = self._bucket
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
        bucket = self._bucket
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
        if not is_s3_key(key):
            return []
        name, found = self._root + key, list[ObjectVersion]()
        with translated(f"listing versions of {key!r} in {self._location.uri}"):
            client = s3_client(self._options, self._location.bucket)
            pages = client.get_paginator("list_object_versions")
            for page in pages.paginate(Bucket=self._location.bucket, Prefix=name):
                if not cast(Any, page)[IS_ANSWER]:
                    raise UnavailableError("the server answered without a list of versions")
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
    # Tags and sizes of objects are not considered.
    where = rule.get("Filter", {})
    named: str = rule.get("Prefix") or where.get("Prefix") or where.get("And", {}).get("Prefix") or ""
    return rule.get("Status") == "Enabled" and (named.startswith(prefix) or prefix.startswith(named))


def _days(rule: Any) -> int | None:
    # A rule may keep the newest old version.
    found = rule.get("NoncurrentVersionExpiration", {})
    return None if found.get("NewerNoncurrentVersions") else found.get("NoncurrentDays")


def _current_days(rule: Any) -> int | None:
    # A date counts as 0 days.
    found = rule.get("Expiration", {})
    return 0 if "Date" in found else found.get("Days")


def _earliest(days: Iterable[int | None]) -> int | None:
    return min((item for item in days if item is not None), default=None)


def _version(item: Any, is_marker: bool) -> ObjectVersion:
    return ObjectVersion(
        version_id=item["VersionId"],
        is_latest=item["IsLatest"],
        is_marker=is_marker,
        size=0 if is_marker else item["Size"],
        etag=None if is_marker else item["ETag"].strip('"'),
        last_modified=item["LastModified"].astimezone(UTC),
    )


class _S3Batches(deleting.Batches):
    BATCH_KEYS = 1000
    CODES: ClassVar = deleting.Codes(
        throttled=THROTTLED, transient=TRANSIENT | {deleting.CONNECTION_LOST}, no_batches=UNKNOWN_REQUEST
    )

    def __init__(
        self, location: Location, options: StorageOptions, rate: deleting.AdaptiveRate | None = None
    ) -> None:
        super().__init__(location, options, rate)
        self.has_bulk = True

    def _can_name(self, key: str) -> bool:
        return is_s3_key(key)

    def _batches(self, items: list[deleting.Item]) -> list[list[deleting.Item]]:
        bulk = [item for item in items if is_xml_safe(self._root + item[0])]
        return super()._batches(bulk) + [[item] for item in items if not is_xml_safe(self._root + item[0])]

    def _send(self, items: list[deleting.Item], may_send: MaySend) -> list[DeleteOutcome]:
        from botocore.exceptions import BotoCoreError, ClientError

        client = s3_client(self._options, self._bucket, retries=False)
        try:
            if len(items) == 1 and not (self.has_bulk and is_xml_safe(self._root + items[0][0])):
                return [self._send_single(client, *items[0])]
            return self._send_bulk(client, items)
        except ClientError as error:
            found = error.response.get("Error", {})
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            code = found.get("Code") or str(status)
            if status in {429, 500, 502, 503, 504} and not self.CODES.may_pass(code):
                code = str(status)
            if self.has_bulk and code in UNKNOWN_REQUEST:
                self.has_bulk = False
                if len(items) == 1:
                    return self._send(items, may_send)
            return deleting.all_failed(items, code, redact(found.get("Message") or ""))
        except (BotoCoreError, DredgeError) as error:
            return deleting.all_failed(items, _code_without_answer(error), str(translate(error, "delete")))

    def _send_single(self, client: S3Client, key: str, version: str) -> DeleteOutcome:
        answer: Any = client.delete_object(Bucket=self._bucket, Key=self._root + key, **_named(version))
        return DeleteOutcome(key, "deleted", version_id=answer.get("VersionId") if self._versioned else None)

    def _send_bulk(self, client: S3Client, items: list[deleting.Item]) -> list[DeleteOutcome]:
        by_version = bool(items[0][1])
        needs_answers = bool(self._versioned) or by_version
        names = [(self._root + key, version) for key, version in items]
        objects: Any = [{"Key": name, **_named(version)} for name, version in names]
        answer: Any = client.delete_objects(
            Bucket=self._bucket, Delete={"Objects": objects, "Quiet": not needs_answers}
        )
        if not answer.get(IS_ANSWER):
            return deleting.all_failed(items, deleting.UNCLEAR, "the server answered without a DeleteResult")

        def by_name(answers: Iterable[Any]) -> dict[deleting.Item, Any]:
            return {
                (item.get("Key"), item.get("VersionId", "") if by_version else ""): item for item in answers
            }

        errors, deleted = by_name(answer.get("Errors", [])), by_name(answer.get("Deleted", []))
        if errors.keys() - set(names):
            # An error for an unknown key: any of the keys may be meant.
            return deleting.all_failed(items, deleting.UNCLEAR, "the server answered about other keys")
        found = []
        for (key, _), name in zip(items, names, strict=True):
            if name in errors:
                found.append(_failed(key, errors[name]))
            elif needs_answers:
                found.append(_confirmed(key, deleted.get(name)))
            else:
                found.append(DeleteOutcome(key, "deleted"))
        return found


class S3Deleter(_S3Batches, deleting.BatchDeleter):
    """Deletes objects below an S3 prefix. Absent keys count as deleted, because S3 does not report them."""

    def _prepare(self) -> None:
        if self._versioned is not None:
            return
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: Any = s3_client(self._options, self._bucket).get_bucket_versioning(Bucket=self._bucket)
            # Unknown after another answer: request an answer for every key.
            self._versioned = answer.get("Status") is not None or not answer[IS_ANSWER]
        except (ClientError, BotoCoreError) as error:
            translated = translate(error, f"deleting in {self.uri}")
            if isinstance(translated, ConfigError) and "NoSuchBucket" in str(translated):
                raise translated from None
            self._versioned = True  # unknown: request an answer for every key


class S3VersionDeleter(_S3Batches, deleting.BatchVersionDeleter):
    """Deletes single versions, and delete markers."""

    HAS_MARKERS = True


def _named(version: str) -> dict[str, Any]:
    return {"VersionId": version} if version else {}


def _confirmed(key: str, answer: dict[str, Any] | None) -> DeleteOutcome:
    if answer is None:
        return DeleteOutcome(key, "failed", deleting.UNCLEAR, "the server did not answer about this key")
    return DeleteOutcome(
        key, "deleted", version_id=answer.get("DeleteMarkerVersionId") or answer.get("VersionId")
    )


def _failed(key: str, error: dict[str, Any]) -> DeleteOutcome:
    if error.get("Code") == "NoSuchKey":
        return DeleteOutcome(key, "missing")
    return DeleteOutcome(key, "failed", error.get("Code") or "Unknown", redact(error.get("Message") or ""))


def _code_without_answer(error: Exception) -> str:
    from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError

    if isinstance(error, ConnectTimeoutError | EndpointConnectionError | ProxyConnectionError):
        return deleting.NOT_CONNECTED
    return deleting.CONNECTION_LOST if translate(error, "").kind == "unavailable" else type(error).__name__
