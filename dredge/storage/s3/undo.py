"""Copies inside S3: one request up to 5 GiB, part by part above and where the key must be free, with what CopyObject
alone would not keep.

A copy takes content type and metadata along, but gets the bucket's own encryption and the storage class STANDARD unless
the request says otherwise. A multipart upload takes nothing along, so all of it is said at its begin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any, cast

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError, UnavailableError
from dredge.storage.https import redact
from dredge.storage.keys import is_text, is_xml_safe
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, ObjectInfo, always
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import ordered_map
from dredge.storage.s3.access import IS_DELETE_RESULT
from dredge.storage.s3.clients import s3_client
from dredge.storage.s3.errors import translated
from dredge.storage.s3.store import COPY_LIMIT_BYTES, info_of_answer
from dredge.storage.undo import Expiry, ObjectVersion, Versioning, check_source

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


class S3Copier:
    """See `dredge.storage.undo.ObjectCopier`; source and target may be folders of two buckets.

    Args:
        source: copied from.
        target: copied to.
        options: how both are reached.

    Attributes:
        LIMIT_BYTES: largest object that is copied by one request.
        PART_BYTES: size of a part above that. 5 TiB, the largest object, are 5,120 parts of a GiB; a store takes
            10,000.
    """

    LIMIT_BYTES = COPY_LIMIT_BYTES
    PART_BYTES = 1 << 30

    def __init__(self, source: Location, target: Location, options: StorageOptions) -> None:
        self._source = source
        self._target = target
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._source, self._target, self._options)

    def __repr__(self) -> str:
        return f"S3Copier({self._source.uri!r}, {self._target.uri!r})"

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """Copy one object, and look at the copy."""
        if not key or not is_text(key):
            raise NotFoundError(f"{key!r} is no name that an object below {self._source.uri} can have")
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
        """How an object is sent. Many stores know no condition for CopyObject and do it all the same, so where the key
        must be free, what has one is used: an upload in parts, which takes one part at least. The answer to its begin
        names the key in XML, which cannot carry every name."""
        if if_absent and is_xml_safe(_name(self._target, key)):
            return self._send_parts if source["ContentLength"] else self._send_nothing
        return self._send_whole if source["ContentLength"] <= self.LIMIT_BYTES else self._send_parts

    def _send_whole(self, key: str, source: Any, condition: dict[str, str]) -> None:
        self._client.copy_object(
            **self._to(key), **self._from(key, source), **_said(source, _KEPT), **condition
        )

    def _send_nothing(self, key: str, source: Any, condition: dict[str, str]) -> None:
        """An object without bytes has no part."""
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
        """Leave no parts behind. That may fail, and must not hide what went wrong."""
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
        """The object as it was looked at, not what may have taken its place since."""
        origin = {"Bucket": self._source.bucket, "Key": _name(self._source, key)}
        return {"CopySource": origin, "CopySourceIfMatch": source["ETag"]}

    @property
    def _client(self) -> Any:
        return s3_client(self._options, self._target.bucket)


def _with_condition(send: Any, if_absent: bool) -> None:
    """Write under a condition; where the store has none, the look before stands in."""
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
    """An upload that is gone may have been completed by a request whose answer was lost; it says nothing about the
    source, as another object that is not found would."""
    from botocore.exceptions import ClientError

    if isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") == "NoSuchUpload":
        raise UnavailableError(f"the upload of {key!r} was lost, or was completed by a lost answer") from None


def _name(location: Location, key: str) -> str:
    return f"{location.root}/{key}" if location.root else key


def _said(source: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: source[name] for name in names if source.get(name)}


def _spans(size: int, part_bytes: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Parts with what each takes; a single one takes all: stores refuse to cut what is shorter than a part."""
    if size <= part_bytes:
        yield 1, {}
        return
    for number, start in enumerate(range(0, size, part_bytes), 1):
        yield number, {"CopySourceRange": f"bytes={start}-{min(start + part_bytes, size) - 1}"}


def _compare(key: str, source: Any, copied: Any) -> None:
    """Hold a copy against its source: sizes, and checksums of the whole content where both tell one."""
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
    """Whether an ETag is a hash of the content: not so after an upload in parts, or with keys of a KMS."""
    encryption = answer.get("ServerSideEncryption") or "AES256"
    return encryption == "AES256" and _PLAIN.fullmatch(answer["ETag"].strip('"')) is not None


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
