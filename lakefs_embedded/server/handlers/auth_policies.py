"""Policies and their attachments to users and groups."""

from __future__ import annotations

from starlette.responses import Response

from lakefs_embedded.auth import Directory, Page, Policy, Statement
from lakefs_embedded.errors import InvalidNameError
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.handlers.named_pages import named_page
from lakefs_embedded.server.requests import ApiRequest


def list_policies(request: ApiRequest) -> Response:
    """GET /auth/policies."""
    return _page(_directory(request).policies.list(**request.query.paging))


def create_policy(request: ApiRequest) -> Response:
    """POST /auth/policies."""
    created = _directory(request).policies.create(request.body["id"], _statements(request))
    return responses.json(201, serializers.policy(created))


def get_policy(request: ApiRequest) -> Response:
    """GET /auth/policies/{policy}."""
    return responses.json(200, serializers.policy(_directory(request).policies.get(request.path["policy"])))


def update_policy(request: ApiRequest) -> Response:
    """PUT /auth/policies/{policy}: replaces the statements; the name cannot change."""
    if request.body["id"] != request.path["policy"]:
        raise InvalidNameError("can't update policy id")
    updated = _directory(request).policies.update(request.path["policy"], _statements(request))
    return responses.json(200, serializers.policy(updated))


def delete_policy(request: ApiRequest) -> Response:
    """DELETE /auth/policies/{policy}, after detaching it: a later policy of that name starts unattached."""
    _directory(request).policies.delete(request.path["policy"])
    return responses.empty()


def list_user_policies(request: ApiRequest) -> Response:
    """GET /auth/users/{user}/policies: the user's own; with `effective` those of its groups too."""
    policies = _directory(request).policies
    listing = policies.list_effective if request.query.flag("effective") else policies.list_of_user
    return _page(listing(request.path["user"], **request.query.paging))


def attach_policy_to_user(request: ApiRequest) -> Response:
    """PUT /auth/users/{user}/policies/{policy}."""
    _directory(request).policies.attach_to_user(request.path["policy"], request.path["user"])
    return responses.empty(201)


def detach_policy_from_user(request: ApiRequest) -> Response:
    """DELETE /auth/users/{user}/policies/{policy}."""
    _directory(request).policies.detach_from_user(request.path["policy"], request.path["user"])
    return responses.empty()


def list_group_policies(request: ApiRequest) -> Response:
    """GET /auth/groups/{group}/policies."""
    return _page(_directory(request).policies.list_of_group(request.path["group"], **request.query.paging))


def attach_policy_to_group(request: ApiRequest) -> Response:
    """PUT /auth/groups/{group}/policies/{policy}."""
    _directory(request).policies.attach_to_group(request.path["policy"], request.path["group"])
    return responses.empty(201)


def detach_policy_from_group(request: ApiRequest) -> Response:
    """DELETE /auth/groups/{group}/policies/{policy}."""
    _directory(request).policies.detach_from_group(request.path["policy"], request.path["group"])
    return responses.empty()


def _statements(request: ApiRequest) -> tuple[Statement, ...]:
    return tuple(
        Statement(
            each["effect"], tuple(each["action"]), each["resource"], conditional=bool(each.get("condition"))
        )
        for each in request.body["statement"]
    )


def _page(found: Page[Policy]) -> Response:
    return named_page(found, serializers.policy, lambda each: each.name)


def _directory(request: ApiRequest) -> Directory:
    return request.backend.accounts.directory
