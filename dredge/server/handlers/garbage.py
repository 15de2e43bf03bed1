"""What garbage collection asks of a server: rules, active commits, uncommitted addresses, metadata files.

The synchronous prepare call has an odd answer that is today's real behaviour, not a fault of this server:
where no URL can be pre-signed, the CSV is written, the status is 400, and the body is two JSON documents
one after the other.

Source: lakeFS pkg/api/controller.go (PrepareGarbageCollectionCommits).
"""

from __future__ import annotations

from starlette.responses import Response

from dredge.graveler.catalog import Rules
from dredge.graveler.errors import GravelerError, MissingError
from dredge.server import answers, shapes
from dredge.server.calls import Call


class OldServerError(GravelerError):
    """What a server before 1.75 answers to a call that it does not know."""

    status = 500
    default = "invalid API endpoint"


def get_gc_rules(call: Call) -> Response:
    """GET …/settings/gc_rules, and its deprecated twin GET …/gc/rules."""
    return answers.answer(200, shapes.gc_rules(call.catalog.garbage.get_gc_rules(call.repository)))


def set_gc_rules(call: Call) -> Response:
    """PUT …/settings/gc_rules, and its deprecated twin POST …/gc/rules. The last rule of a branch counts."""
    days = {each["branch_id"]: each["retention_days"] for each in call.body["branches"]}
    call.catalog.garbage.set_gc_rules(call.repository, Rules(call.body["default_retention_days"], days))
    return answers.empty()


def delete_gc_rules(call: Call) -> Response:
    """DELETE …/settings/gc_rules, and its deprecated twin DELETE …/gc/rules."""
    call.catalog.garbage.delete_gc_rules(call.repository)
    return answers.empty()


def check_gc_rules_set_allowed(call: Call) -> Response:
    """GET …/gc/rules/set_allowed."""
    call.catalog.repositories.get_repository(call.repository)
    return answers.empty()


def prepare_commits(call: Call) -> Response:
    """POST …/gc/prepare_commits."""
    settings = call.backend.settings
    if settings.defect("prepare_commits_404"):
        raise MissingError
    made = call.catalog.garbage.prepare_commits(call.repository)
    shape = shapes.prepared_commits(made, presigned_url="")
    if settings.prepare_commits_answer == "single" and not settings.defect("double_body_prepare_commits"):
        del shape["gc_commits_presigned_url"]
        return answers.answer(201, shape)
    problem = "operation not supported"
    if settings.blockstore == "local":
        problem = f"local adapter presigned URL: {problem}"
    both = answers.to_json({"message": problem}) + answers.to_json(shape)
    return Response(both, 400, answers.JSON_HEADERS)


def prepare_commits_async(call: Call) -> Response:
    """POST …/gc/prepare_commits/async."""
    _old_server(call)
    if call.backend.settings.defect("prepare_commits_404"):
        raise MissingError
    return answers.answer(202, {"id": call.catalog.garbage.prepare_commits_async(call.repository)})


def prepare_commits_status(call: Call) -> Response:
    """GET …/gc/prepare_commits/status."""
    _old_server(call)
    status = call.catalog.garbage.prepare_commits_status(call.repository, call.query.required("id"))
    return answers.answer(200, shapes.prepare_status(status))


def prepare_uncommitted(call: Call) -> Response:
    """POST …/gc/prepare_uncommited (the path is misspelled in the API)."""
    made = call.catalog.garbage.prepare_uncommitted(call.repository, call.body.get("continuation_token"))
    return answers.answer(201, shapes.prepared_uncommitted(made))


def get_meta_range(call: Call) -> Response:
    """GET …/metadata/meta_range/{id}: where it would be; whether it is there is not looked at."""
    return _metadata_location(call)


def get_range(call: Call) -> Response:
    """GET …/metadata/range/{id}: the same for a range."""
    return _metadata_location(call)


def get_metadata_object(call: Call) -> Response:
    """GET …/metadata/object/{type}/{id}: the file itself; 410 when there is none."""
    data = call.catalog.commits.read_metadata_object(call.repository, call.path["id"])
    return Response(
        data, 200, {"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff"}
    )


def _metadata_location(call: Call) -> Response:
    call.catalog.repositories.get_repository(call.repository)
    location = f"_lakefs/{call.path['id']}"
    return answers.answer(200, {"location": location}, {"Location": location})


def _old_server(call: Call) -> None:
    if call.backend.settings.defect("prepare_commits_500_async"):
        raise OldServerError
