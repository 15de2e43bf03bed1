"""Multipart uploads through pre-signed URLs; 501 if the server does not pre-sign."""

from __future__ import annotations

import re

from starlette.responses import Response

from dredge.server import responses, serializers
from dredge.server.errors import RequestError
from dredge.server.requests import ApiRequest


def create_presign_multipart_upload(request: ApiRequest) -> Response:
    """POST …/branches/{branch}/staging/pmpu."""
    path = request.query.required("path")
    parts = _integer("parts", "query", request.query.text("parts", "0"))
    made = request.catalog.presigned.create_presigned_multipart(
        request.repository, request.branch, path, parts=parts
    )
    fields = {"physical_address": made.physical_address, "upload_id": made.upload_id}
    return responses.json(201, {**fields, "presigned_urls": made.urls} if made.urls else fields)


def complete_presign_multipart_upload(request: ApiRequest) -> Response:
    """PUT …/branches/{branch}/staging/pmpu/{upload}."""
    body = request.body
    made = request.catalog.presigned.complete_presigned_multipart(
        request.repository,
        request.branch,
        request.query.required("path"),
        request.path["upload"],
        [(part["part_number"], part["etag"].strip(' "')) for part in body["parts"]],
        physical_address=body["physical_address"],
        metadata=body.get("user_metadata"),
        content_type=body.get("content_type") or "",
    )
    return responses.json(200, serializers.object_stats(made, metadata=made.metadata))


def abort_presign_multipart_upload(request: ApiRequest) -> Response:
    """DELETE …/branches/{branch}/staging/pmpu/{upload}."""
    request.catalog.presigned.abort_presigned_multipart(
        request.repository,
        request.branch,
        request.query.required("path"),
        request.path["upload"],
        physical_address=request.body["physical_address"],
    )
    return responses.empty()


def upload_part(request: ApiRequest) -> Response:
    """PUT …/branches/{branch}/staging/pmpu/{upload}/parts/{part}: the URL to upload the part to."""
    path = request.query.required("path")
    request.catalog.repositories.get_repository(request.repository)
    url = request.catalog.presigned.presign_part(
        request.repository,
        request.branch,
        path,
        request.path["upload"],
        _integer("partNumber", "path", request.path["part"]),
        physical_address=request.body["physical_address"],
    )
    return responses.json(200, {"presigned_url": url})


def upload_part_copy(request: ApiRequest) -> Response:
    """PUT …/staging/pmpu/{upload}/parts/{part}/copy: a part whose bytes are those of an object, or a range of them."""
    path = request.query.required("path")
    source = request.body["copy_source"]
    request.catalog.repositories.get_repository(request.repository)
    etag = request.catalog.presigned.copy_part(
        request.repository,
        request.branch,
        path,
        request.path["upload"],
        _integer("partNumber", "path", request.path["part"]),
        physical_address=request.body["physical_address"],
        source=(source["repository"], source["ref"], source["path"]),
        span=_range(source.get("range")),
    )
    return Response(None, 204, {"ETag": f'"{etag}"'})


def _range(text: str | None) -> tuple[int, int] | None:
    """Parse `bytes=first-last`, both inclusive; None for a whole object."""
    if text is None:
        return None
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", text, re.ASCII)
    if match is None or int(match[2]) < int(match[1]):
        raise RequestError(f'parse range "{text}": expected bytes=first-last')
    return int(match[1]), int(match[2])


def _integer(name: str, place: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RequestError.parameter(name, place, f"value {text}: an invalid integer") from None
