"""S3 clients of a running embedded lakeFS: boto3, and single requests signed by botocore, beyond the clients.

s3 = s3_client(lake)
s3.put_object(Bucket="shop", Key="main/a", Body=b"…")
answer = send(lake, "GET", "/shop/main/a", headers={"Range": "bytes=0-1"})
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import boto3
import pytest
import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.support.lakefs_server import Lake


def s3_client(lake: Lake, key: tuple[str, str] | None = None, **config: Any) -> Any:
    key_id, secret = key or (lake.server.access_key_id, lake.server.secret_access_key)
    return boto3.client(
        "s3",
        endpoint_url=lake.server.url,
        region_name="us-east-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, **config),
    )


class _Signer(S3SigV4Auth):
    """Signs with a body hash of the caller's choice."""

    def payload(self, request: Any) -> Any:
        return request.headers.get("X-Amz-Content-SHA256") or super().payload(request)

    def add_auth(self, request: Any) -> None:
        chosen = request.headers.get("X-Amz-Content-SHA256")
        if chosen:
            self._chosen = chosen
        super().add_auth(request)

    def _inject_signature_to_request(self, request: Any, signature: str) -> Any:
        return super()._inject_signature_to_request(request, signature)

    def _modify_request_before_signing(self, request: Any) -> None:
        super()._modify_request_before_signing(request)
        if getattr(self, "_chosen", None):
            del request.headers["X-Amz-Content-SHA256"]
            request.headers["X-Amz-Content-SHA256"] = self._chosen


def send(
    lake: Lake,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: bytes | Iterable[bytes] = b"",
    payload: str | None = None,
    headers: Mapping[str, str] | None = None,
    unsigned: Mapping[str, str] | None = None,
    key: tuple[str, str] | None = None,
) -> urllib3.BaseHTTPResponse:
    url = lake.server.url + quote(path, safe="/-_.~")
    if query:
        url += "?" + urlencode(query, quote_via=quote)
    sent = dict(headers or {})
    if payload is not None:
        sent["X-Amz-Content-SHA256"] = payload
    request = AWSRequest(method, url, headers=sent, data=body if isinstance(body, bytes) else b"")
    key_id, secret = key or (lake.server.access_key_id, lake.server.secret_access_key)
    _Signer(Credentials(key_id, secret), "s3", "us-east-1").add_auth(request)
    final = {**dict(request.headers.items()), **(unsigned or {})}
    with urllib3.PoolManager(retries=False) as pool:
        return pool.request(method, url, body=body, headers=final, redirect=False)


def code_of(answer: urllib3.BaseHTTPResponse) -> str:
    """The code of an error answer, "" for a good one."""
    if answer.status < 400:
        return ""
    return ElementTree.fromstring(answer.data).findtext("Code") or "?"


@contextmanager
def refused(code: str, status: int | None = None) -> Iterator[None]:
    """Expect a boto3 call to fail with a code."""
    with pytest.raises(ClientError) as failed:
        yield
    answer = failed.value.response
    assert answer["Error"]["Code"] == code
    if status is not None:
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == status
