"""URIs, options, keys and messages."""

import os
from pathlib import Path

import pytest

from dredge.errors import ConfigError, ConflictError, NotFoundError, UnavailableError
from dredge.storage import StorageOptions, environment_of_child, open_deleter, open_reader, open_writer
from dredge.storage.https import redact
from dredge.storage.location import parse_uri
from dredge.storage.parallel import STORE
from tests.support.objectstore import Answer, ScriptedS3

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKEN = "FwoGZXIvYXdzEXAMPLETOKEN"
OPTIONS = StorageOptions(access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key=SECRET, session_token=TOKEN)


@pytest.mark.parametrize(
    ("uri", "driver", "bucket", "root", "canonical"),
    [
        ("s3://b", "s3", "b", "", "s3://b"),
        ("s3://b/", "s3", "b", "", "s3://b"),
        ("s3a://b/p/q/", "s3", "b", "p/q", "s3://b/p/q"),
        ("s3n://b/p", "s3", "b", "p", "s3://b/p"),
        ("S3://b/p", "s3", "b", "p", "s3://b/p"),
        ("s3://b/p//q", "s3", "b", "p//q", "s3://b/p//q"),
        ("s3://b/p%20q?x#y", "s3", "b", "p%20q?x#y", "s3://b/p%20q?x#y"),
        ("s3://b//p", "s3", "b", "/p", "s3://b//p"),
        ("file:///data/lake", "local", "", "/data/lake", "file:///data/lake"),
        ("file:///data/lake/", "local", "", "/data/lake", "file:///data/lake"),
        ("local:///data/lake", "local", "", "/data/lake", "file:///data/lake"),
        ("/data/lake", "local", "", "/data/lake", "file:///data/lake"),
        ("local://repo", "local", "", "/base/repo", "file:///base/repo"),
        ("file:///data/with space%20", "local", "", "/data/with space%20", "file:///data/with space%20"),
        ("gs://b/p", "gcs", "b", "p", "gs://b/p"),
        ("gcs://b/p/", "gcs", "b", "p", "gs://b/p"),
    ],
)
def test_uris_are_taken_literally(uri: str, driver: str, bucket: str, root: str, canonical: str) -> None:
    found = parse_uri(uri, StorageOptions(local_base="/base"))
    assert (found.driver, found.bucket, found.root, found.uri) == (driver, bucket, root, canonical)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "relative/path",
        "s3://",
        "gs:///p",
        "abfss://",
        "file://host/x",
        "file://",
        "local://name",
        "ftp://x/y",
        "file:///a/../b",
        "adl://a/b",
    ],
)
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError):
        parse_uri(uri, StorageOptions())


def test_options_survive_the_way_through_an_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    full = StorageOptions(
        endpoint_url="http://h:1",
        region="eu-west-1",
        access_key_id="k",
        secret_access_key="s",
        session_token="t",
        ca_bundle="/ca",
        local_base="/l",
    )
    assert StorageOptions.from_env(full.to_env()) == full
    assert StorageOptions.from_env({}) == StorageOptions()
    assert StorageOptions().to_env() == environment_of_child(StorageOptions()) == {}
    monkeypatch.setenv("AWS_REGION", "here")
    child = StorageOptions.from_env({"AWS_REGION": "there"} | environment_of_child(StorageOptions()))
    assert child.region is None
    assert StorageOptions.from_env(
        {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}
    ).endpoint_url == ("http://b")
    assert StorageOptions.from_env({"AWS_DEFAULT_REGION": "x", "AWS_REGION": ""}).region == "x"


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint_url": "host:9000"},
        {"endpoint_url": "http://user:pass@host"},
        {"access_key_id": "k"},
        {"secret_access_key": "s"},
        {"delete_requests": 0},
    ],
)
def test_wrong_options_are_refused_without_repeating_them(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        StorageOptions(**wrong)  # type: ignore[arg-type]
    assert "pass" not in str(caught.value).replace("pass ", "")


def test_secrets_never_show() -> None:
    stores = [opener("s3://b/p", OPTIONS) for opener in (open_reader, open_writer, open_deleter)]
    shown = " ".join([repr(OPTIONS), str(OPTIONS), *map(repr, stores), *map(str, stores)])
    for secret in (SECRET, TOKEN, "AKIAIOSFODNN7EXAMPLE"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("status", "code", "family"),
    [
        (403, "SignatureDoesNotMatch", ConfigError),
        (403, "InvalidAccessKeyId", ConfigError),
        (503, "SlowDown", UnavailableError),
        (404, "NoSuchKey", NotFoundError),
        (404, "NoSuchBucket", ConfigError),
        (412, "PreconditionFailed", ConflictError),
    ],
)
def test_errors_belong_to_families_and_carry_no_secret(
    status: int, code: str, family: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dredge.storage.s3.access.READ_ATTEMPTS", 2)

    words = f"Credential={SECRET} X-Amz-Signature={TOKEN} for http://user:{SECRET}@host/"

    def answer(method: str, path: str, body: bytes) -> Answer:
        return (
            status,
            f"<Error><Code>{code}</Code><Message>{words}</Message></Error>",
        )

    with ScriptedS3(answer) as server:
        options = StorageOptions(
            endpoint_url=server.options.endpoint_url, access_key_id="AKIAX", secret_access_key=SECRET
        )
        writer, deleter = open_writer("s3://bkt/p", options), open_deleter("s3://bkt/p", options)
        calls = [
            lambda: writer.get("k"),
            lambda: list(writer.get_many(["k", "l"])),
            lambda: writer.get_range("k", 0, 1),
            lambda: writer.put_if_absent("k", b""),
            lambda: list(writer.list()),
        ]
        refusals = STORE.refusals
        for call in calls:
            with pytest.raises(family) as caught:
                call()
            assert caught.value.__cause__ is None
            assert SECRET not in str(caught.value)
            assert TOKEN not in str(caught.value)
            assert "AKIAX" not in str(caught.value)
        assert (STORE.refusals > refusals) == (status == 503)
        if status == 403:
            outcome = deleter.delete(["k"])[0]
            assert (outcome.outcome, outcome.code) == ("failed", code)
            assert SECRET not in repr(outcome)


def test_redaction_keeps_one_line_without_secrets() -> None:
    text = "GET http://user:pw@h/b?X-Amz-Signature=abc123&sig=xyz&x=1\nDebug: Config { secret: 1 }"
    assert redact(text) == "GET http://…@h/b?X-Amz-Signature=…&sig=…&x=1"
