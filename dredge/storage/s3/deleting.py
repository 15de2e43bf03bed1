"""Deletes objects from S3: 1,000 keys per request, several requests at once, one outcome per key.

Bulk requests are XML, so keys that XML cannot contain are deleted one by one. In stores without bulk delete every key
gets its own request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dredge.errors import ConfigError, DredgeError
from dredge.storage.deleting import (
    CONNECTION_LOST,
    NOT_CONNECTED,
    UNCLEAR,
    AdaptiveRate,
    BatchDeleter,
    Codes,
    all_failed,
)
from dredge.storage.https import redact
from dredge.storage.keys import is_s3_key, is_xml_safe
from dredge.storage.location import Location
from dredge.storage.model import DeleteOutcome, MaySend
from dredge.storage.options import StorageOptions
from dredge.storage.s3.access import IS_DELETE_RESULT
from dredge.storage.s3.clients import s3_client
from dredge.storage.s3.errors import THROTTLED, TRANSIENT, UNKNOWN_REQUEST, translate

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Deleter(BatchDeleter):
    """Deletes objects below an S3 prefix. Absent keys count as deleted, because S3 does not report them."""

    BATCH_KEYS = 1000
    CODES: ClassVar = Codes(
        throttled=THROTTLED, transient=TRANSIENT | {CONNECTION_LOST}, no_batches=UNKNOWN_REQUEST
    )

    def __init__(self, location: Location, options: StorageOptions, rate: AdaptiveRate | None = None) -> None:
        super().__init__(location, options, rate)
        self.has_bulk = True

    def _can_name(self, key: str) -> bool:
        return is_s3_key(key)

    def _batches(self, keys: list[str]) -> list[list[str]]:
        bulk = [key for key in keys if is_xml_safe(self._root + key)]
        return super()._batches(bulk) + [[key] for key in keys if not is_xml_safe(self._root + key)]

    def _prepare(self) -> None:
        if self._versioned is not None:
            return
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = s3_client(self._options, self._location.bucket).get_bucket_versioning(
                Bucket=self._location.bucket
            )
            self._versioned = answer.get("Status") is not None
        except (ClientError, BotoCoreError) as error:
            translated = translate(error, f"deleting in {self.uri}")
            if isinstance(translated, ConfigError) and "NoSuchBucket" in str(translated):
                raise translated from None
            self._versioned = True  # unknown: request an answer for every key

    def _send(self, keys: list[str], may_send: MaySend) -> list[DeleteOutcome]:
        from botocore.exceptions import BotoCoreError, ClientError

        client = s3_client(self._options, self._location.bucket, retries=False)
        try:
            if len(keys) == 1 and not (self.has_bulk and is_xml_safe(self._root + keys[0])):
                return [self._send_single(client, keys[0])]
            return self._send_bulk(client, keys)
        except ClientError as error:
            found = error.response.get("Error", {})
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            code = found.get("Code") or str(status)
            if status in {429, 500, 502, 503, 504} and not self.CODES.may_pass(code):
                code = str(status)
            if self.has_bulk and code in UNKNOWN_REQUEST:
                self.has_bulk = False
                if len(keys) == 1:
                    return self._send(keys, may_send)
            return all_failed(keys, code, redact(found.get("Message") or ""))
        except (BotoCoreError, DredgeError) as error:
            return all_failed(keys, _code_without_answer(error), str(translate(error, "delete")))

    def _send_single(self, client: S3Client, key: str) -> DeleteOutcome:
        answer = client.delete_object(Bucket=self._location.bucket, Key=self._root + key)
        return DeleteOutcome(key, "deleted", version_id=answer.get("VersionId") if self._versioned else None)

    def _send_bulk(self, client: S3Client, keys: list[str]) -> list[DeleteOutcome]:
        by_name = {self._root + key: key for key in keys}
        answer: Any = client.delete_objects(
            Bucket=self._location.bucket,
            Delete={"Objects": [{"Key": name} for name in by_name], "Quiet": not self._versioned},
        )
        if not answer.get(IS_DELETE_RESULT):
            return all_failed(keys, UNCLEAR, "the server answered without a DeleteResult")
        errors = answer.get("Errors", [])
        if any(error.get("Key") not in by_name for error in errors):
            # An error for an unknown key: any of the keys may be meant.
            return all_failed(keys, UNCLEAR, "the server answered about other keys")
        outcomes = {by_name[error["Key"]]: _failed(by_name[error["Key"]], error) for error in errors}
        if self._versioned:
            confirmed = {d.get("Key"): d for d in answer.get("Deleted", [])}
            for name, key in by_name.items():
                if key not in outcomes:
                    outcomes[key] = _confirmed(key, confirmed.get(name))
        return [outcomes.get(key) or DeleteOutcome(key, "deleted") for key in keys]


def _confirmed(key: str, answer: dict[str, Any] | None) -> DeleteOutcome:
    if answer is None:
        return DeleteOutcome(key, "failed", UNCLEAR, "the server did not answer about this key")
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
        return NOT_CONNECTED
    return CONNECTION_LOST if translate(error, "").kind == "unavailable" else type(error).__name__
