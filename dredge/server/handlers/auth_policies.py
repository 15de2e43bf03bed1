"""Policies, and who has them."""

from __future__ import annotations

from starlette.responses import Response

from dredge.auth import Directory, Page, Policy, Statement
from dredge.auth.errors import InvalidNameError
from dredge.server import answers, shapes
from dredge.server.calls import Call
from dredge.server.handlers.auth_people import page


def list_policies(call: Call) -> Response:
    """GET /auth/policies."""
    return _page(_directory(call).list_policies(**call.query.paging))


def create_policy(call: Call) -> Response:
    """POST /auth/policies."""
    made = _directory(call).create_policy(call.body["id"], _statements(call))
    return answers.answer(201, shapes.policy(made))


def get_policy(call: Call) -> Response:
    """GET /auth/policies/{policy}."""
    return answers.answer(200, shapes.policy(_directory(call).get_policy(call.path["policy"])))


def update_policy(call: Call) -> Response:
    """PUT /auth/policies/{policy}: other statements, the same name."""
    if call.body["id"] != call.path["policy"]:
        raise InvalidNameError("can't update policy id")
    made = _directory(call).update_policy(call.path["policy"], _statements(call))
    return answers.answer(200, shapes.policy(made))


def delete_policy(call: Call) -> Response:
    """DELETE /auth/policies/{policy}: nobody has it afterwards, also not under a new policy of that name."""
    _directory(call).delete_policy(call.path["policy"])
    return answers.empty()


def list_user_policies(call: Call) -> Response:
    """GET /auth/users/{user}/policies: its own, or with `effective` those of its groups too."""
    directory = _directory(call)
    effective = call.query.flag("effective")
    listing = directory.list_effective_policies if effective else directory.list_user_policies
    return _page(listing(call.path["user"], **call.query.paging))


def attach_policy_to_user(call: Call) -> Response:
    """PUT /auth/users/{user}/policies/{policy}."""
    _directory(call).attach_to_user(call.path["policy"], call.path["user"])
    return answers.empty(201)


def detach_policy_from_user(call: Call) -> Response:
    """DELETE /auth/users/{user}/policies/{policy}."""
    _directory(call).detach_from_user(call.path["policy"], call.path["user"])
    return answers.empty()


def list_group_policies(call: Call) -> Response:
    """GET /auth/groups/{group}/policies."""
    return _page(_directory(call).list_group_policies(call.path["group"], **call.query.paging))


def attach_policy_to_group(call: Call) -> Response:
    """PUT /auth/groups/{group}/policies/{policy}."""
    _directory(call).attach_to_group(call.path["policy"], call.path["group"])
    return answers.empty(201)


def detach_policy_from_group(call: Call) -> Response:
    """DELETE /auth/groups/{group}/policies/{policy}."""
    _directory(call).detach_from_group(call.path["policy"], call.path["group"])
    return answers.empty()


def _statements(call: Call) -> tuple[Statement, ...]:
    return tuple(
        Statement(
            each["effect"], tuple(each["action"]), each["resource"], conditional=bool(each.get("condition"))
        )
        for each in call.body["statement"]
    )


def _page(found: Page[Policy]) -> Response:
    return page(found, shapes.policy, lambda each: each.name)


def _directory(call: Call) -> Directory:
    return call.backend.accounts.directory
