"""Branches and tags; dumps and restores of refs, synchronous or as tasks."""

from __future__ import annotations

from starlette.responses import Response

from lakefs_embedded.catalog import RefsDump
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest
from lakefs_embedded.server.responses import RequestError


def list_branches(request: ApiRequest) -> Response:
    """GET …/branches."""
    found = request.catalog.branches.list_branches(
        request.repository, show_hidden=request.query.flag("show_hidden"), **request.query.paging
    )
    results = [serializers.ref(each) for each in found.results]
    return responses.page(results, has_more=found.has_more, next_offset=found.next_offset)


def create_branch(request: ApiRequest) -> Response:
    """POST …/branches: the only call with a plain text response."""
    commit_id = request.catalog.branches.create_branch(
        request.repository,
        request.body["name"],
        request.body["source"],
        hidden=request.flag("hidden"),
        force=request.flag("force"),
    )
    return responses.text(201, commit_id)


def get_branch(request: ApiRequest) -> Response:
    """GET …/branches/{branch}."""
    return responses.json(
        200, serializers.ref(request.catalog.branches.get_branch(request.repository, request.branch))
    )


def delete_branch(request: ApiRequest) -> Response:
    """DELETE …/branches/{branch}."""
    request.catalog.branches.delete_branch(
        request.repository, request.branch, force=request.query.flag("force")
    )
    return responses.empty()


def reset_branch(request: ApiRequest) -> Response:
    """PUT …/branches/{branch}."""
    kind = request.body["type"]
    if kind not in ("reset", "object", "common_prefix"):
        raise RequestError("unknown reset type")
    request.catalog.branches.reset_branch(
        request.repository,
        request.branch,
        kind=kind,
        path=request.body.get("path") or "",
        force=request.flag("force"),
    )
    return responses.empty()


def hard_reset_branch(request: ApiRequest) -> Response:
    """PUT …/branches/{branch}/hard_reset."""
    request.catalog.branches.hard_reset(
        request.repository, request.branch, request.query.required("ref"), force=request.query.flag("force")
    )
    return responses.empty()


def diff_branch(request: ApiRequest) -> Response:
    """GET …/branches/{branch}/diff."""
    found = request.catalog.branches.diff_branch(
        request.repository, request.branch, delimiter=request.query.text("delimiter"), **request.query.paging
    )
    results = [serializers.diff(each) for each in found.results]
    return responses.page(results, has_more=found.has_more, next_offset=found.next_offset)


def list_tags(request: ApiRequest) -> Response:
    """GET …/tags."""
    found = request.catalog.tags.list_tags(request.repository, **request.query.paging)
    results = [serializers.ref(each) for each in found.results]
    return responses.page(results, has_more=found.has_more, next_offset=found.next_offset)


def create_tag(request: ApiRequest) -> Response:
    """POST …/tags."""
    created = request.catalog.tags.create_tag(
        request.repository, request.body["id"], request.body["ref"], force=request.flag("force")
    )
    return responses.json(201, serializers.ref(created))


def get_tag(request: ApiRequest) -> Response:
    """GET …/tags/{tag}."""
    return responses.json(
        200, serializers.ref(request.catalog.tags.get_tag(request.repository, request.path["tag"]))
    )


def delete_tag(request: ApiRequest) -> Response:
    """DELETE …/tags/{tag}."""
    request.catalog.tags.delete_tag(
        request.repository, request.path["tag"], force=request.query.flag("force")
    )
    return responses.empty()


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
