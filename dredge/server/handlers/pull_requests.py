"""Pull requests."""

from __future__ import annotations

from typing import Any, cast

from starlette.responses import Response

from dredge.auth import Action, Permission, branch_arn
from dredge.graveler.catalog import PullStatus
from dredge.graveler.errors import MergeConflictError
from dredge.server import responses, serializers
from dredge.server.errors import RequestError
from dredge.server.requests import ApiRequest

_STATUSES = ("open", "closed", "merged")


def create_pull_request(request: ApiRequest) -> Response:
    """POST …/pulls."""
    body = request.body
    made = request.catalog.pulls.create_pull_request(
        request.repository,
        title=body["title"],
        source=body["source_branch"],
        destination=body["destination_branch"],
        author=request.committer,
        description=body.get("description") or "",
    )
    return responses.json(201, {"id": made})


def get_pull_request(request: ApiRequest) -> Response:
    """GET …/pulls/{pull}."""
    found = request.catalog.pulls.get_pull_request(request.repository, request.path["pull"])
    return responses.json(200, serializers.pull_request(found))


def list_pull_requests(request: ApiRequest) -> Response:
    """GET …/pulls, filtered by `status`: all, open or closed."""
    wanted = request.query.text("status", "all")
    if wanted not in ("all", "open", "closed"):
        raise RequestError.parameter("status", "query", "value is not one of the allowed values")
    status = None if wanted == "all" else cast(PullStatus, wanted)
    page = request.catalog.pulls.list_pull_requests(request.repository, status=status, **request.query.paging)
    results: list[dict[str, Any]] = [serializers.pull_request(each) for each in page.results]
    return responses.page(results, has_more=page.has_more, next_offset=page.next_offset)


def update_pull_request(request: ApiRequest) -> Response:
    """PATCH …/pulls/{pull}: changes only the given fields."""
    body = request.body
    status = body.get("status")
    if status is not None and status not in _STATUSES:
        raise RequestError.body(
            'doesn\'t match schema #/components/schemas/PullRequestBasic: Error at "/status": '
            "value is not one of the allowed values"
        )
    request.catalog.pulls.update_pull_request(
        request.repository,
        request.path["pull"],
        status=status,
        title=body.get("title"),
        description=body.get("description"),
    )
    return responses.empty()


def merge_pull_request(request: ApiRequest) -> Response:
    """PUT …/pulls/{pull}/merge; requires permission to commit on the destination; a conflict as for a merge."""
    found = request.catalog.pulls.get_pull_request(request.repository, request.path["pull"])
    request.require(Permission(Action.CREATE_COMMIT, branch_arn(request.repository, found.destination)))
    try:
        made = request.catalog.pulls.merge_pull_request(
            request.repository, found.id, committer=request.committer
        )
    except MergeConflictError:
        return responses.json(409, {"reference": ""})
    return responses.json(200, {"reference": made.id})
