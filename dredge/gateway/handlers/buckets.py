"""Repositories as buckets: list, look up. S3 cannot say enough to make one."""

from __future__ import annotations

from starlette.responses import Response

from dredge.gateway import answers
from dredge.gateway.failures import S3Error
from dredge.gateway.requests import S3Request, repository_arn
from dredge.gateway.xml import Node, moment
from dredge.graveler.errors import RepositoryNotFoundError

PAGE = 1000


def list_buckets(request: S3Request) -> Response:
    """GET /: all repositories, those that a user may not see left out."""
    buckets: list[Node] = []
    after, more = "", True
    while more:
        page = request.catalog.repositories.list_repositories(
            prefix=request.query.get("prefix", ""), after=after, amount=PAGE
        )
        for found in page.results:
            if request.gatekeeper.allows(request.user, "fs:ListRepositories", repository_arn(found.name)):
                fields: list[Node] = [("Name", found.name), ("CreationDate", moment(found.creation_date))]
                buckets.append(("Bucket", fields))
        more, after = page.has_more, page.next_offset
    owner: list[Node] = [("ID", request.user), ("DisplayName", request.user)]
    return answers.document("ListAllMyBucketsResult", ("Owner", owner), ("Buckets", buckets))


def head_bucket(request: S3Request) -> Response:
    """HEAD /<repository>."""
    request.require("fs:ReadRepository", repository_arn(request.repository))
    request.catalog.repositories.get_repository(request.repository)
    return answers.empty(200, {"x-amz-bucket-region": "us-east-1"})


def get_bucket_location(request: S3Request) -> Response:
    """GET /<repository>?location: the default region, which S3 says with an empty element."""
    request.require("fs:ReadRepository", repository_arn(request.repository))
    request.catalog.repositories.get_repository(request.repository)
    return answers.document("LocationConstraint")


def get_bucket_versioning(request: S3Request) -> Response:
    """GET /<repository>?versioning: never switched on; commits are the versions."""
    request.require("fs:ReadRepository", repository_arn(request.repository))
    request.catalog.repositories.get_repository(request.repository)
    return answers.document("VersioningConfiguration")


def create_bucket(request: S3Request) -> Response:
    """PUT /<repository>: 409 for one that exists, as clients expect who make sure; else not implemented."""
    request.require("fs:CreateRepository", repository_arn(request.repository))
    try:
        request.catalog.repositories.get_repository(request.repository)
    except RepositoryNotFoundError:
        raise S3Error(
            "NotImplemented", "Repositories are made through the lakeFS API, not through S3."
        ) from None
    raise S3Error("BucketAlreadyExists")
