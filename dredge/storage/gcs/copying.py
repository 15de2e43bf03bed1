"""Copies inside Google Cloud Storage: rewritten by the service in as many steps as it takes, of exactly one generation.

A rewrite takes everything along that the request does not say otherwise, but for the storage class and a key of KMS,
which become the bucket's own unless the request names them; and a request that says one thing must say all.

Source: Cloud Storage JSON API, Objects: rewrite.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from dredge.errors import ConflictError, FormatError, NotFoundError
from dredge.storage.gcs.names import Place
from dredge.storage.gcs.options import GcsOptions
from dredge.storage.gcs.resources import Resource, info, read_resource, tag
from dredge.storage.gcs.wire import ask, object_url, segment
from dredge.storage.location import Location
from dredge.storage.model import ObjectInfo
from dredge.storage.options import StorageOptions
from dredge.storage.undo import check_source

_KEPT = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "metadata",
    "storageClass",
)
_KEY_VERSION = re.compile(r"/cryptoKeyVersions/[^/]+$")

type Name = tuple[str, str]
"""Bucket and whole name of an object."""


class _Step(msgspec.Struct, rename="camel"):
    """The answer to one step of a rewrite."""

    done: bool
    rewrite_token: str = ""
    resource: Resource | None = None


class GcsCopier:
    """See `dredge.storage.undo.ObjectCopier`; source and target may be folders of two buckets.

    Args:
        source: copied from.
        target: copied to.
        options: how both are reached.
    """

    def __init__(self, source: Location, target: Location, options: StorageOptions) -> None:
        self._source = source
        self._target = target
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._source, self._target, self._options)

    def __repr__(self) -> str:
        return f"GcsCopier({self._source.uri!r}, {self._target.uri!r})"

    def copy(
        self, key: str, if_absent: bool = False, size: int | None = None, etag: str | None = None
    ) -> ObjectInfo:
        """Copy one object; the answer to its last step describes the copy."""
        source, target = Place.of(self._source), Place.of(self._target)
        doing = f"copying {key!r} from {self._source.uri} to {self._target.uri}"
        origin, name = (source.bucket, source.name(key)), (target.bucket, target.target(key))
        wanted = (size, etag) if size is not None or etag is not None else None
        return info(key, rewrite(self._options.gcs, origin, name, doing, if_absent=if_absent, wanted=wanted))


def rewrite(
    options: GcsOptions,
    source: Name,
    target: Name,
    doing: str,
    *,
    generation: str = "",
    if_absent: bool = False,
    wanted: tuple[int | None, str | None] | None = None,
) -> Resource:
    """Copy one generation of an object, and compare the copy with it.

    Args:
        options: how to reach the service.
        source: copied from.
        target: copied to.
        doing: for messages.
        generation: of the source; "" is the current one.
        if_absent: only where the target has no such object.
        wanted: size and tag that the source must have.

    Raises:
        NotFoundError: the source is not there.
        ConflictError: the target is there already; nothing was written.
        FormatError: the source is not as it must be, or the copy is not like it.
    """
    url = object_url(options, *source)
    told = ask(options, "GET", url, doing, params={"generation": generation} if generation else {})
    found = read_resource(told.body, doing)
    if wanted is not None:
        check_source(source[1], int(found.size), tag(found), *wanted)
    asked: dict[str, Any] = {"sourceGeneration": found.generation}
    if if_absent:
        asked["ifGenerationMatch"] = "0"
    about = json.loads(told.body)
    if about.get("kmsKeyName"):
        asked["destinationKmsKeyName"] = _KEY_VERSION.sub("", about["kmsKeyName"])
    body = json.dumps({name: about[name] for name in _KEPT if about.get(name)})
    copied = _steps(
        options, f"{url}/rewriteTo/b/{segment(target[0])}/o/{segment(target[1])}", doing, asked, body
    )
    _compare(doing, found, copied)
    return copied


def _steps(options: GcsOptions, url: str, doing: str, asked: dict[str, Any], body: str) -> Resource:
    """Ask until the service says that it is done; each answer's token goes into the next request."""
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    while True:
        answer = _ask_step(options, url, doing, asked, body, headers)
        try:
            told = msgspec.json.decode(answer, type=_Step)
        except msgspec.MsgspecError as error:
            raise FormatError(f"{doing}: the answer is none to a rewrite: {error}") from None
        if told.done and told.resource is not None:
            return told.resource
        if not told.rewrite_token:
            raise FormatError(f"{doing}: the service is not done, and does not say how to go on")
        asked["rewriteToken"] = told.rewrite_token


def _ask_step(
    options: GcsOptions, url: str, doing: str, asked: dict[str, Any], body: str, headers: dict[str, str]
) -> bytes:
    try:
        return ask(options, "POST", url, doing, params=asked, data=body, headers=headers).body
    except ConflictError as error:
        raise ConflictError(f"{error}; nothing was written") from None
    except NotFoundError as error:
        if asked.get("rewriteToken"):
            raise FormatError(f"{error}: the source went while it was copied") from None
        raise


def _compare(doing: str, source: Resource, copied: Resource) -> None:
    """Demand that a copy is like its source, by all that the service tells of both."""
    for name in ("size", "crc32c", "md5_hash"):
        first, second = getattr(source, name), getattr(copied, name)
        if first is not None and second is not None and first != second:
            raise FormatError(f"{doing}: {name} of the copy is {second}, not {first}")
