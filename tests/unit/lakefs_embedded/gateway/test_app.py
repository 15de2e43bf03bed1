"""Signatures over a real socket, the error body, and which requests are for the gateway."""

from typing import Any

import urllib3

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import code_of, refused, s3_client, send


def test_a_presigned_url_reads_and_writes(lake: Lake, repo: str) -> None:
    s3 = s3_client(lake, signature_version="s3v4")
    where = {"Bucket": repo, "Key": "main/a b"}
    put_url = s3.generate_presigned_url("put_object", Params=where, ExpiresIn=60)
    get_url = s3.generate_presigned_url(
        "get_object", Params={**where, "ResponseContentType": "text/plain"}, ExpiresIn=60
    )
    with urllib3.PoolManager(retries=False) as pool:
        assert pool.request("PUT", put_url, body=b"content").status == 200
        answer = pool.request("GET", get_url)
        assert (answer.data, answer.headers["Content-Type"]) == (b"content", "text/plain")
        assert pool.request("GET", get_url.replace("a%20b", "other")).status == 403
        assert pool.request("PUT", get_url, body=b"other").status == 403


def test_the_old_signature_that_boto3_presigns_with_by_default_is_refused_with_a_hint(
    lake: Lake, s3: Any, repo: str
) -> None:
    url = s3.generate_presigned_url("get_object", Params={"Bucket": repo, "Key": "main/a"})
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request("GET", url)
    assert code_of(answer) == "InvalidRequest"
    assert b"signature_version='s3v4'" in answer.data


def test_unknown_keys_and_wrong_secrets(lake: Lake, repo: str) -> None:
    with refused("InvalidAccessKeyId", 403):
        s3_client(lake, ("AKIAIOSFODNN7NOTHERE", "x")).list_buckets()
    with refused("SignatureDoesNotMatch", 403):
        s3_client(lake, (lake.server.access_key_id, "x")).list_buckets()
    answer = send(lake, "GET", "/", unsigned={"x-amz-extra": "1"})
    assert (answer.status, code_of(answer)) == (403, "AccessDenied")


def test_errors_have_s3s_shape(lake: Lake, repo: str) -> None:
    answer = send(lake, "GET", f"/{repo}/main/<nothing>")
    assert answer.headers["Content-Type"] == "application/xml"
    request_id = answer.headers["x-amz-request-id"]
    assert answer.data == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code>'
        b"<Message>The specified key does not exist.</Message>"
        + f"<Resource>/{repo}/main/%3Cnothing%3E</Resource><RequestId>{request_id}</RequestId>".encode()
        + b"</Error>"
    )
    assert send(lake, "HEAD", f"/{repo}/main/nothing").data == b""
