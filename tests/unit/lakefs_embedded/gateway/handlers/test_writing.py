"""Put, copy and delete objects, as boto3 sees them."""

import uuid
from typing import Any

import pytest

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import refused


def put(s3: Any, repo: str, key: str, body: bytes = b"x", **more: Any) -> None:
    s3.put_object(Bucket=repo, Key=key, Body=body, **more)


def get(s3: Any, repo: str, key: str) -> Any:
    return s3.get_object(Bucket=repo, Key=key)


@pytest.mark.parametrize("target", ["main/to", "dev/to"])
def test_a_copy_is_another_object_with_the_same_content(lake: Lake, s3: Any, repo: str, target: str) -> None:
    lake.server.catalog.branches.create_branch(repo, "dev", "main")
    put(s3, repo, "main/from ü+%", b"content", ContentType="text/x", Metadata={"a": "b"})
    made = s3.copy_object(Bucket=repo, Key=target, CopySource={"Bucket": repo, "Key": "main/from ü+%"})
    found = get(s3, repo, target)
    assert made["CopyObjectResult"]["ETag"] == found["ETag"]
    assert (found["Body"].read(), found["ContentType"], found["Metadata"]) == (
        b"content",
        "text/x",
        {"a": "b"},
    )
    s3.delete_object(Bucket=repo, Key="main/from ü+%")
    assert get(s3, repo, target)["Body"].read() == b"content"


def test_deleting_what_is_not_there_succeeds(s3: Any, repo: str) -> None:
    s3.delete_object(Bucket=repo, Key="main/nothing")
    s3.delete_object(Bucket=repo, Key="nobranch/nothing")


def test_deleting_never_reaches_a_commit_or_a_tag(lake: Lake, s3: Any, repo: str) -> None:
    put(s3, repo, "main/a")
    commit = lake.server.catalog.commits.commit(repo, "main", message="m", committer="c")
    lake.server.catalog.tags.create_tag(repo, "v1", "main")
    for ref in ("v1", commit.id):
        with refused("MethodNotAllowed", 405):
            s3.delete_object(Bucket=repo, Key=f"{ref}/a")
        failed = s3.delete_objects(Bucket=repo, Delete={"Objects": [{"Key": f"{ref}/a"}]})["Errors"]
        assert [each["Code"] for each in failed] == ["MethodNotAllowed"]
    s3.delete_object(Bucket=repo, Key="main/a")
    for ref in ("v1", commit.id):
        assert get(s3, repo, f"{ref}/a")["Body"].read() == b"x"


def test_many_are_deleted_at_once_each_with_its_outcome(lake: Lake, s3: Any, repo: str) -> None:
    lake.server.catalog.branches.create_branch(repo, "dev", "main")
    keys = ["main/a", "main/b b", "main/<&>\"'", "main/ü", "main/a//b", "dev/a", "main/ x "]
    for key in [*keys, "main/keep"]:
        put(s3, repo, key)
    asked = [*keys, "main/nothing", "main/"]
    done = s3.delete_objects(Bucket=repo, Delete={"Objects": [{"Key": key} for key in asked]})
    assert [each["Key"] for each in done["Deleted"]] == asked
    assert "Errors" not in done
    listed = s3.list_objects_v2(Bucket=repo, Prefix="main/")["Contents"]
    assert [each["Key"] for each in listed] == ["main/keep"]
    assert "Contents" not in s3.list_objects_v2(Bucket=repo, Prefix="dev/")


def test_protected_branches_and_read_only_repositories_are_not_written(
    lake: Lake, s3: Any, repo: str
) -> None:
    put(s3, repo, "main/a")
    lake.server.catalog.repositories.set_branch_protection(repo, ["main"])
    name = f"ro-{uuid.uuid4().hex[:8]}"
    lake.server.catalog.repositories.create_repository(name, lake.namespace(name), read_only=True)
    for bucket, code in ((repo, "ErrWriteToProtectedBranch"), (name, "ErrReadOnlyRepository")):
        with refused(code, 403):
            put(s3, bucket, "main/a")
        with refused(code, 403):
            s3.delete_object(Bucket=bucket, Key="main/a")
        with refused(code, 403):
            s3.create_multipart_upload(Bucket=bucket, Key="main/a")
    batch = {"Objects": [{"Key": "main/a"}]}
    done = s3.delete_objects(Bucket=repo, Delete=batch)
    assert [each["Code"] for each in done["Errors"]] == ["ErrWriteToProtectedBranch"]
    with refused("ErrReadOnlyRepository", 403):
        s3.delete_objects(Bucket=name, Delete=batch)
    assert get(s3, repo, "main/a")["Body"].read() == b"x"
