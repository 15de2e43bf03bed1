"""Imports: staging objects from elsewhere on a branch without copying them."""

from __future__ import annotations

from starlette.responses import Response

from lakefs_embedded.auth import Action, Permission, namespace_arn, object_arn
from lakefs_embedded.catalog import ImportPath
from lakefs_embedded.errors import ForbiddenError
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.errors import RequestError
from lakefs_embedded.server.requests import ApiRequest


class ImportUnsupportedError(ForbiddenError):
    """The block store of this server does not support imports."""

    default = "import is not supported for this storage"


def import_start(request: ApiRequest) -> Response:
    """POST …/branches/{branch}/import; requires permission to import each source and write each destination."""
    repository = request.repository
    for each in request.body["paths"]:
        request.require(
            Permission(Action.IMPORT_FROM_STORAGE, namespace_arn(each["path"])),
            Permission(Action.WRITE_OBJECT, object_arn(repository, each["destination"])),
        )
    request.catalog.repositories.get_repository(repository)
    paths = [_path(each) for each in request.body["paths"]]
    if not request.backend.namespaces.can_import:
        raise ImportUnsupportedError
    commit = request.body["commit"]
    started = request.catalog.imports.import_start(
        repository,
        request.branch,
        paths,
        request.backend.namespaces.open_source,
        committer=request.committer,
        message=commit["message"],
        metadata=commit.get("metadata"),
        force=request.flag("force"),
        spelled=request.backend.namespaces.absolute,
    )
    return responses.json(202, {"id": started})


def import_status(request: ApiRequest) -> Response:
    """GET …/branches/{branch}/import."""
    found = request.catalog.imports.import_status(request.repository, request.query.required("id"))
    return responses.json(200, serializers.import_status(found))


def import_cancel(request: ApiRequest) -> Response:
    """DELETE …/branches/{branch}/import: 409 if it has ended."""
    request.catalog.imports.import_cancel(request.repository, request.query.required("id"))
    return responses.empty()


def _path(given: dict[str, str]) -> ImportPath:
    match given["type"]:
        case "object" | "common_prefix" as kind:
            return ImportPath(kind, given["path"], given["destination"])
    raise RequestError.body('Error at "/paths/type": value is not one of the allowed values')
