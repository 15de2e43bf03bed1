"""Groups and their members."""

from __future__ import annotations

from starlette.responses import Response

from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.handlers.named_pages import named_page
from lakefs_embedded.server.requests import ApiRequest


def list_groups(request: ApiRequest) -> Response:
    """GET /auth/groups."""
    found = request.backend.accounts.directory.groups.list(**request.query.paging)
    return named_page(found, serializers.group, lambda each: each.name)


def create_group(request: ApiRequest) -> Response:
    """POST /auth/groups."""
    created = request.backend.accounts.directory.groups.create(
        request.body["id"], request.body.get("description") or ""
    )
    return responses.json(201, serializers.group(created))


def get_group(request: ApiRequest) -> Response:
    """GET /auth/groups/{group}."""
    found = request.backend.accounts.directory.groups.get(request.path["group"])
    return responses.json(200, serializers.group(found))


def delete_group(request: ApiRequest) -> Response:
    """DELETE /auth/groups/{group}; its members remain users."""
    request.backend.accounts.directory.groups.delete(request.path["group"])
    return responses.empty()


def list_group_members(request: ApiRequest) -> Response:
    """GET /auth/groups/{group}/members."""
    found = request.backend.accounts.directory.groups.list_members(
        request.path["group"], **request.query.paging
    )
    return named_page(found, serializers.user, lambda each: each.name)


def add_group_membership(request: ApiRequest) -> Response:
    """PUT /auth/groups/{group}/members/{user}."""
    request.backend.accounts.directory.groups.add_member(request.path["group"], request.path["user"])
    return responses.empty(201)


def delete_group_membership(request: ApiRequest) -> Response:
    """DELETE /auth/groups/{group}/members/{user}; succeeds also for a non-member."""
    request.backend.accounts.directory.groups.remove_member(request.path["group"], request.path["user"])
    return responses.empty()
