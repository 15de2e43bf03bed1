"""The server side of garbage collection: rules, active commits, uncommitted addresses, metadata files.

The synchronous prepare_commits reproduces an odd response of real servers: where URLs are not pre-signed, the CSV is
written, but the status is 400 and the body is two JSON documents, the error and then the result.

Source: lakeFS pkg/api/controller.go (PrepareGarbageCollectionCommits).
"""

from contextlib import suppress

from starlette.responses import Response

from lakefs_embedded.catalog import PresignUnsupportedError, Rules
from lakefs_embedded.errors import GravelerError, MissingError
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.requests import ApiRequest


class OldServerError(GravelerError):
    """The response of a server before 1.75 to a call unknown to it."""

    status = 500
    default = "invalid API endpoint"


def get_gc_rules(request: ApiRequest) -> Response:
    """GET …/settings/gc_rules."""
    return responses.json(200, serializers.gc_rules(request.catalog.garbage.get_gc_rules(request.repository)))


def set_gc_rules(request: ApiRequest) -> Response:
    """PUT …/settings/gc_rules. The last rule of a branch wins."""
    days = {each["branch_id"]: each["retention_days"] for each in request.body["branches"]}
    request.catalog.garbage.set_gc_rules(
        request.repository, Rules(request.body["default_retention_days"], days)
    )
    return responses.empty()


def delete_gc_rules(request: ApiRequest) -> Response:
    """DELETE …/settings/gc_rules (an empty file stays)."""
    request.catalog.garbage.delete_gc_rules(request.repository)
    return responses.empty()


def prepare_commits(request: ApiRequest) -> Response:
    """POST …/gc/prepare_commits."""
    settings = request.backend.settings
    if settings.defect("prepare_commits_404"):
        raise MissingError
    prepared = request.catalog.garbage.prepare_commits(request.repository)
    twice = settings.defect("double_body_prepare_commits")
    try:
        if twice:
            raise PresignUnsupportedError
        signed = request.catalog.garbage.presign_commits(request.repository, prepared)
        return responses.json(201, serializers.prepared_commits(prepared, presigned_url=signed.url))
    except PresignUnsupportedError as error:
        fields = serializers.prepared_commits(prepared, presigned_url="")
        both = responses.to_json({"message": str(error)}) + responses.to_json(fields)
        return Response(both, 400, responses.JSON_HEADERS)


def prepare_commits_async(request: ApiRequest) -> Response:
    """POST …/gc/prepare_commits/async."""
    _old_server(request)
    if request.backend.settings.defect("prepare_commits_404"):
        raise MissingError
    return responses.json(202, {"id": request.catalog.garbage.prepare_commits_async(request.repository)})


def prepare_commits_status(request: ApiRequest) -> Response:
    """GET …/gc/prepare_commits/status."""
    _old_server(request)
    garbage = request.catalog.garbage
    status = garbage.prepare_commits_status(request.repository, request.query.required("id"))
    url = None
    if status.result is not None:
        with suppress(PresignUnsupportedError):
            url = garbage.presign_commits(request.repository, status.result).url
    return responses.json(200, serializers.prepare_status(status, presigned_url=url))


def prepare_uncommitted(request: ApiRequest) -> Response:
    """POST …/gc/prepare_uncommited (misspelled in the API)."""
    prepared = request.catalog.garbage.prepare_uncommitted(
        request.repository, request.body.get("continuation_token")
    )
    return responses.json(201, serializers.prepared_uncommitted(prepared))


def get_meta_range(request: ApiRequest) -> Response:
    """GET …/metadata/meta_range/{id}: its location, whether or not it exists."""
    return _metadata_location(request)


def get_range(request: ApiRequest) -> Response:
    """GET …/metadata/range/{id}: its location, whether or not it exists."""
    return _metadata_location(request)


def get_metadata_object(request: ApiRequest) -> Response:
    """GET …/metadata/object/{type}/{id}: the file's bytes, or a redirection to the store; 410 if it does not exist."""
    if request.query.flag("presign"):
        key = f"_lakefs/{request.path['id']}"
        return responses.redirect(request.catalog.garbage.presign_metadata(request.repository, key).url)
    data = request.catalog.commits.read_metadata_object(request.repository, request.path["id"])
    return Response(
        data, 200, {"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff"}
    )


def _metadata_location(request: ApiRequest) -> Response:
    request.catalog.repositories.get_repository(request.repository)
    location = f"_lakefs/{request.path['id']}"
    return responses.json(200, {"location": location}, {"Location": location})


def _old_server(request: ApiRequest) -> None:
    if request.backend.settings.defect("prepare_commits_500_async"):
        raise OldServerError
