"""Signature version 2, which boto3 pre-signs with unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import urllib3

from dredge.gateway.errors import S3Error
from dredge.gateway.sigv2 import V2Claim, read_v2_claim, string_to_sign, verify_v2
from dredge.gateway.sigv4 import RawRequest
from tests.support.lakefs_server import Lake, lakefs_server
from tests.support.s3_gateway import code_of, s3_client

# The examples of AWS "Signing and authenticating REST requests".
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
NOW = datetime(2007, 3, 27, 19, 36, 42, tzinfo=UTC)
GET = RawRequest(
    "GET",
    b"/awsexamplebucket1/photos/puppy.jpg",
    b"",
    (
        (b"date", b"Tue, 27 Mar 2007 19:36:42 +0000"),
        (b"authorization", b"AWS AKIAIOSFODNN7EXAMPLE:qgk2+6Sv9/oM7G3qLEjTH1a1l1g="),
    ),
)
LIST = RawRequest(
    "GET",
    b"/awsexamplebucket1/",
    b"prefix=photos&max-keys=50&marker=puppy",
    (
        (b"date", b"Tue, 27 Mar 2007 19:42:41 +0000"),
        (b"authorization", b"AWS AKIAIOSFODNN7EXAMPLE:m0WP8eCtspQl5Ahe6L1SozdX9YA="),
    ),
)


def claim_of(request: RawRequest) -> V2Claim:
    claim = read_v2_claim(request)
    assert claim is not None
    return claim


@pytest.mark.parametrize("request_", [GET, LIST])
def test_the_examples_of_aws_verify(request_: RawRequest) -> None:
    claim = claim_of(request_)
    assert claim.access_key_id == "AKIAIOSFODNN7EXAMPLE"
    verify_v2(request_, claim, SECRET, NOW)


def test_the_text_to_sign_has_subresources_in_order_and_no_other_parameters() -> None:
    request = RawRequest("PUT", b"/b/k%20", b"x=1&uploadId=u&partNumber=2&acl", ((b"content-type", b"t"),))
    assert string_to_sign(request, V2Claim("k", b"", "", "99")) == (
        b"PUT\n\nt\n99\n/b/k%20?acl&partNumber=2&uploadId=u"
    )


@pytest.mark.parametrize(
    ("later", "code"),
    [(timedelta(minutes=16), "RequestTimeTooSkewed"), (timedelta(minutes=-16), "AccessDenied")],
)
def test_a_signature_is_good_for_a_quarter_of_an_hour(later: timedelta, code: str) -> None:
    with pytest.raises(S3Error) as refused:
        verify_v2(GET, claim_of(GET), SECRET, NOW + later)
    assert refused.value.code == code


def test_any_change_of_what_is_signed_is_noticed() -> None:
    changed = [
        RawRequest("PUT", GET.path, GET.query, GET.headers),
        RawRequest("GET", GET.path + b"x", GET.query, GET.headers),
        RawRequest("GET", GET.path, b"acl", GET.headers),
        RawRequest("GET", GET.path, b"", (*GET.headers, (b"x-amz-copy-source", b"/b/other"))),
    ]
    for request in changed:
        with pytest.raises(S3Error) as refused:
            verify_v2(request, claim_of(request), SECRET, NOW)
        assert refused.value.code == "SignatureDoesNotMatch"
    with pytest.raises(S3Error):
        verify_v2(GET, claim_of(GET), SECRET + "x", NOW)


@pytest.fixture(scope="module")
def as_lakefs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakefs_server(tmp_path_factory.mktemp("lake")) as lake:
        lake.repository("shop")
        yield lake


def test_boto3_signs_and_presigns_with_it(as_lakefs: Lake) -> None:
    s3: Any = s3_client(as_lakefs, signature_version="s3")
    s3.put_object(Bucket="shop", Key="main/a b", Body=b"content", Metadata={"k": "v"})
    assert s3.get_object(Bucket="shop", Key="main/a b")["Body"].read() == b"content"
    listed = s3.list_objects_v2(Bucket="shop", Prefix="main/")
    assert [each["Key"] for each in listed["Contents"]] == ["main/a b"]
    upload = s3.create_multipart_upload(Bucket="shop", Key="main/big")["UploadId"]
    where = {"Bucket": "shop", "Key": "main/big", "UploadId": upload}
    part = s3.upload_part(**where, PartNumber=1, Body=b"p")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(**where, MultipartUpload=parts)
    s3.delete_objects(Bucket="shop", Delete={"Objects": [{"Key": "main/big"}]})
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "shop", "Key": "main/a b"}, ExpiresIn=60)
    assert "AWSAccessKeyId=" in url
    with urllib3.PoolManager(retries=False) as pool:
        assert pool.request("GET", url).data == b"content"
        assert code_of(pool.request("GET", url.replace("a%20b", "big"))) == "SignatureDoesNotMatch"
        as_lakefs.clock.advance(minutes=2)
        try:
            late = pool.request("GET", url)
            assert (late.status, code_of(late)) == (403, "AccessDenied")
        finally:
            as_lakefs.clock.advance(minutes=-2)
