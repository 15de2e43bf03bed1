"""Repositories as buckets, and lists of their objects, versions 1 and 2.

S3 lacks the parameters needed to create a repository. The first part of a list's prefix is the ref; without it
branches are listed.

    prefix=            branches, each a common prefix: main/ dev/
    prefix=main/a/     paths of main below a/

As in lakeFS an unknown ref lists nothing: to an S3 client it is a prefix without keys.

Source: S3 API reference "ListObjects", "ListObjectsV2"; lakeFS pkg/gateway/operations/listobjects.go.
"""

import base64
import binascii
from collections.abc import Callable

from starlette.responses import Response

from lakefs_embedded.auth.permissions import repository_arn
from lakefs_embedded.catalog import ObjectStats, Page
from lakefs_embedded.errors import InvalidRefError, MissingError, RepositoryNotFoundError
from lakefs_embedded.gateway import responses
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.requests import S3Request, Target, url_encoded
from lakefs_embedded.gateway.responses import Node, timestamp

PAGE = 1000


def list_buckets(request: S3Request) -> Response:
    """GET /: the user's repositories."""
    buckets: list[Node] = []
    after, more = "", True
    while more:
        page = request.catalog.repositories.list_repositories(
            prefix=request.query.get("prefix", ""), after=after, amount=PAGE
        )
        for found in page.results:
            if request.accounts.allows(request.user, "fs:ListRepositories", repository_arn(found.name)):
                fields: list[Node] = [("Name", found.name), ("CreationDate", timestamp(found.creation_date))]
                buckets.append(("Bucket", fields))
        more, after = page.has_more, page.next_offset
    owner: list[Node] = [("ID", request.user), ("DisplayName", request.user)]
    return responses.document("ListAllMyBucketsResult", ("Owner", owner), ("Buckets", buckets))


def head_bucket(request: S3Request) -> Response:
    """HEAD /<repository>."""
    request.require("fs:ReadRepository", repository_arn(request.repository))
    request.catalog.repositories.get_repository(request.repository)
    return responses.empty(200, {"x-amz-bucket-region": "us-east-1"})


def get_bucket_location(request: S3Request) -> Response:
    """GET /<repository>?location: the default region, an empty element in S3."""
    request.require("fs:ReadRepository", repository_arn(request.repository))
    request.catalog.repositories.get_repository(request.repository)
    return responses.document("LocationConstraint")


def get_bucket_versioning(request: S3Request) -> Response:
    """GET /<repository>?versioning: never enabled; commits are the versions."""
    request.require("fs:ReadRepository", repository_arn(request.repository))
    request.catalog.repositories.get_repository(request.repository)
    return responses.document("VersioningConfiguration")


def create_bucket(request: S3Request) -> Response:
    """PUT /<repository>: 409 if it exists, as expected by clients; otherwise not implemented."""
    request.require("fs:CreateRepository", repository_arn(request.repository))
    try:
        request.catalog.repositories.get_repository(request.repository)
    except RepositoryNotFoundError:
        raise S3Error(
            "NotImplemented", "Repositories are created through the lakeFS API, not through S3."
        ) from None
    raise S3Error("BucketAlreadyExists")


KEYS_MAX = 1000


def list_objects_v1(request: S3Request) -> Response:
    """GET /<repository>: `marker` is a key; with a delimiter the response names the next one."""
    marker = request.query.get("marker", "")
    page, encode = _page(request, marker), _encoder(request)
    fields: list[Node] = [("Marker", encode(marker))]
    if page.has_more and request.query.get("delimiter"):
        fields.append(("NextMarker", encode(page.next_offset)))
    return _response(request, page, encode, fields)


def list_objects_v2(request: S3Request) -> Response:
    """GET /<repository>?list-type=2: a continuation token encodes the last key."""
    token, start = request.query.get("continuation-token", ""), request.query.get("start-after", "")
    page, encode = _page(request, _key_of(token) if token else start), _encoder(request)
    fields: list[Node] = [("KeyCount", len(page.results))]
    if start:
        fields.append(("StartAfter", encode(start)))
    if token:
        fields.append(("ContinuationToken", token))
    if page.has_more:
        fields.append(("NextContinuationToken", _token_of(page.next_offset)))
    return _response(request, page, encode, fields)


