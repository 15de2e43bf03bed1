"""Uploads in parts by pre-signed URLs; 501 where the server does not sign."""

from __future__ import annotations

from starlette.responses import Response

from dredge.server import answers, shapes
from dredge.server.calls import Call
from dredge.server.failures import RequestError


def create_presign_multipart_upload(call: Call) -> Response:
    """POST …/branches/{branch}/staging/pmpu."""
    path = call.query.required("path")
    parts = _integer("parts", "query", call.query.text("parts", "0"))
    made = call.catalog.presigned.create_presigned_multipart(call.repository, call.branch, path, parts=parts)
    shape = {"physical_address": made.physical_address, "upload_id": made.upload_id}
    return answers.answer(201, {**shape, "presigned_urls": made.urls} if made.urls else shape)


def complete_presign_multipart_upload(call: Call) -> Response:
    """PUT …/branches/{branch}/staging/pmpu/{upload}."""
    body = call.body
    made = call.catalog.presigned.complete_presigned_multipart(
        call.repository,
        call.branch,
        call.query.required("path"),
        call.path["upload"],
        [(part["part_number"], part["etag"].strip(' "')) for part in body["parts"]],
        physical_address=body["physical_address"],
        metadata=body.get("user_metadata"),
        content_type=body.get("content_type") or "",
    )
    return answers.answer(200, shapes.object_stats(made, metadata=made.metadata))


def abort_presign_multipart_upload(call: Call) -> Response:
    """DELETE …/branches/{branch}/staging/pmpu/{upload}."""
    call.catalog.presigned.abort_presigned_multipart(
        call.repository,
        call.branch,
        call.query.required("path"),
        call.path["upload"],
        physical_address=call.body["physical_address"],
    )
    return answers.empty()


def upload_part(call: Call) -> Response:
    """PUT …/branches/{branch}/staging/pmpu/{upload}/parts/{part}: a URL to put it to."""
    path = call.query.required("path")
    call.catalog.repositories.get_repository(call.repository)
    url = call.catalog.presigned.presign_part(
        call.repository,
        call.branch,
        path,
        call.path["upload"],
        _integer("partNumber", "path", call.path["part"]),
        physical_address=call.body["physical_address"],
    )
    return answers.answer(200, {"presigned_url": url})


def _integer(name: str, place: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RequestError.parameter(name, place, f"value {text}: an invalid integer") from None
