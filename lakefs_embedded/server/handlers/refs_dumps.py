"""Refs dumps and restores, synchronous or as tasks."""

from __future__ import annotations

from starlette.responses import Response

from lakefs_embedded.catalog import RefsDump
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest


def dump_refs(request: ApiRequest) -> Response:
    """PUT …/refs/dump."""
    return responses.json(201, serializers.refs_dump(request.catalog.dumps.dump_refs(request.repository)))


def restore_refs(request: ApiRequest) -> Response:
    """PUT …/refs/restore: 200 with an empty body."""
    request.catalog.dumps.restore_refs(request.repository, _dump(request), force=request.flag("force"))
    return responses.empty(200)


def dump_submit(request: ApiRequest) -> Response:
    """POST …/dump."""
    return responses.json(202, {"id": request.catalog.dumps.dump_submit(request.repository)})


def dump_status(request: ApiRequest) -> Response:
    """GET …/dump."""
    task = request.catalog.dumps.dump_status(request.repository, request.query.required("task_id"))
    return responses.json(200, serializers.refs_task(task))


def restore_submit(request: ApiRequest) -> Response:
    """POST …/restore."""
    task_id = request.catalog.dumps.restore_submit(
        request.repository, _dump(request), force=request.flag("force")
    )
    return responses.json(202, {"id": task_id})


def restore_status(request: ApiRequest) -> Response:
    """GET …/restore."""
    task = request.catalog.dumps.restore_status(request.repository, request.query.required("task_id"))
    return responses.json(200, serializers.refs_task(task))


def _dump(request: ApiRequest) -> RefsDump:
    body = request.body
    return RefsDump(body["commits_meta_range_id"], body["tags_meta_range_id"], body["branches_meta_range_id"])
