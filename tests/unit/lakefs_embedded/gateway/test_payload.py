"""Bodies with checksums and wrong bodies, over a real socket."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import code_of, send

BIG = bytes(range(256)) * 4096 * 3  # 3 MiB: streamed both ways


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
