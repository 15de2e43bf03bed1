"""Repositories, their metadata and branch protection."""

from collections.abc import Iterator

from starlette.responses import Response

from lakefs_embedded.auth.permissions import Action, repository_arn
from lakefs_embedded.catalog import Page, Repository
from lakefs_embedded.errors import (
    GravelerError,
    InsufficientPermissionsError,
    NotUniqueError,
    UnsupportedError,
)
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest


def list_repositories(request: ApiRequest) -> Response:
    """GET /repositories: the user's repositories."""
    if request.user is None or not request.backend.accounts.allows_somewhere(
        request.user.name, Action.LIST_REPOSITORIES
    ):
        raise InsufficientPermissionsError(
            f"insufficient permissions: not allowed to {Action.LIST_REPOSITORIES}"
        )
    amount = request.query.amount
    paging = request.query.paging | {"amount": amount + 1}
    shown: list[Repository] = []
    while len(shown) <= amount:
        found = request.catalog.repositories.list_repositories(search=request.query.text("search"), **paging)
        shown += [
            each
            for each in found.results
            if request.allows(Action.LIST_REPOSITORIES, repository_arn(each.name))
        ]
        if not found.has_more:
            break
        paging["after"] = found.next_offset
    more = shown[amount - 1].name if len(shown) > amount else ""
    return responses.page(Page(shown[:amount], bool(more), more), serializers.repository)


def create_repository(request: ApiRequest) -> Response:
    """POST /repositories."""
    body = request.body
    if request.flag("sample_data"):
        raise UnsupportedError("the embedded lakeFS has no sample data: create the repository without it")
    _refuse_taken_name(request, body["name"])
    request.backend.namespaces.check(body["storage_namespace"])
    request.backend.namespaces.check_unshared(body["storage_namespace"], _namespaces(request))
    bare = request.query.flag("bare")
    made = request.catalog.repositories.create_repository(
        body["name"],
        body["storage_namespace"],
        default_branch=body.get("default_branch") or "main",
        bare=bare,
        read_only=request.flag("read_only"),
        storage_id=body.get("storage_id") or "",
    )
    return responses.json(201, serializers.repository(made, with_read_only=not bare))


def get_repository(request: ApiRequest) -> Response:
    """GET /repositories/{repository}."""
    return responses.json(
        200, serializers.repository(request.catalog.repositories.get_repository(request.repository))
    )


def delete_repository(request: ApiRequest) -> Response:
    """DELETE /repositories/{repository}."""
    request.catalog.repositories.delete_repository(request.repository, force=request.query.flag("force"))
    return responses.empty()


def get_repository_metadata(request: ApiRequest) -> Response:
    """GET …/metadata."""
    return responses.json(200, dict(request.catalog.repositories.get_repository_metadata(request.repository)))


def set_repository_metadata(request: ApiRequest) -> Response:
    """POST …/metadata: sets keys."""
    request.catalog.repositories.update_repository_metadata(request.repository, put=request.body["metadata"])
    return responses.empty()


def delete_repository_metadata(request: ApiRequest) -> Response:
    """DELETE …/metadata: removes keys."""
    request.catalog.repositories.update_repository_metadata(request.repository, remove=request.body["keys"])
    return responses.empty()


def get_branch_protection(request: ApiRequest) -> Response:
    """GET …/settings/branch_protection."""
    patterns, etag = request.catalog.repositories.get_branch_protection(request.repository)
    return responses.json(200, [{"pattern": each} for each in patterns], {"ETag": etag})


def set_branch_protection(request: ApiRequest) -> Response:
    """PUT …/settings/branch_protection."""
    request.catalog.repositories.set_branch_protection(
        request.repository,
        [each["pattern"] for each in request.body],
        if_match=request.headers.get("if-match"),
    )
    return responses.empty()


def _namespaces(request: ApiRequest) -> Iterator[str]:
    after = ""
    while True:
        page = request.catalog.repositories.list_repositories(after=after, amount=1000)
        yield from (each.storage_namespace for each in page.results)
        if not page.has_more:
            return
        after = page.next_offset


def _refuse_taken_name(request: ApiRequest, name: str) -> None:
    try:
        request.catalog.repositories.get_repository(name)
    except GravelerError:
        return
    raise NotUniqueError("error creating repository: not unique")
