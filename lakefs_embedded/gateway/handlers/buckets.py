"""Repositories as buckets: list and look up. S3 lacks the parameters needed to create one."""

from __future__ import annotations

from starlette.responses import Response

from lakefs_embedded.errors import RepositoryNotFoundError
from lakefs_embedded.gateway import responses
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.requests import S3Request, repository_arn
from lakefs_embedded.gateway.xml import Node, timestamp

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
            if request.access_control.allows(request.user, "fs:ListRepositories", repository_arn(found.name)):
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
