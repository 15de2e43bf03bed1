"""Clients that disconnect, connect in parallel, or do not state the length of a body."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import refused, s3_client

BIG = bytes(range(256)) * 4096 * 3


def files(lake: Lake, repo: str) -> set[str]:
    """Every file of the namespace, hidden ones too."""
    root = Path(lake.namespace(repo).removeprefix("local://"))
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def signed_head(lake: Lake, path: str, length: int) -> bytes:
    """The head of a signed PUT that announces so many bytes."""
    request = AWSRequest("PUT", lake.server.url + path, headers={"Content-Length": str(length)})
    request.context["payload_signing_enabled"] = False
    request.context["client_config"] = None
    request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD"
    key = Credentials(lake.server.access_key_id, lake.server.secret_access_key)
    signer = S3SigV4Auth(key, "s3", "us-east-1")
    signer.payload = lambda _: "UNSIGNED-PAYLOAD"
    signer.add_auth(request)
    headers = {**dict(request.headers.items()), "Host": lake.server.url.removeprefix("http://")}
    lines = [f"PUT {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("query", ["", "part"])
def test_a_client_that_goes_away_leaves_nothing(lake: Lake, s3: Any, repo: str, query: str) -> None:
    path = f"/{repo}/main/a"
    if query:
        upload_id = s3.create_multipart_upload(Bucket=repo, Key="main/a")["UploadId"]
        path += f"?partNumber=1&uploadId={upload_id}"
    before = files(lake, repo)
    host, port = lake.server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(signed_head(lake, path, len(BIG)) + BIG[: len(BIG) // 2])
        until(lambda: files(lake, repo) != before)  # half of it is being written, under a hidden name
    until(lambda: files(lake, repo) == before)
    assert "Contents" not in s3.list_objects_v2(Bucket=repo, Prefix="main/")


def test_of_many_that_create_one_key_exactly_one_wins(lake: Lake, repo: str) -> None:
    clients = [s3_client(lake) for _ in range(6)]

    def create(number: int) -> str:
        try:
            clients[number].put_object(Bucket=repo, Key="main/a", Body=b"%d" % number * 1000, IfNoneMatch="*")
        except ClientError as failure:
            return str(failure.response["Error"]["Code"])
        return str(number)

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(create, range(6)))
    winners = [outcome for outcome in outcomes if outcome.isdecimal()]
    assert len(winners) == 1
    assert set(outcomes) - set(winners) == {"PreconditionFailed"}
    body = clients[0].get_object(Bucket=repo, Key="main/a")["Body"].read()
    assert body == winners[0].encode() * 1000


def test_a_refused_big_upload_does_not_break_the_connection(lake: Lake, s3: Any, repo: str) -> None:
    other = s3_client(lake, (lake.server.access_key_id, "wrong"))
    for _ in range(3):
        with refused("SignatureDoesNotMatch", 403):
            other.put_object(Bucket=repo, Key="main/a", Body=BIG)
        with refused("NoSuchBucket", 404):
            s3.put_object(Bucket=repo, Key="nobranch/a", Body=BIG)
        s3.put_object(Bucket=repo, Key="main/b", Body=BIG)
    assert s3.get_object(Bucket=repo, Key="main/b")["Body"].read() == BIG
