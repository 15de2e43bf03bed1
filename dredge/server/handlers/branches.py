"""Branches and tags."""

from __future__ import annotations

from starlette.responses import Response

from dredge.server import answers, shapes
from dredge.server.calls import Call
from dredge.server.failures import RequestError


def list_branches(call: Call) -> Response:
    """GET …/branches."""
    found = call.catalog.branches.list_branches(
        call.repository, show_hidden=call.query.flag("show_hidden"), **call.query.paging
    )
    results = [shapes.ref(each) for each in found.results]
    return answers.page(results, has_more=found.has_more, next_offset=found.next_offset)


def create_branch(call: Call) -> Response:
    """POST …/branches: the one call that answers in plain text."""
    commit_id = call.catalog.branches.create_branch(
        call.repository,
        call.body["name"],
        call.body["source"],
        hidden=call.flag("hidden"),
        force=call.flag("force"),
    )
    return answers.text(201, commit_id)


def get_branch(call: Call) -> Response:
    """GET …/branches/{branch}."""
    return answers.answer(200, shapes.ref(call.catalog.branches.get_branch(call.repository, call.branch)))


def delete_branch(call: Call) -> Response:
    """DELETE …/branches/{branch}."""
    call.catalog.branches.delete_branch(call.repository, call.branch, force=call.query.flag("force"))
    return answers.empty()


def reset_branch(call: Call) -> Response:
    """PUT …/branches/{branch}."""
    kind = call.body["type"]
    if kind not in ("reset", "object", "common_prefix"):
        raise RequestError("unknown reset type")
    call.catalog.branches.reset_branch(
        call.repository,
        call.branch,
        kind=kind,
        path=call.body.get("path") or "",
        force=call.flag("force"),
    )
    return answers.empty()


def hard_reset_branch(call: Call) -> Response:
    """PUT …/branches/{branch}/hard_reset."""
    call.catalog.branches.hard_reset(
        call.repository, call.branch, call.query.required("ref"), force=call.query.flag("force")
    )
    return answers.empty()


def diff_branch(call: Call) -> Response:
    """GET …/branches/{branch}/diff."""
    found = call.catalog.branches.diff_branch(
        call.repository, call.branch, delimiter=call.query.text("delimiter"), **call.query.paging
    )
    results = [shapes.diff(each) for each in found.results]
    return answers.page(results, has_more=found.has_more, next_offset=found.next_offset)


def list_tags(call: Call) -> Response:
    """GET …/tags."""
    found = call.catalog.tags.list_tags(call.repository, **call.query.paging)
    results = [shapes.ref(each) for each in found.results]
    return answers.page(results, has_more=found.has_more, next_offset=found.next_offset)


def create_tag(call: Call) -> Response:
    """POST …/tags."""
    made = call.catalog.tags.create_tag(
        call.repository, call.body["id"], call.body["ref"], force=call.flag("force")
    )
    return answers.answer(201, shapes.ref(made))


def get_tag(call: Call) -> Response:
    """GET …/tags/{tag}."""
    return answers.answer(200, shapes.ref(call.catalog.tags.get_tag(call.repository, call.path["tag"])))


def delete_tag(call: Call) -> Response:
    """DELETE …/tags/{tag}."""
    call.catalog.tags.delete_tag(call.repository, call.path["tag"], force=call.query.flag("force"))
    return answers.empty()
