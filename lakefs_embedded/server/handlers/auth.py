"""Users, their credentials, groups, policies and their attachments."""

from starlette.responses import Response

from lakefs_embedded.auth.directory import Directory
from lakefs_embedded.auth.model import Statement, new_access_key_id, new_secret
from lakefs_embedded.errors import AlreadyExistsError, InvalidNameError
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest


def list_users(request: ApiRequest) -> Response:
    """GET /auth/users."""
    found = _directory(request).users.list(**request.query.paging)
    return responses.page(found, serializers.user)


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
    return responses.page(found, serializers.credential)


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
    return responses.page(found, serializers.group)


def _directory(request: ApiRequest) -> Directory:
    return request.backend.accounts.directory


def list_groups(request: ApiRequest) -> Response:
    """GET /auth/groups."""
    found = _directory(request).groups.list(**request.query.paging)
    return responses.page(found, serializers.group)


def create_group(request: ApiRequest) -> Response:
    """POST /auth/groups."""
    created = _directory(request).groups.create(request.body["id"], request.body.get("description") or "")
    return responses.json(201, serializers.group(created))


def get_group(request: ApiRequest) -> Response:
    """GET /auth/groups/{group}."""
    found = _directory(request).groups.get(request.path["group"])
    return responses.json(200, serializers.group(found))


def delete_group(request: ApiRequest) -> Response:
    """DELETE /auth/groups/{group}; its members remain users."""
    _directory(request).groups.delete(request.path["group"])
    return responses.empty()


def list_group_members(request: ApiRequest) -> Response:
    """GET /auth/groups/{group}/members."""
    found = _directory(request).groups.list_members(request.path["group"], **request.query.paging)
    return responses.page(found, serializers.user)


def add_group_membership(request: ApiRequest) -> Response:
    """PUT /auth/groups/{group}/members/{user}."""
    _directory(request).groups.add_member(request.path["group"], request.path["user"])
    return responses.empty(201)


def delete_group_membership(request: ApiRequest) -> Response:
    """DELETE /auth/groups/{group}/members/{user}; succeeds also for a non-member."""
    _directory(request).groups.remove_member(request.path["group"], request.path["user"])
    return responses.empty()


def list_policies(request: ApiRequest) -> Response:
    """GET /auth/policies."""
    return responses.page(_directory(request).policies.list(**request.query.paging), serializers.policy)


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
    return responses.page(listing(request.path["user"], **request.query.paging), serializers.policy)


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
    return responses.page(
        _directory(request).policies.list_of_group(request.path["group"], **request.query.paging),
        serializers.policy,
    )


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
