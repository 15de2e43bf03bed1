"""Users, their credentials, and groups with their members."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from dredge.auth import Directory, Page
from dredge.auth.secrets import new_access_key_id, new_secret
from dredge.server import answers, shapes
from dredge.server.calls import Call


def list_users(call: Call) -> Response:
    """GET /auth/users."""
    found = _directory(call).list_users(**call.query.paging)
    return page(found, shapes.user, lambda each: each.name)


def create_user(call: Call) -> Response:
    """POST /auth/users; nobody is invited by mail here."""
    made = _directory(call).create_user(call.body["id"])
    return answers.answer(201, shapes.user(made))


def get_named_user(call: Call) -> Response:
    """GET /auth/users/{user}."""
    return answers.answer(200, shapes.user(_directory(call).get_user(call.path["user"])))


def delete_user(call: Call) -> Response:
    """DELETE /auth/users/{user}: its credentials end with it."""
    call.backend.accounts.check_removable(call.path["user"])
    _directory(call).delete_user(call.path["user"])
    return answers.empty()


def list_user_credentials(call: Call) -> Response:
    """GET /auth/users/{user}/credentials: ids, never secrets."""
    found = _directory(call).list_credentials(call.path["user"], **call.query.paging)
    return page(found, shapes.credential, lambda each: each.access_key_id)


def create_credentials(call: Call) -> Response:
    """POST /auth/users/{user}/credentials: shows the secret this one time."""
    made = _directory(call).add_credential(call.path["user"], new_access_key_id(), new_secret())
    return answers.answer(201, shapes.credential_with_secret(made))


def get_credentials(call: Call) -> Response:
    """GET /auth/users/{user}/credentials/{key}."""
    found = _directory(call).get_credential(call.path["user"], call.path["key"])
    return answers.answer(200, shapes.credential(found))


def delete_credentials(call: Call) -> Response:
    """DELETE /auth/users/{user}/credentials/{key}."""
    _directory(call).delete_credential(call.path["user"], call.path["key"])
    return answers.empty()


def list_user_groups(call: Call) -> Response:
    """GET /auth/users/{user}/groups."""
    found = _directory(call).list_groups_of(call.path["user"], **call.query.paging)
    return page(found, shapes.group, lambda each: each.name)


def list_groups(call: Call) -> Response:
    """GET /auth/groups."""
    found = _directory(call).list_groups(**call.query.paging)
    return page(found, shapes.group, lambda each: each.name)


def create_group(call: Call) -> Response:
    """POST /auth/groups."""
    made = _directory(call).create_group(call.body["id"], call.body.get("description") or "")
    return answers.answer(201, shapes.group(made))


def get_group(call: Call) -> Response:
    """GET /auth/groups/{group}."""
    return answers.answer(200, shapes.group(_directory(call).get_group(call.path["group"])))


def delete_group(call: Call) -> Response:
    """DELETE /auth/groups/{group}: its members stay users."""
    _directory(call).delete_group(call.path["group"])
    return answers.empty()


def list_group_members(call: Call) -> Response:
    """GET /auth/groups/{group}/members."""
    found = _directory(call).list_members(call.path["group"], **call.query.paging)
    return page(found, shapes.user, lambda each: each.name)


def add_group_membership(call: Call) -> Response:
    """PUT /auth/groups/{group}/members/{user}."""
    _directory(call).add_member(call.path["group"], call.path["user"])
    return answers.empty(201)


def delete_group_membership(call: Call) -> Response:
    """DELETE /auth/groups/{group}/members/{user}; who is no member is none afterwards either."""
    _directory(call).remove_member(call.path["group"], call.path["user"])
    return answers.empty()


def page[T](found: Page[T], shape: Callable[[T], shapes.Shape], name: Callable[[T], str]) -> Response:
    """A page of a listing by name."""
    results = [shape(each) for each in found.results]
    last = name(found.results[-1]) if found.results else ""
    return answers.page(results, has_more=found.has_more, next_offset=last)


def _directory(call: Call) -> Directory:
    return call.backend.accounts.directory
