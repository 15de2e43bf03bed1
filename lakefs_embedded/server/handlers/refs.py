"""Branches and tags."""

from starlette.responses import Response

from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest
from lakefs_embedded.server.responses import RequestError


def list_branches(request: ApiRequest) -> Response:
    """GET …/branches."""
    found = request.catalog.branches.list_branches(
        request.repository, show_hidden=request.query.flag("show_hidden"), **request.query.paging
    )
    return responses.page(found, serializers.ref)


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
    return responses.page(found, serializers.diff)


def list_tags(request: ApiRequest) -> Response:
    """GET …/tags."""
    found = request.catalog.tags.list_tags(request.repository, **request.query.paging)
    return responses.page(found, serializers.ref)


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
