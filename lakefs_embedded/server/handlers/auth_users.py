"""Users and their credentials."""

from __future__ import annotations

from starlette.responses import Response

from lakefs_embedded.auth import Directory
from lakefs_embedded.auth.model import new_access_key_id, new_secret
from lakefs_embedded.errors import AlreadyExistsError
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.handlers.named_pages import named_page
from lakefs_embedded.server.requests import ApiRequest


def list_users(request: ApiRequest) -> Response:
    """GET /auth/users."""
    found = _directory(request).users.list(**request.query.paging)
    return named_page(found, serializers.user, lambda each: each.name)


def create_user(request: ApiRequest) -> Response:
    """POST /auth/users; `invite_user` is ignored, no mail is sent. With RBAC `none` the only user exists already."""
    if request.backend.settings.rbac == "none" and request.backend.accounts.initialized:
        raise AlreadyExistsError
    created = _directory(request).users.create(request.body["id"])
    return responses.json(201, serializers.user(created))


def get_named_user(request: ApiRequest) -> Response:
    """GET /auth/users/{user}."""
    return responses.json(200, serializers.user(_directory(request).users.get(request.path["user"])))


def delete_user(request: ApiRequest) -> Response:
    """DELETE /auth/users/{user}, with its credentials."""
    request.backend.accounts.check_removable(request.path["user"])
    _directory(request).users.delete(request.path["user"])
    return responses.empty()


def list_user_credentials(request: ApiRequest) -> Response:
    """GET /auth/users/{user}/credentials: ids without secrets."""
    found = _directory(request).credentials.list(request.path["user"], **request.query.paging)
    return named_page(found, serializers.credential, lambda each: each.access_key_id)


def create_credentials(request: ApiRequest) -> Response:
    """POST /auth/users/{user}/credentials: the only response with the new secret."""
    created = _directory(request).credentials.add(request.path["user"], new_access_key_id(), new_secret())
    return responses.json(201, serializers.credential_with_secret(created))


def get_credentials(request: ApiRequest) -> Response:
    """GET /auth/users/{user}/credentials/{key}."""
    found = _directory(request).credentials.get(request.path["user"], request.path["key"])
    return responses.json(200, serializers.credential(found))


def delete_credentials(request: ApiRequest) -> Response:
    """DELETE /auth/users/{user}/credentials/{key}."""
    _directory(request).credentials.delete(request.path["user"], request.path["key"])
    return responses.empty()


def list_user_groups(request: ApiRequest) -> Response:
    """GET /auth/users/{user}/groups."""
    found = _directory(request).groups.list_of_user(request.path["user"], **request.query.paging)
    return named_page(found, serializers.group, lambda each: each.name)


def _directory(request: ApiRequest) -> Directory:
    return request.backend.accounts.directory