def _page(request: S3Request, after: str) -> Page[ObjectStats]:
    keys = request.number("max-keys", KEYS_MAX, KEYS_MAX)
    prefix = Target.of_key(request.repository, request.query.get("prefix", ""))
    listed = _branches if not prefix.has_path else _paths
    request.require(
        "fs:ListBranches" if not prefix.has_path else "fs:ListObjects", repository_arn(request.repository)
    )
    request.catalog.repositories.get_repository(request.repository)
    return listed(request, prefix, after, keys) if keys else Page([])


def _branches(request: S3Request, prefix: Target, after: str, keys: int) -> Page[ObjectStats]:
    # "main" and "main/…" are covered by the common prefix "main/".
    page = request.catalog.branches.list_branches(
        request.repository, prefix=prefix.ref, after=after.partition("/")[0], amount=keys
    )
    names = [f"{branch.name}/" for branch in page.results]
    return Page(
        [ObjectStats(name, "common_prefix") for name in names],
        page.has_more,
        f"{page.next_offset}/" if page.next_offset else "",
    )


def _paths(request: S3Request, prefix: Target, after: str, keys: int) -> Page[ObjectStats]:
    front = f"{prefix.ref}/"
    if after.startswith(front):
        after = after.removeprefix(front)
    elif after.encode("utf-8", "surrogateescape") < front.encode("utf-8", "surrogateescape"):
        after = ""
    else:
        return Page([])  # after every key with this prefix
    try:
        page = request.catalog.reading.list_entries(
            request.repository,
            prefix.ref,
            prefix=prefix.path,
            delimiter=request.query.get("delimiter", ""),
            after=after,
            amount=keys,
        )
    except (MissingError, InvalidRefError):
        return Page([])
    return Page(
        [_with_ref(front, found) for found in page.results],
        page.has_more,
        front + page.next_offset if page.has_more else "",
    )


def _with_ref(front: str, found: ObjectStats) -> ObjectStats:
    return ObjectStats(
        front + found.path,
        found.path_type,
        checksum=found.checksum,
        size_bytes=found.size_bytes,
        mtime=found.mtime,
    )


def _response(
    request: S3Request, page: Page[ObjectStats], encode: Callable[[str], str], fields: list[Node]
) -> Response:
    contents: list[Node] = []
    prefixes: list[Node] = []
    for found in page.results:
        if found.path_type == "common_prefix":
            prefixes.append(("CommonPrefixes", [("Prefix", encode(found.path))]))
        else:
            contents.append(("Contents", _content(found, encode)))
    query = request.query
    head: list[Node] = [
        ("Name", request.repository),
        ("Prefix", encode(query.get("prefix", ""))),
        ("MaxKeys", request.number("max-keys", KEYS_MAX, KEYS_MAX)),
        ("IsTruncated", page.has_more),
    ]
    if query.get("delimiter"):
        head.append(("Delimiter", encode(query["delimiter"])))
    if "encoding-type" in query:
        head.append(("EncodingType", "url"))
    return responses.document("ListBucketResult", *head, *fields, *contents, *prefixes)


def _content(found: ObjectStats, encode: Callable[[str], str]) -> list[Node]:
    return [
        ("Key", encode(found.path)),
        ("LastModified", timestamp(found.mtime)),
        ("ETag", f'"{found.checksum}"'),
        ("Size", found.size_bytes),
        ("StorageClass", "STANDARD"),
    ]


def _encoder(request: S3Request) -> Callable[[str], str]:
    kind = request.query.get("encoding-type")
    if kind not in (None, "url"):
        raise S3Error("InvalidArgument", "Invalid Encoding Method specified in Request")
    return url_encoded if kind else str


def _token_of(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode("utf-8", "surrogateescape")).decode()


def _key_of(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        raise S3Error("InvalidArgument", "The continuation token provided is incorrect") from None
