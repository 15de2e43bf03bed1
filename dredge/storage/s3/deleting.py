"""Deleting from S3: 1,000 keys a request, several requests at once, and the truth about every single key.

What goes into a bulk request is XML, so keys that XML cannot carry are deleted one by one; a single such key
would make the server refuse the whole request. Throttled keys, and only they, are tried again at half the
rate. An answer that does not clearly speak about a key is asked again for that key alone: deleting twice is
harmless, guessing is not. Where a store knows no bulk delete, each key gets a request of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dredge.errors import ConfigError, DredgeError
from dredge.storage.keys import is_text, is_xml_safe
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, always
from dredge.storage.options import StorageOptions
from dredge.storage.rate import AdaptiveRate
from dredge.storage.redact import redact
from dredge.storage.s3.clients import s3_client
from dredge.storage.s3.errors import THROTTLED, TRANSIENT, UNKNOWN_REQUEST, translate
from dredge.storage.s3.wire import IS_DELETE_RESULT

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BATCH_KEYS = 1000
ATTEMPTS = 8
_UNCLEAR = "UnclearAnswer"


class S3Deleter:
    """Deletes objects below an S3 prefix. Absent keys count as deleted, as S3 does not tell."""

    def __init__(self, location: Location, options: StorageOptions, rate: AdaptiveRate | None = None) -> None:
        self._location = location
        self._options = options
        self._root = location.root + "/" if location.root else ""
        self._rate = rate or AdaptiveRate()
        self._versioned: bool | None = None
        self._has_bulk = True
        self._sleep: Callable[[float], None] = time.sleep

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._location, self._options)

    def __repr__(self) -> str:
        return f"S3Deleter({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete each key; see `ObjectDeleter.delete`."""
        outcomes: dict[str, DeleteOutcome] = {}
        bulk: list[str] = []
        single: list[str] = []
        for key in dict.fromkeys(keys):
            if not key or not is_text(key):
                outcomes[key] = DeleteOutcome(key, "not_addressable")
            else:
                (bulk if is_xml_safe(self._root + key) else single).append(key)
        requests: list[list[str]] = [bulk[i : i + BATCH_KEYS] for i in range(0, len(bulk), BATCH_KEYS)]
        requests += [[key] for key in single]
        if requests:
            self._look_at_versioning()
            with ThreadPoolExecutor(
                min(self._options.delete_requests, len(requests)), thread_name_prefix="dredge-delete"
            ) as pool:
                for found in pool.map(lambda batch: self._delete_batch(batch, may_send), requests):
                    outcomes.update(found)
        return [outcomes[key] for key in keys]

    def _look_at_versioning(self) -> None:
        """Learn once whether deleting leaves markers, whose versions must be recorded."""
        if self._versioned is not None:
            return
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = s3_client(self._options).get_bucket_versioning(Bucket=self._location.bucket)
            self._versioned = answer.get("Status") is not None
        except (ClientError, BotoCoreError) as error:
            translated = translate(error, f"deleting in {self.uri}")
            if isinstance(translated, ConfigError) and "NoSuchBucket" in str(translated):
                raise translated from None
            self._versioned = True  # not allowed to know: ask for every key's answer

    def _delete_batch(self, batch: list[str], may_send: MaySend) -> dict[str, DeleteOutcome]:
        """Delete one request's worth of keys, with as many attempts as throttling needs."""
        outcomes: dict[str, DeleteOutcome] = {}
        doubts: dict[str, str] = {}
        left = batch
        for attempt in range(ATTEMPTS):
            self._rate.acquire(len(left))
            if not may_send():
                return {o.key: o for o in _all_failed(left, NOT_SENT, "")} | outcomes
            found = self._send(left)
            if len(left) > 1 and all(o.code in UNKNOWN_REQUEST for o in found):
                return outcomes | self._one_by_one(left, may_send)
            again = [o for o in found if o.outcome == "failed" and _is_passing(o.code)]
            doubts.update((o.key, str(o.code)) for o in found if _is_doubtful(o.code))
            outcomes.update((o.key, _with_doubt(o, doubts)) for o in found)
            if not again:
                break
            if any(o.code in THROTTLED for o in again):
                self._rate.throttled()
            left = [o.key for o in again]
            if attempt + 1 < ATTEMPTS:
                self._sleep(min(20.0, 0.1 * 2**attempt) * (0.5 + random.random()))
        unclear = [key for key, o in outcomes.items() if o.code == _UNCLEAR]
        if len(batch) > 1:
            for key in unclear:
                found_alone = self._delete_batch([key], may_send)
                outcomes.update(
                    (o.key, _with_doubt(o, doubts)) for o in found_alone.values() if o.code != NOT_SENT
                )
        return outcomes

    def _one_by_one(self, keys: list[str], may_send: MaySend) -> dict[str, DeleteOutcome]:
        """Delete keys on a store that knows no bulk delete."""
        self._has_bulk = False
        found: dict[str, DeleteOutcome] = {}
        for key in keys:
            found |= self._delete_batch([key], may_send)
        return found

    def _send(self, keys: list[str]) -> list[DeleteOutcome]:
        from botocore.exceptions import BotoCoreError, ClientError

        client = s3_client(self._options, retries=False)
        try:
            if len(keys) == 1 and not (self._has_bulk and is_xml_safe(self._root + keys[0])):
                return [self._send_single(client, keys[0])]
            return self._send_bulk(client, keys)
        except ClientError as error:
            found = error.response.get("Error", {})
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            code = found.get("Code") or str(status)
            if status in {429, 500, 502, 503, 504} and not _is_passing(code):
                code = str(status)
            return _all_failed(keys, code, redact(found.get("Message") or ""))
        except (BotoCoreError, DredgeError) as error:
            translated = translate(error, "delete")
            code = "ConnectionError" if translated.kind == "unavailable" else type(error).__name__
            return _all_failed(keys, code, str(translated))

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
            return _all_failed(keys, _UNCLEAR, "the server answered without a DeleteResult")
        errors = answer.get("Errors", [])
        if any(error.get("Key") not in by_name for error in errors):
            # An error about a key that nobody asked for: no telling which of ours it means.
            return _all_failed(keys, _UNCLEAR, "the server answered about other keys")
        outcomes = {by_name[error["Key"]]: _failed(by_name[error["Key"]], error) for error in errors}
        if self._versioned:
            confirmed = {d.get("Key"): d for d in answer.get("Deleted", [])}
            for name, key in by_name.items():
                if key not in outcomes:
                    outcomes[key] = _confirmed(key, confirmed.get(name))
        return [outcomes.get(key) or DeleteOutcome(key, "deleted") for key in keys]


