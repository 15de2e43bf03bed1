"""Deleting from Azure: 256 blobs a request, several requests at once, and the truth about every single one.

A batch is one request with a request for each blob in its body, and its answer has an answer for each, told apart by
Content-ID; the SDK goes by their order, which the service does not promise. Throttled blobs, and only they, are tried
again at half the rate. What no answer clearly speaks about is asked again alone.

Source: Blob service REST API, Blob Batch.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dredge.errors import ConfigError
from dredge.storage.azure.clients import container_client
from dredge.storage.azure.errors import THROTTLED, TRANSIENT, code_of, translate
from dredge.storage.azure.names import is_exact
from dredge.storage.location import Location
from dredge.storage.model import NOT_SENT, DeleteOutcome, MaySend, always
from dredge.storage.options import StorageOptions
from dredge.storage.rate import AdaptiveRate

BATCH_KEYS = 256
ATTEMPTS = 8
BATCH_ATTEMPTS = 3
"""After so many errors of the service about a batch, its blobs are asked about alone."""
_UNCLEAR = "UnclearAnswer"
_GONE = frozenset({"BlobNotFound", "ResourceNotFound"})
_ID = re.compile(rb"^Content-ID:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"^HTTP/[\d.]+ (\d{3})", re.MULTILINE)
_CODE = re.compile(rb"^x-ms-error-code:\s*(\w+)\s*$|<Code>(\w+)</Code>", re.IGNORECASE | re.MULTILINE)


class AzureDeleter:
    """Deletes blobs below a prefix of a container."""

    def __init__(self, location: Location, options: StorageOptions, rate: AdaptiveRate | None = None) -> None:
        self._location = location
        self._options = options
        self._root = location.root + "/" if location.root else ""
        self._rate = rate or AdaptiveRate()
        self._sleep: Callable[[float], None] = time.sleep

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._location, self._options)

    def __repr__(self) -> str:
        return f"AzureDeleter({self.uri!r})"

    @property
    def uri(self) -> str:
        """Where the keys begin, without a trailing slash."""
        return self._location.uri

    def delete(self, keys: Sequence[str], may_send: MaySend = always) -> list[DeleteOutcome]:
        """Delete each key; see `ObjectDeleter.delete`."""
        distinct = dict.fromkeys(keys)
        outcomes = {
            key: DeleteOutcome(key, "not_addressable")
            for key in distinct
            if not key or not is_exact(self._root + key)
        }
        exact = [key for key in distinct if key not in outcomes]
        requests = [exact[start : start + BATCH_KEYS] for start in range(0, len(exact), BATCH_KEYS)]
        if requests:
            with ThreadPoolExecutor(
                min(self._options.delete_requests, len(requests)), thread_name_prefix="dredge-delete"
            ) as pool:
                for found in pool.map(lambda batch: self._delete_batch(batch, may_send), requests):
                    outcomes.update(found)
        return [outcomes[key] for key in keys]

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
            again = [o for o in found if o.outcome == "failed" and _is_passing(o.code)]
            doubts.update((o.key, str(o.code)) for o in found if _is_doubtful(o.code))
            outcomes.update((o.key, _with_doubt(o, doubts)) for o in found)
            enough = attempt + 1 == BATCH_ATTEMPTS and len(batch) > 1
            if not again or (enough and not any(o.code in THROTTLED for o in again)):
                break
            if any(o.code in THROTTLED for o in again):
                self._rate.throttled()
            left = [o.key for o in again]
            if attempt + 1 < ATTEMPTS:
                self._sleep(min(20.0, 0.1 * 2**attempt) * (0.5 + random.random()))
        if len(batch) > 1:
            for key in [key for key, o in outcomes.items() if _is_doubtful(o.code)]:
                alone = self._delete_batch([key], may_send)[key]
                if alone.code != NOT_SENT:
                    outcomes[key] = _with_doubt(alone, doubts)
        return outcomes

    def _send(self, keys: list[str]) -> list[DeleteOutcome]:
        from azure.core.exceptions import AzureError, HttpResponseError

        client: Any = container_client(self._options, self._location.bucket, retries=False)
        try:
            return self._send_single(client, keys[0]) if len(keys) == 1 else self._send_bulk(client, keys)
        except HttpResponseError as error:
            code, status = code_of(error), error.status_code or 0
            words = str(translate(error, "delete"))
            if status == 404 and code not in _GONE:
                raise ConfigError(f"deleting in {self.uri}: {words}") from None
            if status in {429, 500, 502, 503, 504} and not _is_passing(code):
                code = str(status)
            if len(keys) > 1 and status not in {401, 403} and not _is_passing(code):
                code = _UNCLEAR  # this endpoint takes no batch of these: each is asked about alone
            return _all_failed(keys, code, words)
        except AzureError as error:
            return _all_failed(keys, "ConnectionError", str(translate(error, "delete")))

    def _send_single(self, client: Any, key: str) -> list[DeleteOutcome]:
        from azure.core.exceptions import ResourceNotFoundError

        try:
            client.delete_blob(self._root + key)
        except ResourceNotFoundError as error:
            if code_of(error) not in _GONE:
                raise
            return [DeleteOutcome(key, "missing")]
        return [DeleteOutcome(key, "deleted")]

    def _send_bulk(self, client: Any, keys: list[str]) -> list[DeleteOutcome]:
        answers: list[Any] = []
        # An answer that is no batch's makes the SDK complain; what was answered is judged by its own bytes.
        with suppress(ValueError):
            client.delete_blobs(
                *(self._root + key for key in keys),
                raise_on_any_failure=False,
                raw_response_hook=lambda answer: answers.append(answer.http_response.body()),
            )
        return read_answers(keys, answers[-1] if answers else b"")


def read_answers(keys: Sequence[str], body: bytes) -> list[DeleteOutcome]:
    """What a batch's answer says of each key, in their order; unclear where it says nothing, or something twice.

    Args:
        keys: in the order of the requests; the number of each is its Content-ID.
        body: of the answer.
    """
    said: dict[int, DeleteOutcome] = {}
    boundary = body.lstrip().split(b"\r\n", 1)[0]
    for part in body.split(boundary) if boundary.startswith(b"--") else []:
        number, status = _ID.search(part), _STATUS.search(part)
        if number is None or status is None:
            continue
        place = int(number[1])
        if place in said or place >= len(keys):
            # Of a key that nobody asked about, or twice: no telling which of ours it means.
            return _all_failed(keys, _UNCLEAR, "the service answered about other requests")
        said[place] = _outcome(keys[place], int(status[1]), _CODE.search(part))
    silent = "the service did not answer about this blob"
    return [
        said.get(place) or DeleteOutcome(key, "failed", _UNCLEAR, silent) for place, key in enumerate(keys)
    ]


def _outcome(key: str, status: int, code: re.Match[bytes] | None) -> DeleteOutcome:
    name = ((code[1] or code[2]) if code else b"").decode()
    if status == 202:
        return DeleteOutcome(key, "deleted")
    if status == 404 and name in _GONE:
        return DeleteOutcome(key, "missing")
    if status >= 500 and not _is_passing(name):
        name = str(status) if _is_passing(str(status)) else "500"
    return DeleteOutcome(key, "failed", name or str(status), f"the service answered {status} {name}".rstrip())


def _all_failed(keys: Iterable[str], code: str, message: str) -> list[DeleteOutcome]:
    return [DeleteOutcome(key, "failed", code, message) for key in keys]


def _is_doubtful(code: str | None) -> bool:
    """Whether an answer leaves open what the service did; one that only asks for patience does not."""
    return code == _UNCLEAR or (_is_passing(code) and code not in THROTTLED)


def _with_doubt(outcome: DeleteOutcome, doubts: dict[str, str]) -> DeleteOutcome:
    """Note at a blob that is gone by now what the service answered before: that request may have deleted it."""
    if outcome.outcome == "failed" or outcome.key not in doubts:
        return outcome
    return replace(
        outcome, message=f"{outcome.outcome} when asked again; the first answer was {doubts[outcome.key]}"
    )


def _is_passing(code: str | None) -> bool:
    return code in THROTTLED or code in TRANSIENT
