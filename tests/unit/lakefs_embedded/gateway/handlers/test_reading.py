"""Get and head: bytes, headers, ranges, conditions, as boto3 sees them."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import refused


def test_any_ref_can_be_read_and_only_a_branch_written(lake: Lake, s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=b"1")
    commit = lake.server.catalog.commits.commit(repo, "main", message="m", committer="c")
    lake.server.catalog.tags.create_tag(repo, "v1", "main")
    s3.put_object(Bucket=repo, Key="main/a", Body=b"2")
    for ref, content in {"main": b"2", "v1": b"1", commit.id: b"1", "main@": b"1", "main~0": b"1"}.items():
        assert s3.get_object(Bucket=repo, Key=f"{ref}/a")["Body"].read() == content
    with refused("NoSuchBucket", 404):
        s3.put_object(Bucket=repo, Key="v1/a", Body=b"")
    assert s3.get_object(Bucket=repo, Key="v1/a")["Body"].read() == b"1"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("bytes=0-3", (0, 4)),
        ("bytes=5-5", (5, 6)),
        ("bytes=-4", (96, 100)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=-1000", (0, 100)),
    ],
)
def test_a_range_gives_these_bytes(s3: Any, repo: str, wanted: str, found: tuple[int, int]) -> None:
    content = bytes(range(100))
    s3.put_object(Bucket=repo, Key="main/a", Body=content)
    answer = s3.get_object(Bucket=repo, Key="main/a", Range=wanted)
    assert answer["Body"].read() == content[slice(*found)]
    assert answer["ContentRange"] == f"bytes {found[0]}-{found[1] - 1}/100"
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
    head = s3.head_object(Bucket=repo, Key="main/a", Range=wanted)
    assert head["ContentLength"] == found[1] - found[0]


def test_a_range_behind_the_end_is_refused_and_nonsense_gives_all(s3: Any, repo: str) -> None:
    s3.put_object(Bucket=repo, Key="main/a", Body=b"0123456789")
    for wanted in ("bytes=10-", "bytes=-0"):
        with refused("InvalidRange", 416):
            s3.get_object(Bucket=repo, Key="main/a", Range=wanted)
    for nonsense in ("bytes=5-1", "bytes=0-1,3-4", "lines=1-2"):
        assert s3.get_object(Bucket=repo, Key="main/a", Range=nonsense)["Body"].read() == b"0123456789"


def test_conditions_on_reading(s3: Any, repo: str) -> None:
    etag = s3.put_object(Bucket=repo, Key="main/a", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=repo, Key="main/a")["LastModified"]
    before, after = modified - timedelta(hours=1), modified + timedelta(seconds=1)
    for call, missed in ((s3.get_object, "PreconditionFailed"), (s3.head_object, "412")):
        call(Bucket=repo, Key="main/a", IfMatch=etag)
        call(Bucket=repo, Key="main/a", IfNoneMatch='"other"')
        call(Bucket=repo, Key="main/a", IfModifiedSince=before)
        call(Bucket=repo, Key="main/a", IfUnmodifiedSince=after)
        call(Bucket=repo, Key="main/a", IfMatch=etag, IfUnmodifiedSince=before)
        with refused(missed, 412):
            call(Bucket=repo, Key="main/a", IfMatch='"other"')
        with refused(missed, 412):
            call(Bucket=repo, Key="main/a", IfUnmodifiedSince=before)
        with refused("304", 304):
            call(Bucket=repo, Key="main/a", IfNoneMatch=etag)
        with refused("304", 304):
            call(Bucket=repo, Key="main/a", IfModifiedSince=modified)
