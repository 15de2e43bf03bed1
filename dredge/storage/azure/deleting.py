"""Deletes blobs from Azure: 256 blobs per request, several requests at once, one outcome per blob.

A batch has a request for each blob in its body. The answers have Content-IDs; the SDK relies on their order, which the
service does not promise.

Source: Blob service REST API, Blob Batch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from dredge.errors import ConfigError
from dredge.storage.azure.clients import container_client
from dredge.storage.azure.errors import THROTTLED, TRANSIENT, code_of, translate
from dredge.storage.deleting import CONNECTION_LOST, NOT_CONNECTED, UNCLEAR, BatchDeleter, Codes, all_failed
from dredge.storage.keys import is_exact
from dredge.storage.model import DeleteOutcome, MaySend
from dredge.storage.options import StorageOptions

BATCH_ATTEMPTS = 3
"""After so many errors of the service about a batch, its blobs are asked about alone."""
_GONE = frozenset({"BlobNotFound", "ResourceNotFound"})
_ID = re.compile(rb"^Content-ID:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"^HTTP/[\d.]+ (\d{3})", re.MULTILINE)
_CODE = re.compile(rb"^x-ms-error-code:\s*(\w+)\s*$|<Code>(\w+)</Code>", re.IGNORECASE | re.MULTILINE)
_NO_BATCH = "NoSuchBatch"
"""This endpoint refused a batch of these blobs."""
CODES = Codes(
    throttled=THROTTLED,
    transient=TRANSIENT,
    alone=TRANSIENT | {UNCLEAR},
    no_batches=frozenset({_NO_BATCH}),
    batch_attempts=BATCH_ATTEMPTS,
)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A blob to delete, or one version of it; `name` is the blob's whole name."""

    key: str
    name: str
    version: str = ""

    def arguments(self) -> dict[str, str]:
        """Arguments of the SDK for a batch."""
        return {"name": self.name, **self.of_version()}

    def of_version(self) -> dict[str, str]:
        """Arguments of the SDK for the version."""
        return {"version_id": self.version} if self.version else {}


class AzureDeleter(BatchDeleter):
    """Deletes blobs below a prefix of a container."""

    BATCH_KEYS = 256
    CODES: ClassVar = CODES

    def _can_name(self, key: str) -> bool:
        return is_exact(self._root + key) and bool(key)

    def _send(self, keys: list[str], _may_send: MaySend) -> list[DeleteOutcome]:
        wanted = [Deletion(key, self._root + key) for key in keys]
        return send_deletions(self._options, self._location.bucket, wanted, self.uri)


def send_deletions(
    options: StorageOptions, url: str, wanted: Sequence[Deletion], uri: str
) -> list[DeleteOutcome]:
    """Make one request; returns an outcome for each blob."""
    from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError

    client: Any = container_client(options, url, retries=False)
    keys = [item.key for item in wanted]
    try:
        return _send_single(client, wanted[0]) if len(wanted) == 1 else _send_bulk(client, wanted)
    except HttpResponseError as error:
        code, status = code_of(error), error.status_code or 0
        words = str(translate(error, "delete"))
        if status == 404 and code not in _GONE:
            raise ConfigError(f"deleting in {uri}: {words}") from None
        if status in {429, 500, 502, 503, 504} and not CODES.may_pass(code):
            code = str(status)
        if len(wanted) > 1 and status not in {401, 403} and not CODES.may_pass(code):
            code = _NO_BATCH
        return all_failed(keys, code, words)
    except AzureError as error:
        unsent = isinstance(error, ServiceRequestError)
        return all_failed(keys, NOT_CONNECTED if unsent else CONNECTION_LOST, str(translate(error, "delete")))


def _send_single(client: Any, item: Deletion) -> list[DeleteOutcome]:
    from azure.core.exceptions import ResourceNotFoundError

    try:
        client.delete_blob(item.name, **item.of_version())
    except ResourceNotFoundError as error:
        if code_of(error) not in _GONE:
            raise
        return [DeleteOutcome(item.key, "missing")]
    return [DeleteOutcome(item.key, "deleted")]


def _send_bulk(client: Any, wanted: Sequence[Deletion]) -> list[DeleteOutcome]:
    answers: list[Any] = []
    # The SDK raises for an answer that is not a batch; the bytes of the answer decide.
    with suppress(ValueError):
        client.delete_blobs(
            *(item.arguments() if item.version else item.name for item in wanted),
            raise_on_any_failure=False,
            raw_response_hook=lambda answer: answers.append(answer.http_response.body()),
        )
    return read_answers([item.key for item in wanted], answers[-1] if answers else b"")


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
