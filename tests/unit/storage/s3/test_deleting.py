"""The truth about every key of a bulk delete (L37), under every kind of answer."""

from collections import Counter
from xml.sax.saxutils import escape

import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.storage import StorageOptions, open_deleter, open_versions
from dredge.storage.location import parse_uri
from dredge.storage.s3.deleting import S3Deleter, S3VersionDeleter
from tests.support.objectstore import Answer, ScriptedS3, deleted_keys, make_bucket

NO_VERSIONS = (200, "<VersioningConfiguration/>")


def result(errors: dict[str, str] | None = None, deleted: dict[str, str] | None = None) -> Answer:
    rows = [
        f"<Error><Key>{escape(key)}</Key><Code>{code}</Code><Message>words</Message></Error>"
        for key, code in (errors or {}).items()
    ]
    rows += [
        f"<Deleted><Key>{escape(key)}</Key><DeleteMarker>true</DeleteMarker>"
        f"<DeleteMarkerVersionId>{version}</DeleteMarkerVersionId></Deleted>"
        for key, version in (deleted or {}).items()
    ]
    return 200, f"<DeleteResult>{''.join(rows)}</DeleteResult>"


def failure(status: int, code: str) -> Answer:
    return status, f"<Error><Code>{code}</Code><Message>words</Message></Error>"


def patient(server: ScriptedS3, **settings: int) -> S3Deleter:
    options = StorageOptions(**{**vars_of(server.options), **settings})  # type: ignore[arg-type]
    deleter = S3Deleter(parse_uri("s3://bkt/lake", options), options)
    deleter._sleep = lambda seconds: None
    deleter._rate._sleep = lambda seconds: None
    return deleter


def of_versions(server: ScriptedS3) -> S3VersionDeleter:
    deleter = S3VersionDeleter(parse_uri("s3://bkt/lake", server.options), server.options)
    deleter._sleep = lambda seconds: None
    return deleter


def vars_of(options: StorageOptions) -> dict[str, object]:
    return {name: getattr(options, name) for name in options.__dataclass_fields__}


def bulk(path: str) -> bool:
    return "?delete" in path


def test_a_failed_key_is_failed_and_the_others_are_deleted() -> None:
    def answer(method: str, path: str, body: bytes) -> Answer:
        return result({"lake/b": "AccessDenied", "lake/d": "InvalidArgument"}) if bulk(path) else NO_VERSIONS

    with ScriptedS3(answer) as server:
        outcomes = patient(server).delete(["a", "b", "c", "d"])
    assert [(o.key, o.outcome, o.code) for o in outcomes] == [
        ("a", "deleted", None),
        ("b", "failed", "AccessDenied"),
        ("c", "deleted", None),
        ("d", "failed", "InvalidArgument"),
    ]
    assert outcomes[1].message == "words"


def test_only_throttled_keys_are_tried_again() -> None:
    seen: list[list[str]] = []

    def answer(method: str, path: str, body: bytes) -> Answer:
        if not bulk(path):
            return NO_VERSIONS
        keys = deleted_keys(body)
        seen.append(keys)
        if len(seen) == 1:
            return result({"lake/b": "SlowDown", "lake/c": "InternalError", "lake/d": "AccessDenied"})
        return result({"lake/c": "SlowDown"} if len(seen) == 2 else {})

    with ScriptedS3(answer) as server:
        outcomes = patient(server).delete(["a", "b", "c", "d"])
    assert seen == [["lake/a", "lake/b", "lake/c", "lake/d"], ["lake/b", "lake/c"], ["lake/c"]]
    assert [o.outcome for o in outcomes] == ["deleted", "deleted", "deleted", "failed"]


def test_lost_connections_are_tried_again() -> None:
    counts: Counter[str] = Counter()

    def answer(method: str, path: str, body: bytes) -> Answer:
        if not bulk(path):
            return NO_VERSIONS
        counts["bulk"] += 1
        if counts["bulk"] == 1:
            raise ConnectionError
        return result()

    with ScriptedS3(answer) as server:
        assert [o.outcome for o in patient(server).delete(["a"])] == ["deleted"]


def test_an_answer_that_had_to_be_asked_for_again_is_noted_with_the_key() -> None:
    counts: Counter[str] = Counter()

    def answer(method: str, path: str, body: bytes) -> Answer:
        if not bulk(path):
            return NO_VERSIONS
        counts["bulk"] += 1
        if counts["bulk"] == 1:
            return result({"lake/busy": "SlowDown", "lake/broken": "InternalError"})
        return result()

    with ScriptedS3(answer) as server:
        found = {o.key: o for o in patient(server).delete(["busy", "broken", "fine"])}
    assert {o.outcome for o in found.values()} == {"deleted"}
    assert {key for key, o in found.items() if o.message} == {"broken"}
    assert "InternalError" in str(found["broken"].message)


