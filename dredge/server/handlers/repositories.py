"""Repositories, their metadata and branch protection."""

from __future__ import annotations

from starlette.responses import Response

from dredge.auth import Action, InsufficientPermissionsError, repository_arn
from dredge.graveler.catalog import Repository
from dredge.graveler.errors import GravelerError, MissingError, NotUniqueError, UnsupportedError
from dredge.server import answers, shapes
from dredge.server.calls import Call


def list_repositories(call: Call) -> Response:
    """GET /repositories: those that the user may list; it need not be allowed to list all."""
    if call.user is None or not call.backend.accounts.allows_somewhere(
        call.user.name, Action.LIST_REPOSITORIES
    ):
        raise InsufficientPermissionsError(
            f"insufficient permissions: not allowed to {Action.LIST_REPOSITORIES}"
        )
    amount = call.query.amount
    paging = call.query.paging | {"amount": amount + 1}
    shown: list[Repository] = []
    while len(shown) <= amount:
        found = call.catalog.repositories.list_repositories(search=call.query.text("search"), **paging)
        shown += [
            each
            for each in found.results
            if call.allowed(Action.LIST_REPOSITORIES, repository_arn(each.name))
        ]
        if not found.has_more:
            break
        paging["after"] = found.next_offset
    results = [shapes.repository(each) for each in shown[:amount]]
    has_more = len(shown) > amount
    return answers.page(results, has_more=has_more, next_offset=results[-1]["id"] if has_more else "")


def create_repository(call: Call) -> Response:
    """POST /repositories."""
    body = call.body
    if call.flag("sample_data"):
        raise UnsupportedError("sample data is not available in the embedded server: not implemented")
    _refuse_taken_name(call, body["name"])
    call.backend.namespaces.check(body["storage_namespace"])
    bare = call.query.flag("bare")
    made = call.catalog.repositories.create_repository(
        body["name"],
        body["storage_namespace"],
        default_branch=body.get("default_branch") or "main",
        bare=bare,
        read_only=call.flag("read_only"),
        storage_id=body.get("storage_id") or "",
    )
    return answers.answer(201, shapes.repository(made, with_read_only=not bare))


def get_repository(call: Call) -> Response:
    """GET /repositories/{repository}."""
    return answers.answer(200, shapes.repository(call.catalog.repositories.get_repository(call.repository)))


def delete_repository(call: Call) -> Response:
    """DELETE /repositories/{repository}."""
    call.catalog.repositories.delete_repository(call.repository, force=call.query.flag("force"))
    return answers.empty()


def get_repository_metadata(call: Call) -> Response:
    """GET …/metadata."""
    return answers.answer(200, dict(call.catalog.repositories.get_repository_metadata(call.repository)))


def set_repository_metadata(call: Call) -> Response:
    """POST …/metadata: adds and replaces keys."""
    call.catalog.repositories.update_repository_metadata(call.repository, put=call.body["metadata"])
    return answers.empty()


def delete_repository_metadata(call: Call) -> Response:
    """DELETE …/metadata: drops keys."""
    call.catalog.repositories.update_repository_metadata(call.repository, remove=call.body["keys"])
    return answers.empty()


def get_branch_protection(call: Call) -> Response:
    """GET …/settings/branch_protection."""
    patterns, etag = call.catalog.repositories.get_branch_protection(call.repository)
    return answers.answer(200, [{"pattern": each} for each in patterns], {"ETag": etag})


def set_branch_protection(call: Call) -> Response:
    """PUT …/settings/branch_protection."""
    call.catalog.repositories.set_branch_protection(
        call.repository, [each["pattern"] for each in call.body], if_match=call.headers.get("if-match")
    )
    return answers.empty()


def add_branch_protection(call: Call) -> Response:
    """POST …/branch_protection (deprecated): one pattern more."""
    patterns, etag = call.catalog.repositories.get_branch_protection(call.repository)
    if call.body["pattern"] not in patterns:
        call.catalog.repositories.set_branch_protection(
            call.repository, [*patterns, call.body["pattern"]], if_match=etag
        )
    return answers.empty()


def delete_branch_protection(call: Call) -> Response:
    """DELETE …/branch_protection (deprecated): one pattern less; 404 when it is not there."""
    patterns, etag = call.catalog.repositories.get_branch_protection(call.repository)
    if call.body["pattern"] not in patterns:
        raise MissingError
    rest = [each for each in patterns if each != call.body["pattern"]]
    call.catalog.repositories.set_branch_protection(call.repository, rest, if_match=etag)
    return answers.empty()


def check_branch_protection_set_allowed(call: Call) -> Response:
    """GET …/branch_protection/set_allowed: whoever gets here may."""
    call.catalog.repositories.get_repository(call.repository)
    return answers.empty()


def _refuse_taken_name(call: Call, name: str) -> None:
    """A taken name counts before a wrong namespace, so that creating again is always a conflict."""
    try:
        call.catalog.repositories.get_repository(name)
    except GravelerError:
        return
    raise NotUniqueError("error creating repository: not unique")
