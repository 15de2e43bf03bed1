"""Runs of actions, and what their hooks wrote."""

from __future__ import annotations

from starlette.responses import Response

from dredge.server import responses, serializers
from dredge.server.requests import ApiRequest


def list_repository_runs(request: ApiRequest) -> Response:
    """GET …/actions/runs, filtered by `branch` or `commit`."""
    query = request.query
    page = request.catalog.actions.list_repository_runs(
        request.repository,
        branch=query.text("branch"),
        commit_id=query.text("commit"),
        after=query.text("after"),
        amount=query.amount,
    )
    results = [serializers.action_run(each) for each in page.results]
    return responses.page(results, has_more=page.has_more, next_offset=page.next_offset)


def get_run(request: ApiRequest) -> Response:
    """GET …/actions/runs/{run}."""
    found = request.catalog.actions.get_run(request.repository, request.path["run"])
    return responses.json(200, serializers.action_run(found))


def list_run_hooks(request: ApiRequest) -> Response:
    """GET …/actions/runs/{run}/hooks."""
    page = request.catalog.actions.list_run_hooks(
        request.repository,
        request.path["run"],
        after=request.query.text("after"),
        amount=request.query.amount,
    )
    by_specification = request.catalog.settings.profile == "design"
    results = [serializers.hook_run(each, by_specification=by_specification) for each in page.results]
    return responses.page(results, has_more=page.has_more, next_offset=page.next_offset)


def get_run_hook_output(request: ApiRequest) -> Response:
    """GET …/actions/runs/{run}/hooks/{hook_run}/output: a file, or nothing for a hook that was skipped."""
    run, hook_run = request.path["run"], request.path["hook_run"]
    output = request.catalog.actions.get_run_hook_output(request.repository, run, hook_run)
    if output is None:
        return responses.empty(200)
    headers = {
        "Content-Disposition": f"attachment; filename={hook_run}.log",
        "Content-Type": "application/octet-stream",
    }
    return Response(output, 200, headers)
