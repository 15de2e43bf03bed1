"""Deletes objects from S3: 1,000 keys per request, several requests at once, one outcome per key.

Bulk requests are XML, so keys that XML cannot contain are deleted one by one. In stores without bulk delete every key
gets its own request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from dredge.errors import ConfigError, DredgeError
from dredge.storage import deleting
from dredge.storage.https import redact
from dredge.storage.keys import is_s3_key, is_xml_safe
from dredge.storage.location import Location
from dredge.storage.model import DeleteOutcome, MaySend
from dredge.storage.options import StorageOptions
from dredge.storage.s3.access import IS_ANSWER
from dredge.storage.s3.clients import s3_client
from dredge.storage.s3.resolving import THROTTLED, TRANSIENT, UNKNOWN_REQUEST, translate

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


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