def _confirmed(key: str, answer: dict[str, Any] | None) -> DeleteOutcome:
    if answer is None:
        return DeleteOutcome(key, "failed", _UNCLEAR, "the server did not answer about this key")
    return DeleteOutcome(
        key, "deleted", version_id=answer.get("DeleteMarkerVersionId") or answer.get("VersionId")
    )


def _failed(key: str, error: dict[str, Any]) -> DeleteOutcome:
    if error.get("Code") == "NoSuchKey":
        return DeleteOutcome(key, "missing")
    return DeleteOutcome(key, "failed", error.get("Code") or "Unknown", redact(error.get("Message") or ""))


def _all_failed(keys: Iterable[str], code: str, message: str) -> list[DeleteOutcome]:
    return [DeleteOutcome(key, "failed", code, message) for key in keys]


def _is_doubtful(code: str | None) -> bool:
    """Whether an answer leaves open what the server did; one that only asks for patience does not."""
    return code == _UNCLEAR or (_is_passing(code) and code not in THROTTLED)


def _with_doubt(outcome: DeleteOutcome, doubts: Mapping[str, str]) -> DeleteOutcome:
    """Note at a key that is confirmed by now what the server answered before."""
    if outcome.outcome != "deleted" or outcome.key not in doubts:
        return outcome
    return replace(outcome, message=f"confirmed when asked again; the first answer was {doubts[outcome.key]}")


def _is_passing(code: str | None) -> bool:
    return code in THROTTLED or code in TRANSIENT or code == "ConnectionError"
