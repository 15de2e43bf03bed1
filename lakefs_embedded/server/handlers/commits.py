"""Commits: create, read, log, merge, revert, cherry-pick, diff, and imports of objects from elsewhere."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from lakefs_embedded.auth.permissions import Action, Permission, namespace_arn, object_arn
from lakefs_embedded.catalog import Commit, CommitOverrides, ImportPath
from lakefs_embedded.errors import (
    CommitNotFoundError,
    ForbiddenError,
    MergeConflictError,
    MissingError,
    RepositoryNotFoundError,
)
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest
from lakefs_embedded.server.responses import RequestError


def commit(request: ApiRequest) -> Response:
    """POST …/branches/{branch}/commits."""
    made = request.catalog.commits.commit(
        request.repository,
        request.branch,
        committer=request.committer,
        message=request.body["message"],
        metadata=request.body.get("metadata"),
        date=request.timestamp("date"),
        source_metarange=request.query.optional("source_metarange"),
        allow_empty=request.flag("allow_empty"),
        force=request.flag("force"),
    )
    return responses.json(201, serializers.commit(made))


def get_commit(request: ApiRequest) -> Response:
    """GET …/commits/{commit_id}: any ref expression; an unknown one is "commit not found"."""
    try:
        found = request.catalog.commits.get_commit(request.repository, request.path["commit_id"])
    except RepositoryNotFoundError:
        raise
    except MissingError:
        raise CommitNotFoundError from None
    return responses.json(200, serializers.commit(found))


def create_commit_record(request: ApiRequest) -> Response:
    """POST …/commits."""
    body = request.body
    created = request.timestamp("creation_date")
    if created is None:
        raise RequestError.body('property "creation_date" is missing')
    record = Commit(
        id=body["commit_id"],
        committer=body["committer"],
        message=body["message"],
        creation_date=created,
        metarange_id=body["metarange_id"],
        metadata=body.get("metadata") or {},
        parents=tuple(body["parents"]),
        version=body["version"],
        generation=body["generation"],
    )
    request.catalog.commits.create_commit_record(request.repository, record, force=request.flag("force"))
    return responses.empty()


def log_commits(request: ApiRequest) -> Response:
    """GET …/refs/{ref}/commits."""
    query = request.query
    found = request.catalog.commits.log(
        request.repository,
        request.path["ref"],
        objects=query.many("objects"),
        prefixes=query.many("prefixes"),
        limit=query.flag("limit"),
        first_parent=query.flag("first_parent"),
        since=_since(query.optional("since")),
        stop_at=query.optional("stop_at"),
        after=query.text("after"),
        amount=query.amount,
    )
    return responses.page(found, serializers.commit)


def merge(request: ApiRequest) -> Response:
    """POST …/refs/{source}/merge/{branch}; a conflict (409) has a MergeResult as its body."""
    body = request.body
    try:
        made = request.catalog.merges.merge(
            request.repository,
            request.path["source"],
            request.branch,
            committer=request.committer,
            message=body.get("message") or "",
            metadata=body.get("metadata"),
            strategy=body.get("strategy") or "",
            squash=request.flag("squash_merge"),
            allow_empty=request.flag("allow_empty"),
            force=request.flag("force"),
        )
    except MergeConflictError:
        return responses.json(409, {"reference": ""})
    return responses.json(200, {"reference": made.id})


def find_merge_base(request: ApiRequest) -> Response:
    """GET …/refs/{source}/merge/{branch}."""
    found = request.catalog.merges.find_merge_base(request.repository, request.path["source"], request.branch)
    return responses.json(200, serializers.merge_base(found))


def revert(request: ApiRequest) -> Response:
    """POST …/branches/{branch}/revert."""
    request.catalog.merges.revert(
        request.repository,
        request.branch,
        request.body["ref"],
        committer=request.committer,
        parent_number=request.body["parent_number"],
        overrides=_overrides(request.body),
        allow_empty=request.flag("allow_empty"),
        force=request.flag("force"),
    )
    return responses.empty()


def cherry_pick(request: ApiRequest) -> Response:
    """POST …/branches/{branch}/cherry-pick."""
    made = request.catalog.merges.cherry_pick(
        request.repository,
        request.branch,
        request.body["ref"],
        committer=request.committer,
        parent_number=request.body.get("parent_number"),
        overrides=_overrides(request.body),
        force=request.flag("force"),
    )
    return responses.json(201, serializers.commit(made))


def diff_refs(request: ApiRequest) -> Response:
    """GET …/refs/{left}/diff/{right}."""
    kind = request.query.text("type", "three_dot")
    if kind not in ("two_dot", "three_dot"):
        raise RequestError.parameter("type", "query", "value is not one of the allowed values")
    found = request.catalog.merges.diff_refs(
        request.repository,
        request.path["left"],
        request.path["right"],
        two_dot=kind == "two_dot",
        delimiter=request.query.text("delimiter"),
        **request.query.paging,
    )
    return responses.page(found, serializers.diff)


def _overrides(body: Mapping[str, Any]) -> CommitOverrides | None:
    given = body.get("commit_overrides")
    return None if given is None else CommitOverrides(given.get("message"), given.get("metadata"))


def _since(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise RequestError.parameter("since", "query", f"value {value}: an invalid date-time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


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
