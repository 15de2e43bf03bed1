"""Deletes blobs from Azure: 256 blobs per request, several requests at once, one outcome per blob.

A batch has a request for each blob in its body. The answers have Content-IDs; the SDK relies on their order, which the
service does not promise.

Source: Blob service REST API, Blob Batch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from dredge.errors import ConfigError
from dredge.storage import deleting
from dredge.storage.azure.clients import THROTTLED, TRANSIENT, code_of, container_client, translate
from dredge.storage.keys import is_exact
from dredge.storage.model import DeleteOutcome, MaySend

BATCH_ATTEMPTS = 3
"""After so many errors of the service about a batch, its blobs are asked about alone."""
_GONE = frozenset({"BlobNotFound", "ResourceNotFound"})
_ID = re.compile(rb"^Content-ID:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"^HTTP/[\d.]+ (\d{3})", re.MULTILINE)
_CODE = re.compile(rb"^x-ms-error-code:\s*(\w+)\s*$|<Code>(\w+)</Code>", re.IGNORECASE | re.MULTILINE)
_NO_BATCH = "NoSuchBatch"
"""This endpoint refused a batch of these blobs."""
CODES = deleting.Codes(
    throttled=THROTTLED,
    transient=TRANSIENT,
    alone=TRANSIENT | {deleting.UNCLEAR},
    no_batches=frozenset({_NO_BATCH}),
    batch_attempts=BATCH_ATTEMPTS,
)


class _AzureBatches(deleting.Batches):
    BATCH_KEYS = 256
    CODES: ClassVar = CODES

    def _can_name(self, key: str) -> bool:
        return is_exact(self._root + key) and bool(key)

    def _send(self, items: list[deleting.Item], _may_send: MaySend) -> list[DeleteOutcome]:
        from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError

        client: Any = container_client(self._options, self._bucket, retries=False)
        try:
            return self._send_single(client, *items[0]) if len(items) == 1 else self._send_bulk(client, items)
        except HttpResponseError as error:
            code, status = code_of(error), error.status_code or 0
            words = str(translate(error, "delete"))
            if status == 404 and code not in _GONE:
                raise ConfigError(f"deleting in {self.uri}: {words}") from None
            if status in {429, 500, 502, 503, 504} and not CODES.may_pass(code):
                code = str(status)
            if len(items) > 1 and status not in {401, 403} and not CODES.may_pass(code):
                code = _NO_BATCH
            return deleting.all_failed(items, code, words)
        except AzureError as error:
            unsent = isinstance(error, ServiceRequestError)
            code = deleting.NOT_CONNECTED if unsent else deleting.CONNECTION_LOST
            return deleting.all_failed(items, code, str(translate(error, "delete")))

    def _send_single(self, client: Any, key: str, version: str) -> list[DeleteOutcome]:
        from azure.core.exceptions import ResourceNotFoundError

        try:
            client.delete_blob(self._root + key, **({"version_id": version} if version else {}))
        except ResourceNotFoundError as error:
            if code_of(error) not in _GONE:
                raise
            return [DeleteOutcome(key, "missing")]
        return [DeleteOutcome(key, "deleted")]

    def _send_bulk(self, client: Any, items: list[deleting.Item]) -> list[DeleteOutcome]:
        answers: list[Any] = []
        # The SDK raises for an answer that is not a batch; the bytes of the answer decide.
        with suppress(ValueError):
            client.delete_blobs(
                *(
                    {"name": self._root + key, "version_id": version} if version else self._root + key
                    for key, version in items
                ),
                raise_on_any_failure=False,
                raw_response_hook=lambda answer: answers.append(answer.http_response.body()),
            )
        return read_answers([key for key, _ in items], answers[-1] if answers else b"")


class AzureDeleter(_AzureBatches, deleting.BatchDeleter):
    """Deletes blobs below a prefix of a container."""


class AzureVersionDeleter(_AzureBatches, deleting.BatchVersionDeleter):
    """Deletes single versions; the service refuses current ones."""


def read_answers(keys: Sequence[str], body: bytes) -> list[DeleteOutcome]:
    """Outcome of each key by the answer to a batch; unclear without an answer, or with two.

    Args:
        keys: in the order of the requests; the index is the Content-ID.
    """
    said: dict[int, DeleteOutcome] = {}
    boundary = body.lstrip().split(b"\r\n", 1)[0]
    for part in body.split(boundary) if boundary.startswith(b"--") else []:
        number, status = _ID.search(part), _STATUS.search(part)
        if number is None or status is None:
            continue
        place = int(number[1])
        if place in said or place >= len(keys):
            # An answer for an unknown key, or a second one: any of the keys may be meant.
            return deleting.all_failed(
                ((key, "") for key in keys), deleting.UNCLEAR, "the service answered about other requests"
            )
        said[place] = _outcome(keys[place], int(status[1]), _CODE.search(part))
    silent = "the service did not answer about this blob"
    return [
        said.get(place) or DeleteOutcome(key, "failed", deleting.UNCLEAR, silent)
        for place, key in enumerate(keys)
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
