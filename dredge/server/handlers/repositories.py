"""Repositories, their metadata and branch protection."""

from __future__ import annotations

from starlette.responses import Response

from dredge.graveler.errors import GravelerError, NotUniqueError, UnsupportedError
from dredge.server import answers, shapes
from dredge.server.calls import Call


def list_repositories(call: Call) -> Response:
    """GET /repositories."""
    found = call.catalog.list_repositories(search=call.query.text("search"), **call.query.paging)
    results = [shapes.repository(each) for each in found.results]
    return answers.page(results, has_more=found.has_more, next_offset=found.next_offset)


def create_repository(call: Call) -> Response:
    """POST /repositories."""
    body = call.body
    if call.flag("sample_data"):
        raise UnsupportedError("sample data is not available in the embedded server: not implemented")
    _refuse_taken_name(call, body["name"])
    call.backend.namespaces.check(body["storage_namespace"])
    bare = call.query.flag("bare")
    made = call.catalog.create_repository(
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
    return answers.answer(200, shapes.repository(call.catalog.get_repository(call.repository)))


def delete_repository(call: Call) -> Response:
    """DELETE /repositories/{repository}."""
    call.catalog.delete_repository(call.repository, force=call.query.flag("force"))
    return answers.empty()


def get_repository_metadata(call: Call) -> Response:
    """GET …/metadata."""
    return answers.answer(200, dict(call.catalog.get_repository_metadata(call.repository)))


def get_branch_protection(call: Call) -> Response:
    """GET …/settings/branch_protection."""
    patterns, etag = call.catalog.get_branch_protection(call.repository)
    return answers.answer(200, [{"pattern": each} for each in patterns], {"ETag": etag})


def set_branch_protection(call: Call) -> Response:
    """PUT …/settings/branch_protection."""
    call.catalog.set_branch_protection(
        call.repository, [each["pattern"] for each in call.body], if_match=call.headers.get("if-match")
    )
    return answers.empty()


def _refuse_taken_name(call: Call, name: str) -> None:
    """A taken name counts before a wrong namespace, so that creating again is always a conflict."""
    try:
        call.catalog.get_repository(name)
    except GravelerError:
        return
    raise NotUniqueError("error creating repository: not unique")
