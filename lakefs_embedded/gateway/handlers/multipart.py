"""Multipart uploads: create, upload and copy parts, list, complete, abort.

Source: S3 API reference "CreateMultipartUpload", "UploadPart", "UploadPartCopy", "ListParts",
"CompleteMultipartUpload", "AbortMultipartUpload".
"""

from starlette.responses import Response

from lakefs_embedded.errors import MissingError
from lakefs_embedded.gateway import responses
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.handlers.objects import check_source, must_be_new, parse_range
from lakefs_embedded.gateway.requests import S3Request, Target, read_metadata, url_encoded
from lakefs_embedded.gateway.responses import Node, fields, local_name, parse, timestamp
from lakefs_embedded.uploads import PART_NUMBER_MAX, Part

PAGE_MAX = 1000


def create_multipart_upload(request: S3Request) -> Response:
    """POST …?uploads."""
    target = request.target
    request.require("fs:WriteObject", target.arn)
    request.refuse_read_only()
    upload_id = request.catalog.multiparts.create_multipart(
        target.repository,
        target.ref,
        target.path,
        content_type=request.header("content-type"),
        metadata=read_metadata(request.raw),
    )
    return responses.document(
        "InitiateMultipartUploadResult",
        ("Bucket", target.repository),
        ("Key", _key(target)),
        ("UploadId", upload_id),
    )


def upload_part(request: S3Request) -> Response:
    """PUT …?uploadId&partNumber: the body, or a byte range of the x-amz-copy-source."""
    target = request.target
    request.require("fs:WriteObject", target.arn)
    request.refuse_read_only()
    number = request.query.get("partNumber", "")
    if not (number.isascii() and number.isdecimal() and 1 <= int(number) <= PART_NUMBER_MAX):
        if request.follows_lakefs:
            raise S3Error("InvalidArgument", "Argument partNumberMarker must be an integer.")
        raise S3Error("InvalidArgument", f"Part number must be an integer between 1 and {PART_NUMBER_MAX}")
    source = request.copy_source()
    if source is not None:
        part = _copy_part(request, source, int(number))
        return responses.document(
            "CopyPartResult", ("LastModified", timestamp(part.last_modified)), ("ETag", f'"{part.etag}"')
        )
    content = request.content()
    pieces = iter((content,)) if isinstance(content, bytes) else content
    part = request.catalog.multiparts.put_multipart_part(
        target.repository, target.ref, target.path, _upload_id(request), int(number), pieces
    )
    return responses.empty(200, {"ETag": f'"{part.etag}"'})


def list_parts(request: S3Request) -> Response:
    """GET …?uploadId."""
    target = request.target
    request.require("fs:WriteObject", target.arn)
    most = request.number("max-parts", PAGE_MAX, PAGE_MAX)
    marker = request.number("part-number-marker", 0, PART_NUMBER_MAX)
    there = request.catalog.multiparts.list_multipart_parts(
        target.repository, target.ref, target.path, _upload_id(request)
    )
    left = [part for part in there if part.number > marker]
    page = left[:most]
    nodes: list[Node] = [
        (
            "Part",
            [
                ("PartNumber", part.number),
                ("LastModified", timestamp(part.last_modified)),
                ("ETag", f'"{part.etag}"'),
                ("Size", part.size),
            ],
        )
        for part in page
    ]
    return responses.document(
        "ListPartsResult",
        ("Bucket", target.repository),
        ("Key", _key(target)),
        ("UploadId", _upload_id(request)),
        ("PartNumberMarker", marker),
        ("NextPartNumberMarker", page[-1].number if page else marker),
        ("MaxParts", most),
        ("IsTruncated", len(left) > len(page)),
        ("StorageClass", "STANDARD"),
        *nodes,
    )


def complete_multipart_upload(request: S3Request) -> Response:
    """POST …?uploadId: number and ETag of each part, in ascending order."""
    target = request.target
    request.require("fs:WriteObject", target.arn)
    request.refuse_read_only()
    # Checksum headers are those of the resulting object, not of this body.
    document = parse(request.xml(checksums=False), "CompleteMultipartUpload")
    listed = [fields(child) for child in document if local_name(child) == "Part"]
    try:
        parts = [(int(each["PartNumber"]), each["ETag"].strip().strip('"')) for each in listed]
    except (KeyError, ValueError):
        raise S3Error("MalformedXML") from None
    if not parts:
        raise S3Error("MalformedXML")
    _, etag = request.catalog.multiparts.complete_multipart(
        target.repository,
        target.ref,
        target.path,
        _upload_id(request),
        parts,
        if_none_match=must_be_new(request),
    )
    return responses.document(
        "CompleteMultipartUploadResult",
        ("Location", f"{request.base_url}/{target.repository}/{url_encoded(_key(target))}"),
        ("Bucket", target.repository),
        ("Key", _key(target)),
        ("ETag", f'"{etag}"'),
    )


def abort_multipart_upload(request: S3Request) -> Response:
    """DELETE …?uploadId."""
    target = request.target
    request.require("fs:WriteObject", target.arn)
    request.refuse_read_only()
    request.catalog.multiparts.abort_multipart(
        target.repository, target.ref, target.path, _upload_id(request)
    )
    return responses.empty(204)


def _copy_part(request: S3Request, source: Target, number: int) -> Part:
    request.require("fs:ReadObject", source.arn)
    target = request.target
    try:
        content = request.catalog.reading.get_object(source.repository, source.ref, source.path)
    except MissingError:
        if request.follows_lakefs:
            raise S3Error("NoSuchKey") from None
        raise
    check_source(request, content.stats)
    start, end = 0, content.stats.size_bytes
    wanted = request.header("x-amz-copy-source-range")
    if wanted:
        span = parse_range(wanted, end)
        # Only "bytes=first-last" within the object; anything else would copy bytes that were not meant.
        if span is None or wanted != f"bytes={span[0]}-{span[1] - 1}":
            raise S3Error(
                "InvalidArgument", "The x-amz-copy-source-range is not valid for the source object."
            )
        start, end = span
    with content.stream(start, end - start) as stream:
        return request.catalog.multiparts.put_multipart_part(
            target.repository, target.ref, target.path, _upload_id(request), number, stream
        )


def _upload_id(request: S3Request) -> str:
    return request.query.get("uploadId", "")


def _key(target: Target) -> str:
    return f"{target.ref}/{target.path}"
