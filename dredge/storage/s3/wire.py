"""Where we reach below boto3's answers: raw listing pages, and proof that a bulk delete was really answered.

boto3 turns each listed object into a dict with a parsed date, at about 100 µs an object. A hook takes the
page's XML aside and leaves an empty page for boto3 to parse, so that signing, retries, proxies and errors
stay boto3's while the rows are read column-wise (`listing.py`).
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from dredge.causes import is_certificate

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PAGE_XML = "DredgePageXml"
"""Key of a listing answer that holds the page's XML (bytes)."""
IS_DELETE_RESULT = "DredgeIsDeleteResult"
"""Key of a bulk delete's answer: whether the body was a DeleteResult at all."""

_EMPTY_PAGE = b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult/>'


def install_hooks(client: S3Client, requester_pays: bool = False) -> None:
    """Add our hooks to a client."""
    events = client.meta.events
    if requester_pays:
        events.register("before-call.s3", _pay)
    events.register_first("needs-retry.s3", _end_at_a_certificate)
    _come_before_the_search_for_errors(events)
    events.register_last("before-parse.s3.DeleteObjects", _keep_result_kind)
    events.register_last("before-call.s3.DeleteObjects", _add_md5)


def _come_before_the_search_for_errors(events: Any) -> None:
    """Put the page hook before botocore's own, which parses every 200 answer whole to look for an error in
    it.

    What begins as a listing is no error; whatever does not is left to botocore as before. Its hook has a
    private
    name: should that go, listing gets slower and nothing else changes.
    """
    every = "before-parse.s3.*"
    import botocore.handlers

    search = getattr(botocore.handlers, "_handle_200_error", None)
    if search is not None:
        events.unregister(every, search)
    events.register_first(every, _keep_page)
    if search is not None:
        events.register_first(every, search)


def _keep_page(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    if operation_model.name != "ListObjectsV2" or response_dict["status_code"] != 200:
        return
    if b"<ListBucketResult" in response_dict["body"][:1024]:
        customized_response_dict[PAGE_XML] = response_dict["body"]
        response_dict["body"] = _EMPTY_PAGE


def _keep_result_kind(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    customized_response_dict[IS_DELETE_RESULT] = b"DeleteResult" in response_dict["body"][:1024]


def _end_at_a_certificate(caught_exception: Exception | None, **_: object) -> None:
    """Raise at once: a certificate that is not accepted stays so, and botocore would try again all the same."""
    if caught_exception is not None and is_certificate(caught_exception):
        raise caught_exception


def _pay(params: dict[str, Any], **_: object) -> None:
    params["headers"]["x-amz-request-payer"] = "requester"


def _add_md5(params: dict[str, Any], **_: object) -> None:
    """S3-compatible servers from before the newer checksums insist on Content-MD5."""
    body = params["body"]
    if isinstance(body, str):
        body = params["body"] = body.encode()
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()
