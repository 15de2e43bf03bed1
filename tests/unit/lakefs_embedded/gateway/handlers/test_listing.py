"""Listings: the same paths as through the API, however they are paged, grouped and spelled."""

from typing import Any

import pytest

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import refused

PATHS = ["a", "a/1", "a/2", "a//x", "a0", "b c", "b+c", "b%20c", "c/d/e", "c/d/f", "ü/1", "ü/2", "z/"]


def fill(lake: Lake, repo: str, paths: list[str], branch: str = "main") -> None:
    for path in paths:
        lake.server.catalog.objects.upload_object(repo, branch, path, path.encode())


def by_api(lake: Lake, repo: str, prefix: str = "", delimiter: str = "") -> list[str]:
    """Every path and common prefix, in order, in pages of three."""
    found: list[str] = []
    after, more = "", True
    while more:
        page = lake.server.catalog.reading.list_entries(
            repo, "main", prefix=prefix, delimiter=delimiter, after=after, amount=3
        )
        found += [each.path for each in page.results]
        more, after = page.has_more, page.next_offset
    return found


def by_s3(s3: Any, repo: str, version: int, **arguments: Any) -> list[str]:
    """Every key and common prefix of all pages, sorted."""
    pages = s3.get_paginator("list_objects_v2" if version == 2 else "list_objects").paginate(
        Bucket=repo, **arguments
    )
    found: list[str] = []
    for page in pages:
        keys = [item["Key"] for item in page.get("Contents", [])]
        folders = [item["Prefix"] for item in page.get("CommonPrefixes", [])]
        if version == 2:
            assert page["KeyCount"] == len(keys) + len(folders)
        found += sorted(keys + folders, key=str.encode)
    return found


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", [2, 1000])
@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("prefix", ["", "a/", "c/d", "nothing"])
def test_pages_of_any_size_add_up_to_what_the_api_lists(
    lake: Lake, s3: Any, filled: str, version: int, size: int, delimiter: str, prefix: str
) -> None:
    arguments: dict[str, Any] = {"Prefix": f"main/{prefix}", "PaginationConfig": {"PageSize": size}}
    if delimiter:
        arguments["Delimiter"] = delimiter
    found = by_s3(s3, filled, version, **arguments)
    assert found == [f"main/{path}" for path in by_api(lake, filled, prefix, delimiter)]


@pytest.fixture(scope="module")
def filled(lake: Lake) -> str:
    lake.server.catalog.repositories.create_repository("filled", lake.namespace("filled"))
    fill(lake, "filled", PATHS)
    return "filled"


def test_an_entry_is_shown_with_its_facts(lake: Lake, s3: Any, repo: str) -> None:
    made = lake.server.catalog.objects.upload_object(repo, "main", "a", b"content")
    (found,) = s3.list_objects_v2(Bucket=repo, Prefix="main/")["Contents"]
    assert (found["Size"], found["ETag"]) == (7, f'"{made.checksum}"')
    assert abs((found["LastModified"] - made.mtime).total_seconds()) < 0.002


def test_without_a_ref_branches_are_listed(lake: Lake, s3: Any, repo: str) -> None:
    for name in ("dev", "dev-2", "x"):
        lake.server.catalog.branches.create_branch(repo, name, "main")
    branches = ["dev-2/", "dev/", "main/", "x/"]
    for delimiter in ({}, {"Delimiter": "/"}):
        for version in (1, 2):
            assert sorted(by_s3(s3, repo, version, **delimiter)) == branches
            sized = {**delimiter, "PaginationConfig": {"PageSize": 1}}
            if version == 2 or delimiter:
                assert sorted(by_s3(s3, repo, version, **sized)) == branches
            assert sorted(by_s3(s3, repo, version, Prefix="dev", **delimiter)) == branches[:2]


def test_buckets_are_the_repositories(lake: Lake, s3: Any, repo: str, filled: str) -> None:
    names = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    assert names == sorted(names)
    assert {repo, filled} <= set(names)
    s3.head_bucket(Bucket=repo)
    assert s3.get_bucket_location(Bucket=repo).get("LocationConstraint") is None
    assert "Status" not in s3.get_bucket_versioning(Bucket=repo)
    for call in (s3.list_objects, s3.list_objects_v2, s3.get_bucket_location):
        with refused("NoSuchBucket", 404):
            call(Bucket="no-such-repository")
    with refused("404", 404):
        s3.head_bucket(Bucket="no-such-repository")
    with refused("BucketAlreadyExists", 409):
        s3.create_bucket(Bucket=repo)
    with refused("NotImplemented", 501):
        s3.create_bucket(Bucket="new-repository")
    with refused("ERRLakeFSNotSupported", 405):
        s3.delete_bucket(Bucket=repo)
