"""What lets a deletion be taken back, on every store that can: copies with everything about them, and versions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from dredge.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from dredge.storage import (
    ObjectCopier,
    ObjectWriter,
    StorageOptions,
    open_copier,
    open_deleter,
    open_marker_remover,
    open_old_version_deleter,
    open_versions,
    open_writer,
)
from dredge.storage.location import parse_uri
from dredge.storage.s3 import deleting as copying
from dredge.storage.s3.deleting import S3Copier
from tests.support.object_stores import Stores, new_folder
from tests.support.objectstore import TestBucket, make_bucket

ODD = ["data/plain", "data/with space", "data/a+b%20c", "data/q?x=1#y", "data/emoji😀", "data/'\"&<>"]


@dataclass
class Places:
    source: ObjectWriter
    target: ObjectWriter
    copier: ObjectCopier


@pytest.fixture
def places(stores: Stores) -> Places:
    below = f"{stores.uri}/run/quarantine"
    copier = open_copier(stores.uri, below, stores.options)
    return Places(stores.writer, open_writer(below, stores.options), copier)


def test_a_copy_has_the_same_key_and_the_same_bytes(places: Places) -> None:
    for number, key in enumerate(ODD):
        places.source.put(key, b"content %d" % number)
        copied = places.copier.copy(key)
        assert (copied.key, copied.size) == (key, 9)
        assert places.target.get(key) == places.source.get(key) == b"content %d" % number


def test_a_copy_that_must_find_its_key_free_replaces_nothing(stores: Stores, places: Places) -> None:
    if stores.kind == "gcs_emulator":
        pytest.skip("fake-gcs-server overlooks the condition of a rewrite")
    places.source.put("data/a", b"new")
    places.target.put("data/a", b"what is there")
    with pytest.raises(ConflictError):
        places.copier.copy("data/a", if_absent=True)
    assert places.target.get("data/a") == b"what is there"
    places.copier.copy("data/a")
    assert places.target.get("data/a") == b"new"


def test_what_is_not_as_it_must_be_is_not_copied(places: Places) -> None:
    places.source.put("data/a", b"content")
    found = places.source.stat("data/a")
    for size, etag in ((found.size + 1, None), (found.size, "another")):
        with pytest.raises(FormatError, match="nothing was copied"):
            places.copier.copy("data/a", size=size, etag=etag)
        with pytest.raises(NotFoundError):
            places.target.get("data/a")
    places.copier.copy("data/a", size=found.size, etag=found.etag)
    assert places.target.get("data/a") == b"content"


def test_what_is_not_there_is_not_copied(places: Places) -> None:
    places.target.put("data/a", b"an earlier copy")
    with pytest.raises(NotFoundError):
        places.copier.copy("data/a")
    assert places.target.get("data/a") == b"an earlier copy"


def test_nothing_is_copied_from_one_kind_of_store_to_another() -> None:
    with pytest.raises(ConfigError, match="inside a store"):
        open_copier("s3://bucket/a", "memory://other/b")


@pytest.fixture
def bucket(moto_options: StorageOptions) -> TestBucket:
    return make_bucket(moto_options)


class InParts(S3Copier):
    """Copies in parts what others copy by one request."""

    LIMIT_BYTES = 1
    PART_BYTES = 5 << 20


def copier_of(kind: type[S3Copier], bucket: TestBucket, source: str, target: str) -> S3Copier:
    from_, to = (parse_uri(f"{bucket.uri}/{name}", bucket.options) for name in (source, target))
    return kind(from_, to, bucket.options)


@pytest.mark.parametrize("kind", [S3Copier, InParts])
def test_a_copy_on_s3_keeps_what_is_known_of_the_object(bucket: TestBucket, kind: type[S3Copier]) -> None:
    content = b"0123456789" * (600_000 if kind is InParts else 1)
    bucket.client.put_object(
        Bucket=bucket.bucket,
        Key="lake/data/a",
        Body=content,
        ContentType="application/x-parquet",
        Metadata={"who": "me"},
        StorageClass="STANDARD_IA",
        ServerSideEncryption="aws:kms",
        SSEKMSKeyId="a-key",
        Tagging="team=a%20b",
    )
    copied = copier_of(kind, bucket, "lake", "q").copy("data/a")
    assert copied.size == len(content)
    found = bucket.client.head_object(Bucket=bucket.bucket, Key="q/data/a")
    assert found["ContentType"] == "application/x-parquet"
    assert found["Metadata"] == {"who": "me"}
    assert found["StorageClass"] == "STANDARD_IA"
    assert found["ServerSideEncryption"] == "aws:kms"
    assert "a-key" in found["SSEKMSKeyId"]
    tags = bucket.client.get_object_tagging(Bucket=bucket.bucket, Key="q/data/a")["TagSet"]
    assert tags == [{"Key": "team", "Value": "a b"}]
    body = bucket.client.get_object(Bucket=bucket.bucket, Key="q/data/a")["Body"].read()
    assert body == content


def test_a_copy_in_parts_that_fails_leaves_no_upload_and_no_object(bucket: TestBucket) -> None:
    class TooSmall(InParts):
        PART_BYTES = 100

    bucket.put("lake/data/a", data=b"x" * 200)
    with pytest.raises(ConfigError):
        copier_of(TooSmall, bucket, "lake", "q").copy("data/a")
    assert bucket.keys("q/") == []
    assert "Uploads" not in bucket.client.list_multipart_uploads(Bucket=bucket.bucket)


@pytest.mark.parametrize("content", [b"what was deleted", b""])
def test_what_is_put_under_the_key_between_look_and_copy_stays(bucket: TestBucket, content: bytes) -> None:
    bucket.put("q/data/a", data=content)

    class Late(S3Copier):
        def _is_there(self, key: str) -> bool:
            found = super()._is_there(key)
            bucket.put("lake/data/a", data=b"somebody else's")
            return found

    with pytest.raises(ConflictError):
        copier_of(Late, bucket, "q", "lake").copy("data/a", if_absent=True)
    found = bucket.client.get_object(Bucket=bucket.bucket, Key="lake/data/a")["Body"].read()
    assert found == b"somebody else's"
    assert "Uploads" not in bucket.client.list_multipart_uploads(Bucket=bucket.bucket)


@pytest.mark.parametrize("content", [b"content", b""])
def test_a_copy_to_a_free_key_keeps_what_is_known_of_the_object(bucket: TestBucket, content: bytes) -> None:
    about = {"ContentType": "application/x-parquet", "Metadata": {"who": "me"}, "StorageClass": "STANDARD_IA"}
    bucket.client.put_object(Bucket=bucket.bucket, Key="q/data/a", Body=content, Tagging="team=a", **about)
    open_copier(f"{bucket.uri}/q", f"{bucket.uri}/lake", bucket.options).copy("data/a", if_absent=True)
    found = bucket.client.get_object(Bucket=bucket.bucket, Key="lake/data/a")
    assert {name: found[name] for name in about} == about
    assert (found["Body"].read(), found["TagCount"]) == (content, 1)


def test_an_upload_that_is_gone_does_not_say_that_its_source_is(bucket: TestBucket) -> None:
    bucket.put("lake/data/a", data=b"content")

    class Client:
        def __getattr__(self, name: str) -> Any:
            return getattr(bucket.client, name)

        def complete_multipart_upload(self, **more: Any) -> None:
            bucket.client.complete_multipart_upload(**more)
            raise ClientError({"Error": {"Code": "NoSuchUpload"}}, "CompleteMultipartUpload")

    class Lost(InParts):
        _client = Client()  # type: ignore[assignment]

    with pytest.raises(UnavailableError, match="lost"):
        copier_of(Lost, bucket, "lake", "q").copy("data/a")


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"ContentLength": 4}, "size"),
        ({"ETag": '"' + "b" * 32 + '"'}, "ETag"),
        ({"ChecksumSHA256": "other"}, "ChecksumSHA256"),
    ],
)
def test_a_copy_that_is_not_like_its_source_is_an_error(changes: dict[str, object], differs: str) -> None:
    source = {
        "ContentLength": 3,
        "ETag": '"' + "a" * 32 + '"',
        "ChecksumType": "FULL_OBJECT",
        "ChecksumSHA256": "same",
    }
    copying._compare("data/a", source, dict(source))
    with pytest.raises(FormatError, match=differs):
        copying._compare("data/a", source, source | changes)
    # Tags of encrypted stores and of uploads in parts say nothing about the content.
    copying._compare("data/a", source, source | {"ETag": '"' + "b" * 32 + '-2"'})
    copying._compare("data/a", source, source | {"ETag": '"b"', "ServerSideEncryption": "aws:kms"})


@dataclass
class Versioned:
    uri: str
    options: StorageOptions
    writer: ObjectWriter

    @property
    def is_azure(self) -> bool:
        return self.uri.startswith("http://")


@pytest.fixture(params=["memory", "s3", "gcs", "azure"])
def versioned(request: pytest.FixtureRequest) -> Versioned:
    uri, options = new_folder(request, request.param, versioned=True)
    return Versioned(uri, options, open_writer(uri, options))


@pytest.mark.parametrize("key", ODD)
def test_taking_the_marker_away_brings_the_object_back(versioned: Versioned, key: str) -> None:
    reader = open_versions(versioned.uri, versioned.options)
    assert reader.versioning(f"{versioned.uri}/run") == "enabled"
    versioned.writer.put(key, b"content")
    versioned.writer.put(f"{key}/longer", b"another")
    (outcome,) = open_deleter(versioned.uri, versioned.options).delete([key])
    marker, version = reader.versions(key)
    assert (marker.is_latest, marker.is_marker) == (True, True)
    if not versioned.is_azure:  # a deletion there says nothing of versions
        assert marker.version_id == outcome.version_id
    assert (version.is_latest, version.is_marker, version.size) == (False, False, 7)
    remover = open_marker_remover(versioned.uri, versioned.options)
    with pytest.raises(RefusedError, match="no delete marker"):
        remover.remove(key, version)
    assert remover.remove(key, marker).outcome == "deleted"
    assert versioned.writer.get(key) == b"content"
    current, *older = reader.versions(key)
    assert current.is_latest
    # Where there are no markers, what comes back is a copy, and what it was copied from stays.
    assert older == ([version] if versioned.uri.startswith(("gs://", "http://")) else [])
    assert current.etag == versioned.writer.stat(key).etag
    assert (current.etag == version.etag) is not versioned.is_azure


def test_taking_a_marker_away_replaces_nothing_that_was_put_since(versioned: Versioned) -> None:
    reader = open_versions(versioned.uri, versioned.options)
    versioned.writer.put("data/a", b"content")
    open_deleter(versioned.uri, versioned.options).delete(["data/a"])
    marker, _ = reader.versions("data/a")
    versioned.writer.put("data/a", b"somebody else's")
    open_marker_remover(versioned.uri, versioned.options).remove("data/a", marker)
    assert versioned.writer.get("data/a") == b"somebody else's"


def test_an_old_version_goes_for_good_and_a_current_one_never(versioned: Versioned) -> None:
    reader = open_versions(versioned.uri, versioned.options)
    deleter = open_old_version_deleter(versioned.uri, versioned.options)
    for key in ("data/a", "data/b"):
        versioned.writer.put(key, b"content")
    (current,) = reader.versions("data/b")
    with pytest.raises(RefusedError, match="is the current one"):
        deleter.delete([("data/b", current)])
    open_deleter(versioned.uri, versioned.options).delete(["data/a"])
    marker, version = reader.versions("data/a")
    assert [item.outcome for item in deleter.delete([("data/a", version)], lambda: False)] == ["failed"]
    assert len(reader.versions("data/a")) == 2
    assert [item.outcome for item in deleter.delete([("data/a", version)])] == ["deleted"]
    assert [item.outcome for item in deleter.delete([("data/a", marker)])] == ["deleted"]
    assert reader.versions("data/a") == []
    assert versioned.writer.get("data/b") == b"content"


def test_a_bucket_tells_whether_it_keeps_versions(bucket: TestBucket, tmp_path: Path) -> None:
    reader = open_versions(f"{bucket.uri}/lake", bucket.options)
    assert reader.versioning() == "off"
    for status, found in (("Enabled", "enabled"), ("Suspended", "suspended")):
        bucket.client.put_bucket_versioning(Bucket=bucket.bucket, VersioningConfiguration={"Status": status})
        assert reader.versioning() == found
    assert open_versions(f"file://{tmp_path}").versioning() == "off"
    with pytest.raises(ConfigError, match="NoSuchBucket"):
        open_versions("s3://nothing-here/lake", bucket.options).versioning()
    with pytest.raises(ConfigError, match="keeps no versions"):
        open_old_version_deleter(f"file://{tmp_path}")
