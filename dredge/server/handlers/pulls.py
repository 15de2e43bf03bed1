"""Pull requests."""

from __future__ import annotations

from typing import Any, cast

from starlette.responses import Response

from dredge.auth import Action, Permission, branch_arn
from dredge.graveler.catalog import PullStatus
from dredge.graveler.errors import MergeConflictError
from dredge.server import answers, shapes
from dredge.server.calls import Call
from dredge.server.failures import RequestError

_STATUSES = ("open", "closed", "merged")


def create_pull_request(call: Call) -> Response:
    """POST …/pulls."""
    body = call.body
    made = call.catalog.pulls.create_pull_request(
        call.repository,
        title=body["title"],
        source=body["source_branch"],
        destination=body["destination_branch"],
        author=call.committer,
        description=body.get("description") or "",
    )
    return answers.answer(201, {"id": made})


def get_pull_request(call: Call) -> Response:
    """GET …/pulls/{pull}."""
    found = call.catalog.pulls.get_pull_request(call.repository, call.path["pull"])
    return answers.answer(200, shapes.pull_request(found))


def list_pull_requests(call: Call) -> Response:
    """GET …/pulls: all, the open, or the closed ones."""
    wanted = call.query.text("status", "all")
    if wanted not in ("all", "open", "closed"):
        raise RequestError.parameter("status", "query", "value is not one of the allowed values")
    status = None if wanted == "all" else cast(PullStatus, wanted)
    page = call.catalog.pulls.list_pull_requests(call.repository, status=status, **call.query.paging)
    results: list[dict[str, Any]] = [shapes.pull_request(each) for each in page.results]
    return answers.page(results, has_more=page.has_more, next_offset=page.next_offset)


def update_pull_request(call: Call) -> Response:
    """PATCH …/pulls/{pull}: only what is given."""
    body = call.body
    status = body.get("status")
    if status is not None and status not in _STATUSES:
        raise RequestError.body(
            'doesn\'t match schema #/components/schemas/PullRequestBasic: Error at "/status": '
            "value is not one of the allowed values"
        )
    call.catalog.pulls.update_pull_request(
        call.repository,
        call.path["pull"],
        status=status,
        title=body.get("title"),
        description=body.get("description"),
    )
    return answers.empty()


def merge_pull_request(call: Call) -> Response:
    """PUT …/pulls/{pull}/merge; a conflict has a body of its own, and needs what a merge needs."""
    found = call.catalog.pulls.get_pull_request(call.repository, call.path["pull"])
    call.require(Permission(Action.CREATE_COMMIT, branch_arn(call.repository, found.destination)))
    try:
        made = call.catalog.pulls.merge_pull_request(call.repository, found.id, committer=call.committer)
    except MergeConflictError:
        return answers.answer(409, {"reference": ""})
    return answers.answer(200, {"reference": made.id})
