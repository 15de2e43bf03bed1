"""Imports: objects that lie elsewhere, taken into a branch where they lie."""

from __future__ import annotations

from starlette.responses import Response

from dredge.auth import Action, Permission, namespace_arn, object_arn
from dredge.graveler.catalog import ImportPath
from dredge.graveler.errors import ForbiddenError
from dredge.server import answers, shapes
from dredge.server.calls import Call
from dredge.server.failures import RequestError


class ImportUnsupportedError(ForbiddenError):
    """The block store of this server has no imports."""

    default = "import is not supported for this storage"


def import_start(call: Call) -> Response:
    """POST …/branches/{branch}/import: needs the right to read each source and to write each destination."""
    repository = call.repository
    for each in call.body["paths"]:
        call.require(
            Permission(Action.IMPORT_FROM_STORAGE, namespace_arn(each["path"])),
            Permission(Action.WRITE_OBJECT, object_arn(repository, each["destination"])),
        )
    call.catalog.repositories.get_repository(repository)
    paths = [_path(each) for each in call.body["paths"]]
    if not call.backend.namespaces.can_import:
        raise ImportUnsupportedError
    commit = call.body["commit"]
    started = call.catalog.imports.import_start(
        repository,
        call.branch,
        paths,
        call.backend.namespaces.open_source,
        committer=call.committer,
        message=commit["message"],
        metadata=commit.get("metadata"),
        force=call.flag("force"),
    )
    return answers.answer(202, {"id": started})


def import_status(call: Call) -> Response:
    """GET …/branches/{branch}/import."""
    found = call.catalog.imports.import_status(call.repository, call.query.required("id"))
    return answers.answer(200, shapes.import_status(found))


def import_cancel(call: Call) -> Response:
    """DELETE …/branches/{branch}/import: 409 when it has ended already."""
    call.catalog.imports.import_cancel(call.repository, call.query.required("id"))
    return answers.empty()


def _path(given: dict[str, str]) -> ImportPath:
    match given["type"]:
        case "object" | "common_prefix" as kind:
            return ImportPath(kind, given["path"], given["destination"])
    raise RequestError.body('Error at "/paths/type": value is not one of the allowed values')
