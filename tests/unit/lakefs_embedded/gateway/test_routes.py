"""Which operation a request is for, and what is refused before any."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import code_of, refused, send


def put(s3: Any, repo: str, key: str, body: bytes = b"x", **more: Any) -> None:
    s3.put_object(Bucket=repo, Key=key, Body=body, **more)


def get(s3: Any, repo: str, key: str) -> Any:
    return s3.get_object(Bucket=repo, Key=key)


def test_a_key_without_a_path_is_no_object(s3: Any, repo: str) -> None:
    for key in ("main", "main/"):
        with refused("NoSuchKey", 404):
            get(s3, repo, key)
        with refused("InvalidURI", 400):
            put(s3, repo, key)


@pytest.mark.parametrize("parameter", ["acl", "tagging", "retention", "legal-hold", "torrent"])
def test_parts_of_s3_that_are_not_here_never_touch_the_object(
    lake: Lake, s3: Any, repo: str, parameter: str
) -> None:
    put(s3, repo, "main/a", b"content")
    for method in ("PUT", "DELETE"):
        answer = send(lake, method, f"/{repo}/main/a", query={parameter: ""}, body=b"<x/>")
        assert (answer.status, code_of(answer)) == (405, "ERRLakeFSNotSupported")
    answer = send(lake, "POST", f"/{repo}/main/a", query={"select": "", "select-type": "2"})
    assert code_of(answer) == "ERRLakeFSNotSupported"
    assert get(s3, repo, "main/a")["Body"].read() == b"content"
