"""Deleting from Azure: 256 blobs a request, several requests at once, and the truth about every single one.

A batch is one request with a request for each blob in its body, and its answer has an answer for each, told apart by
Content-ID; the SDK goes by their order, which the service does not promise. Throttled blobs, and only they, are tried
again at half the rate. What no answer clearly speaks about is asked again alone.

Source: Blob service REST API, Blob Batch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from dredge.errors import ConfigError
from dredge.storage.azure.clients import container_client
from dredge.storage.azure.errors import THROTTLED, TRANSIENT, code_of, translate
from dredge.storage.azure.names import is_exact
from dredge.storage.deleting import CONNECTION_LOST, NOT_CONNECTED, UNCLEAR, BatchDeleter, Codes, all_failed
from dredge.storage.model import DeleteOutcome, MaySend

BATCH_ATTEMPTS = 3
"""After so many errors of the service about a batch, its blobs are asked about alone."""
_GONE = frozenset({"BlobNotFound", "ResourceNotFound"})
_ID = re.compile(rb"^Content-ID:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"^HTTP/[\d.]+ (\d{3})", re.MULTILINE)
_CODE = re.compile(rb"^x-ms-error-code:\s*(\w+)\s*$|<Code>(\w+)</Code>", re.IGNORECASE | re.MULTILINE)
_NO_BATCH = "NoSuchBatch"
"""This endpoint takes no batch of these blobs, and has done nothing."""
CODES = Codes(
    throttled=THROTTLED,
    transient=TRANSIENT,
    alone=TRANSIENT | {UNCLEAR},
    no_batches=frozenset({_NO_BATCH}),
    batch_attempts=BATCH_ATTEMPTS,
)


class AzureDeleter(BatchDeleter):
    """Deletes blobs below a prefix of a container."""

    BATCH_KEYS = 256
    CODES: ClassVar = CODES

    def _can_name(self, key: str) -> bool:
        return is_exact(self._root + key)

    def _prepare(self) -> None:
        """Nothing needs to be known."""

    def _send(self, keys: list[str], _may_send: MaySend) -> list[DeleteOutcome]:
        from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError

        client: Any = container_client(self._options, self._location.bucket, retries=False)
        try:
            return self._send_single(client, keys[0]) if len(keys) == 1 else self._send_bulk(client, keys)
        except HttpResponseError as error:
            code, status = code_of(error), error.status_code or 0
            words = str(translate(error, "delete"))
            if status == 404 and code not in _GONE:
                raise ConfigError(f"deleting in {self.uri}: {words}") from None
            if status in {429, 500, 502, 503, 504} and not CODES.may_pass(code):
                code = str(status)
            if len(keys) > 1 and status not in {401, 403} and not CODES.may_pass(code):
                code = _NO_BATCH
            return all_failed(keys, code, words)
        except AzureError as error:
            unsent = isinstance(error, ServiceRequestError)
            return all_failed(
                keys, NOT_CONNECTED if unsent else CONNECTION_LOST, str(translate(error, "delete"))
            )

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
            return all_failed(keys, UNCLEAR, "the service answered about other requests")
        said[place] = _outcome(keys[place], int(status[1]), _CODE.search(part))
    silent = "the service did not answer about this blob"
    return [
        said.get(place) or DeleteOutcome(key, "failed", UNCLEAR, silent) for place, key in enumerate(keys)
    ]


def _outcome(key: str, status: int, code: re.Match[bytes] | None) -> DeleteOutcome:
    name = ((code[1] or code[2]) if code else b"").decode()
    if status == 202:
        return DeleteOutcome(key, "deleted")
    if status == 404 and name in _GONE:
        return DeleteOutcome(key, "missing")
    if status >= 500 and not CODES.may_pass(name):
        name = str(status) if CODES.may_pass(str(status)) else "500"
    return DeleteOutcome(key, "failed", name or str(status), f"the service answered {status} {name}".rstrip())