@pytest.mark.parametrize(
    "silly",
    [
        (200, ""),
        (200, "<html>welcome to the hotel's network</html>"),
        (200, "<DeleteResult><Error><Key>other</Key><Code>AccessDenied</Code></Error></DeleteResult>"),
        (200, "<DeleteResult><Error><Code>AccessDenied</Code></Error></DeleteResult>"),
    ],
)
def test_an_answer_that_says_nothing_of_a_key_does_not_count_as_deleted(silly: Answer) -> None:
    def answer(method: str, path: str, body: bytes) -> Answer:
        return silly if bulk(path) else NO_VERSIONS

    with ScriptedS3(answer) as server:
        outcomes = patient(server).delete(["a", "b", "c"])
    assert {o.outcome for o in outcomes} == {"failed"}


def test_a_200_with_an_error_inside_is_an_error() -> None:
    def answer(method: str, path: str, body: bytes) -> Answer:
        return (200, failure(500, "InternalError")[1]) if bulk(path) else NO_VERSIONS

    with ScriptedS3(answer) as server:
        outcomes = patient(server).delete(["a"])
    assert [o.outcome for o in outcomes] == ["failed"]


def test_a_versioned_bucket_tells_the_delete_markers(moto_options: StorageOptions) -> None:
    bucket = make_bucket(moto_options, versioned=True)
    bucket.put("a", "b", " c", "keep")
    outcomes = open_deleter(bucket.uri, bucket.options).delete(["a", "b", " c"])
    assert [o.outcome for o in outcomes] == ["deleted"] * 3
    markers = {
        m["Key"]: m["VersionId"]
        for m in bucket.client.list_object_versions(Bucket=bucket.bucket)["DeleteMarkers"]
    }
    assert {o.key: o.version_id for o in outcomes} == markers
    assert bucket.keys() == ["keep"]
    versions = bucket.client.list_object_versions(Bucket=bucket.bucket)["Versions"]
    assert len(versions) == 4  # L40: old versions are nobody's business here


def test_a_key_without_an_answer_on_a_versioned_bucket_is_not_deleted() -> None:
    def answer(method: str, path: str, body: bytes) -> Answer:
        if not bulk(path):
            return 200, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        return result(deleted={key: "v1" for key in deleted_keys(body) if key != "lake/b"})

    with ScriptedS3(answer) as server:
        outcomes = patient(server).delete(["a", "b"])
    assert [(o.outcome, o.version_id) for o in outcomes] == [("deleted", "v1"), ("failed", None)]


def test_a_missing_bucket_is_an_error_of_the_configuration(moto_options: StorageOptions) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        open_deleter("s3://no-such-bucket-here/x", moto_options).delete(["a"])


@pytest.mark.parametrize("body", ["<html><body>proxy</body></html>", ""])
def test_the_page_of_a_proxy_says_nothing_about_versions(body: str) -> None:
    with ScriptedS3(lambda method, path, _: (200, body)) as server:
        versions = open_versions("s3://bkt/lake", server.options)
        assert versions.versioning() == "unknown"
        with pytest.raises(UnavailableError):
            versions.versions("a")


def test_any_version_id_of_s3_is_sent() -> None:
    deleted = "<Deleted><Key>lake/a</Key><VersionId>1-deleted</VersionId></Deleted>"

    def answer(method: str, path: str, body: bytes) -> Answer:
        return (200, f"<DeleteResult>{deleted if b'1-deleted' in body else ''}</DeleteResult>")

    with ScriptedS3(answer) as server:
        outcomes = of_versions(server).delete([("a", "1-deleted"), ("b", "2-deleted")])
    assert [(o.outcome, o.version_id) for o in outcomes] == [
        ("deleted", "1-deleted"),
        ("failed", "2-deleted"),
    ]


def test_a_busy_store_is_asked_again_about_a_version() -> None:
    answers = iter(("<Error><Key>lake/a</Key><VersionId>v2</VersionId><Code>SlowDown</Code></Error>", ""))
    deleted = "<Deleted><Key>lake/a</Key><VersionId>{}</VersionId></Deleted>"

    def answer(method: str, path: str, body: bytes) -> Answer:
        rows = deleted.format("v1") if b"v1" in body else ""
        return 200, f"<DeleteResult>{rows}{next(answers) or deleted.format('v2')}</DeleteResult>"

    with ScriptedS3(answer) as server:
        outcomes = of_versions(server).delete([("a", "v1"), ("a", "v2")])
        assert [deleted_keys(body) for _, _, body in server.requests] == [["lake/a", "lake/a"], ["lake/a"]]
    assert [(o.outcome, o.version_id) for o in outcomes] == [("deleted", "v1"), ("deleted", "v2")]


def test_an_object_is_never_deleted_for_a_version_without_an_id() -> None:
    with ScriptedS3(lambda method, path, body: result()) as server:
        (outcome,) = of_versions(server).delete([("a", "")])
        assert server.requests == []
    assert outcome.outcome == "not_addressable"
