"""Put, copy and delete objects, as boto3 sees them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.lakefs_server import Lake
from tests.support.s3_gateway import code_of, refused, send


def test_other_conditions_on_writing_are_refused_not_ignored(lake: Lake, s3: Any, repo: str) -> None:
    etag = s3.put_object(Bucket=repo, Key="main/a", Body=b"1")["ETag"]
    with refused("NotImplemented", 501):
        s3.put_object(Bucket=repo, Key="main/a", Body=b"2", IfMatch=etag)
    with refused("NotImplemented", 501):
        s3.put_object(Bucket=repo, Key="main/a", Body=b"2", IfNoneMatch=etag)
    assert code_of(send(lake, "DELETE", f"/{repo}/main/a", headers={"If-Match": etag})) == "NotImplemented"
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"1"


WITH_DTD = '<!DOCTYPE d [<!ENTITY e "main/a">]><Delete><Object><Key>&e;</Key></Object></Delete>'


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


def test_copying_from_another_repository_and_from_a_commit(lake: Lake, s3: Any, repo: str) -> None:
    other = f"{repo}-2"
    lake.server.catalog.repositories.create_repository(other, lake.namespace(other))
    put(s3, repo, "main/a", b"old", Metadata={"a": "b"})
    commit = lake.server.catalog.commits.commit(repo, "main", message="m", committer="c")
    put(s3, repo, "main/a", b"new")
    s3.copy_object(Bucket=other, Key="main/a", CopySource=f"{repo}/{commit.id}/a")
    found = get(s3, other, "main/a")
    assert (found["Body"].read(), found["Metadata"]) == (b"old", {"a": "b"})
    address = lake.server.catalog.reading.stat(other, "main", "a").physical_address
    assert address.startswith(lake.namespace(other) + "/data/")


def test_a_copy_goes_on_conditions_of_its_source(s3: Any, repo: str) -> None:
    put(s3, repo, "main/a")
    etag = get(s3, repo, "main/a")["ETag"]
    source = {"Bucket": repo, "Key": "main/b", "CopySource": f"{repo}/main/a"}
    s3.copy_object(**source, CopySourceIfMatch=etag)
    with refused("PreconditionFailed", 412):
        s3.copy_object(**source, CopySourceIfMatch='"other"')
    with refused("PreconditionFailed", 412):
        s3.copy_object(**source, CopySourceIfNoneMatch=etag)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("{repo}/main/nothing", "NoSuchKey"),
        ("{repo}/nobranch/a", "NoSuchBucket"),
        ("no-such-repo/main/a", "NoSuchBucket"),
        ("{repo}", "InvalidArgument"),
        ("{repo}/main", "InvalidArgument"),
        ("{repo}/main/", "InvalidArgument"),
        ("{repo}/main/a?versionId=3", "NotImplemented"),
    ],
)
def test_a_source_that_is_none(lake: Lake, s3: Any, repo: str, source: str, code: str) -> None:
    put(s3, repo, "main/a")
    headers = {"x-amz-copy-source": source.format(repo=repo)}
    assert code_of(send(lake, "PUT", f"/{repo}/main/b", headers=headers)) == code
    with refused("NoSuchKey"):
        get(s3, repo, "main/b")


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


def test_a_thousand_are_deleted_and_no_more(lake: Lake, s3: Any, repo: str) -> None:
    keys = [{"Key": f"main/{number}"} for number in range(1001)]
    quiet = s3.delete_objects(Bucket=repo, Delete={"Objects": keys[:1000], "Quiet": True})
    assert "Deleted" not in quiet
    assert "Errors" not in quiet
    with refused("MalformedXML", 400):
        s3.delete_objects(Bucket=repo, Delete={"Objects": keys})


def test_one_key_that_fails_does_not_stop_the_others(lake: Lake, s3: Any, repo: str) -> None:
    for key in ("main/a", "main/b"):
        put(s3, repo, key)
    objects = [{"Key": "main/a"}, {"Key": "main/" + "x" * 1025}, {"Key": "main/b", "VersionId": "7"}]
    done = s3.delete_objects(Bucket=repo, Delete={"Objects": objects})
    assert [each["Key"] for each in done["Deleted"]] == ["main/a"]
    assert [each["Code"] for each in done["Errors"]] == ["KeyTooLongError", "NotImplemented"]
    assert get(s3, repo, "main/b")["Body"].read() == b"x"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Delete/>",
        b"<Other><Object><Key>main/a</Key></Object></Other>",
        b"<Delete><Object></Object></Delete>",
        b"<Delete><Object><Key>main/a</Key></Object>",
        WITH_DTD.encode(),
        WITH_DTD.encode("utf-16"),
        WITH_DTD.encode("utf-16-le"),
        WITH_DTD.encode("utf-16-be"),
    ],
)
def test_a_document_that_is_no_delete_deletes_nothing(lake: Lake, s3: Any, repo: str, body: bytes) -> None:
    put(s3, repo, "main/a")
    answer = send(lake, "POST", f"/{repo}", query={"delete": ""}, body=body)
    assert code_of(answer) == "MalformedXML"
    assert get(s3, repo, "main/a")["Body"].read() == b"x"


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
