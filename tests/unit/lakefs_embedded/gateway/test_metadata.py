"""User metadata of objects."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.s3_gateway import refused

BIG = bytes(range(256)) * 4096 * 3  # 3 MiB: streamed both ways


@pytest.mark.parametrize("content", [b"", b"x", BIG], ids=["empty", "small", "big"])
def test_content_type_metadata_and_etag_are_kept(s3: Any, repo: str, content: bytes) -> None:
    made = s3.put_object(
        Bucket=repo, Key="main/a", Body=content, ContentType="text/x-odd", Metadata={"Colour": "sky blue"}
    )
    md5 = hashlib.md5(content).hexdigest()
    assert made["ETag"] == f'"{md5}"'
    for found in (s3.head_object(Bucket=repo, Key="main/a"), s3.get_object(Bucket=repo, Key="main/a")):
        assert found["ETag"] == f'"{md5}"'
        assert found["ContentLength"] == len(content)
        assert found["ContentType"] == "text/x-odd"
        assert found["Metadata"] == {"colour": "sky blue"}
        assert abs(found["LastModified"] - datetime.now(UTC)) < timedelta(minutes=1)
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == content


def test_too_much_metadata_is_refused(s3: Any, repo: str) -> None:
    with refused("MetadataTooLarge", 400):
        s3.put_object(Bucket=repo, Key="main/a", Body=b"", Metadata={"a": "x" * 2048})
