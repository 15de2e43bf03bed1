"""Bodies with checksums and wrong bodies, over a real socket."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from lakefs_embedded.gateway.chunks import UNSIGNED_TRAILER
from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import aws_chunks, code_of, send

BIG = bytes(range(256)) * 4096 * 3  # 3 MiB: streamed both ways


@pytest.mark.parametrize("size", [100, 3 << 20])
def test_a_body_with_a_trailing_checksum(lake: Lake, s3: Any, repo: str, size: int) -> None:
    content = BIG[:size]
    checksum = zlib.crc32(content).to_bytes(4, "big")

    def put(trailer: bytes) -> str:
        body = aws_chunks(content, 65536, ("x-amz-checksum-crc32", trailer))
        headers = {
            "Content-Encoding": "aws-chunked",
            "X-Amz-Decoded-Content-Length": str(size),
            "X-Amz-Trailer": "x-amz-checksum-crc32",
        }
        return code_of(
            send(lake, "PUT", f"/{repo}/main/a", body=body, payload=UNSIGNED_TRAILER, headers=headers)
        )

    assert put(b"\0\0\0\0") == "BadDigest"
    assert "Contents" not in s3.list_objects_v2(Bucket=repo, Prefix="main/")
    assert put(checksum) == ""
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == content


@pytest.mark.parametrize("size", [100, 3 << 20])
@pytest.mark.parametrize(
    ("payload", "headers", "code"),
    [
        ("0" * 64, {}, "XAmzContentSHA256Mismatch"),
        ("UNSIGNED-PAYLOAD", {"Content-MD5": base64.b64encode(b"0" * 16).decode()}, "BadDigest"),
        ("UNSIGNED-PAYLOAD", {"x-amz-checksum-sha256": base64.b64encode(b"0" * 32).decode()}, "BadDigest"),
    ],
)
def test_a_body_that_is_not_what_was_signed_leaves_nothing(
    lake: Lake, s3: Any, repo: str, size: int, payload: str, headers: dict[str, str], code: str
) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=b"before")
    stored = _data_objects(lake, repo)
    answer = send(lake, "PUT", f"/{repo}/main/a", body=BIG[:size], payload=payload, headers=headers)
    assert code_of(answer) == code
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"before"
    assert _data_objects(lake, repo) == stored


def _data_objects(lake: Lake, repo: str) -> set[str]:
    return {key for batch in lake.writer(repo).list("data/") for key in batch["key"].to_pylist()}
