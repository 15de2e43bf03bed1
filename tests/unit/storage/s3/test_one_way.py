"""Both clients of S3 speak to one place, with one identity, whatever says how that is reached."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.connections import proxies_for
from dredge.errors import ConfigError
from dredge.storage import StorageOptions, environment_of_child, open_writer
from dredge.storage.s3 import resolving
from dredge.storage.s3.access import CLIENTS, access_to, bytes_client
from tests.support.objectstore import Answer, ScriptedS3

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
#: What obstore would heed by itself, each of which leads to another store or another identity.
FOR_OBSTORE = {
    "AWS_ENDPOINT": "http://127.0.0.1:1",
    "AWS_SKIP_SIGNATURE": "true",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    "AWS_S3_EXPRESS": "true",
    "AWS_UNSIGNED_PAYLOAD": "true",
    "AWS_BUCKET": "other",
    "AWS_TOKEN": "token",
    "AWS_ALLOW_INVALID_CERTIFICATES": "true",
}


@pytest.fixture(autouse=True)
def this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine that says nothing; gives the folder of AWS's files."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy") or name == "DREDGE_S3":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    CLIENTS.forget()
    yield tmp_path
    CLIENTS.forget()


def say(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def write_with_each(options: StorageOptions | None = None) -> None:
    """Write by obstore, by boto3, and by boto3 under a condition."""
    options = options or StorageOptions.from_env()
    assert bytes_client(options, "bkt") is not None
    writer = open_writer("s3://bkt/lake", options)
    writer.put("plain", b"x")
    writer.put("odd//name", b"x")
    writer.put_if_absent("new", b"x")


NAMES = ("plain", "odd//name", "new")
FINE = (200, "")


@pytest.mark.parametrize(
    ("config", "variables"),
    [
        ("[default]\nendpoint_url = {url}\n", {}),
        ("[profile minio]\nendpoint_url = {url}\n", {"AWS_PROFILE": "minio"}),
        ("[default]\nservices = own\n[services own]\ns3 =\n  endpoint_url = {url}\n", {}),
        ("[default]\nendpoint_url = http://127.0.0.1:1\n", {"AWS_ENDPOINT_URL_S3": "{url}"}),
        ("", {"AWS_ENDPOINT_URL": "{url}", "AWS_ENDPOINT_URL_S3": "", "AWS_PROFILE": "", "AWS_REGION": ""}),
        ("", {"AWS_ENDPOINT_URL": "{url}"} | FOR_OBSTORE),
    ],
    ids=["default", "profile", "services", "variable-first", "empty-is-absent", "obstore-reads-nothing"],
)
def test_an_endpoint_counts_for_both_clients(
    monkeypatch: pytest.MonkeyPatch, this_machine: Path, config: str, variables: dict[str, str]
) -> None:
    with ScriptedS3(lambda *_: FINE) as server:
        url = server.options.endpoint_url or ""
        (this_machine / "config").write_text(config.replace("{url}", url))
        say(monkeypatch, KEYS | {name: text.replace("{url}", url) for name, text in variables.items()})
        write_with_each()
        asked = [path for method, path, _ in server.requests if method == "PUT"]
        assert asked == [f"/bkt/lake/{name}" for name in NAMES]
        signed = [each for each in server.headers if "authorization" in each]
        assert len(signed) == len(server.headers)
        assert {"Credential=AKIAENV/" in each["authorization"] for each in signed} == {True}
        assert not any("x-amz-security-token" in each for each in server.headers)


@pytest.mark.parametrize(
    ("config", "variables", "kwargs"),
    [
        ("", {"AWS_S3_ADDRESSING_STYLE": "virtual"}, None),
        ("[default]\ns3 =\n  addressing_style = virtual\n", {}, None),
        ("", {}, {"s3": {"addressing_style": "virtual"}}),
    ],
    ids=["variable", "profile", "connection"],
)
def test_a_store_that_takes_the_bucket_in_the_host_only(
    monkeypatch: pytest.MonkeyPatch,
    this_machine: Path,
    config: str,
    variables: dict[str, str],
    kwargs: dict[str, object] | None,
) -> None:
    def answer(method: str, path: str, body: bytes) -> Answer:
        fits = path.startswith("http://bkt.oss.test/lake/")
        return FINE if fits else (403, "<Error><Code>SecondLevelDomainForbidden</Code></Error>")

    with ScriptedS3(answer) as front:
        (this_machine / "config").write_text(config)
        place = {"AWS_ENDPOINT_URL": "http://oss.test", "HTTP_PROXY": front.options.endpoint_url or ""}
        say(monkeypatch, KEYS | place | variables)
        options = replace(StorageOptions.from_env(), config=json.dumps(kwargs) if kwargs else None)
        write_with_each(options)
        assert [path for _, path, _ in front.requests] == [f"http://bkt.oss.test/lake/{n}" for n in NAMES]
        assert not access_to(options, "bkt").path_style


def test_a_store_that_takes_the_bucket_in_the_path_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(method: str, path: str, body: bytes) -> Answer:
        fits = path.startswith("http://minio.test/sub/bkt/lake/")
        return FINE if fits else (404, "<Error><Code>NoSuchBucket</Code></Error>")

    with ScriptedS3(answer) as front:
        place = {"AWS_ENDPOINT_URL": "http://minio.test/sub", "HTTP_PROXY": front.options.endpoint_url or ""}
        say(monkeypatch, KEYS | place)
        write_with_each()
        assert len(front.requests) == len(NAMES)


@pytest.mark.parametrize(
    "passed_by", ["127.0.0.0/8", "127.0.0.1", "localhost,127.0.0.1/32,other", "*", "10.0.0.0/8, 127.0.0.1"]
)
def test_no_proxy_counts_for_both_clients(monkeypatch: pytest.MonkeyPatch, passed_by: str) -> None:
    with ScriptedS3(lambda *_: FINE) as server, ScriptedS3(lambda *_: (502, "")) as proxy:
        say(monkeypatch, {"HTTP_PROXY": proxy.options.endpoint_url or "", "NO_PROXY": passed_by})
        write_with_each(server.options)
        assert (len(server.requests), proxy.requests) == (len(NAMES), [])


@pytest.mark.parametrize(
    ("url", "no", "is_passed_by"),
    [
        ("http://10.1.2.3:9000/b", "10.0.0.0/8", True),
        ("http://11.1.2.3:9000/b", "10.0.0.0/8", False),
        ("http://[fd00::5]:9000/b", "fd00::/8", True),
        ("http://[fe80::5]/b", "fd00::/8,[::1]", False),
        ("http://b.store.internal/x", ".internal", True),
        ("http://b.store.internal/x", "store.internal", True),
        ("http://b.store.external/x", "internal,10.0.0.0/8", False),
    ],
)
def test_networks_and_names_in_no_proxy(
    monkeypatch: pytest.MonkeyPatch, url: str, no: str, is_passed_by: bool
) -> None:
    say(monkeypatch, {"ALL_PROXY": "proxy:3128", "NO_PROXY": no})
    assert proxies_for(url) == ({} if is_passed_by else {"http": "http://proxy:3128"})


def test_keys_of_a_connection_never_meet_a_workers_token(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, KEYS | {"AWS_SESSION_TOKEN": "worker's"})
    with ScriptedS3(lambda *_: FINE) as server:
        connection = server.options
        write_with_each(connection)
        child = StorageOptions.from_env({**os.environ, **environment_of_child(connection)})
        write_with_each(child)
        assert len(server.headers) == 2 * len(NAMES)
        assert not any("x-amz-security-token" in each for each in server.headers)
        assert not any("AKIAENV" in each["authorization"] for each in server.headers)


def test_none_stays_none_on_the_way_to_another_process(
    monkeypatch: pytest.MonkeyPatch, this_machine: Path
) -> None:
    variables = environment_of_child(StorageOptions(access_key_id="K", secret_access_key="s"))
    (this_machine / "config").write_text("[default]\nendpoint_url = http://there:1\nregion = eu-west-9\n")
    say(monkeypatch, KEYS | {"AWS_ENDPOINT_URL": "http://there:2", "AWS_SESSION_TOKEN": "t"} | variables)
    child = StorageOptions.from_env()
    assert (child.endpoint_url, child.region, child.session_token) == (None, None, None)
    assert resolving.resolved(child) == child


@pytest.mark.parametrize("variable", ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"])
def test_switches_of_the_environment_go_to_children(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "true")
    sent = environment_of_child(StorageOptions())
    monkeypatch.delenv(variable)
    assert json.loads(StorageOptions.from_env(sent).config or "") == {variable[4:].lower(): True}


def sts(action: str, lifetime: timedelta) -> ScriptedS3:
    def answer(method: str, path: str, body: bytes) -> Answer:
        ends = (datetime.now(UTC) + lifetime).strftime("%Y-%m-%dT%H:%M:%SZ")
        key = f"ASIA{len(server.requests)}"
        return (
            200,
            f"<{action}Response><{action}Result><Credentials><AccessKeyId>{key}</AccessKeyId>"
            f"<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>{ends}</Expiration>"
            f"</Credentials></{action}Result></{action}Response>",
        )

    server = ScriptedS3(answer)
    return server


def test_a_role_is_taken_on_and_its_keys_are_renewed() -> None:
    with ScriptedS3(lambda *_: FINE) as server, sts("AssumeRole", timedelta(minutes=5)) as security:
        options = replace(
            server.options,
            role=json.dumps(
                {"RoleArn": "arn:aws:iam::1:role/r", "RoleSessionName": "name", "ExternalId": "xyz"}
            ),
            sts_endpoint=security.options.endpoint_url,
        )
        write_with_each(StorageOptions.from_env(environment_of_child(options)))
        used = [
            each["authorization"].partition("Credential=")[2].partition("/")[0] for each in server.headers
        ]
        assert all(key.startswith("ASIA") for key in used)
        assert len(set(used)) == len(used)  # less than ten minutes are left of each
        assert {each["x-amz-security-token"] for each in server.headers} == {"t"}
        assert b"ExternalId=xyz" in security.requests[0][2]
        assert "AKIAIOSFODNN7EXAMPLE" in security.headers[0]["authorization"]


def test_a_pods_identity_is_that_of_both_clients(monkeypatch: pytest.MonkeyPatch, this_machine: Path) -> None:
    (this_machine / "token").write_text("a.b.c")
    with (
        ScriptedS3(lambda *_: FINE) as server,
        sts("AssumeRoleWithWebIdentity", timedelta(hours=1)) as security,
    ):
        say(
            monkeypatch,
            {
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(this_machine / "token"),
                "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
                "AWS_ENDPOINT_URL_STS": security.options.endpoint_url or "",
                "AWS_ENDPOINT_URL_S3": server.options.endpoint_url or "",
                "AWS_REGION": "us-east-1",
                "AWS_DEFAULT_REGION": "us-east-1",
            },
        )
        write_with_each()
        assert {"Credential=ASIA1/" in each["authorization"] for each in server.headers} == {True}
        assert len(security.requests) == 1
        assert StorageOptions.from_env(environment_of_child(StorageOptions.from_env())).access_key_id is None


def test_requests_without_a_signature() -> None:
    with ScriptedS3(lambda *_: FINE) as server:
        write_with_each(replace(server.options, config=json.dumps({"signature_version": "unsigned"})))
        assert not any("authorization" in each for each in server.headers)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ca_bundle": "/no/such/file.pem"},
        {"config": '{"no_such_argument": 1}'},
        {"profile": "nobody"},
        {"config": '{"s3": {"addressing_style": "diagonal"}}'},
    ],
)
def test_a_configuration_that_is_wrong_is_refused_before_anything_is_sent(wrong: dict[str, str]) -> None:
    with ScriptedS3(lambda *_: FINE) as server:
        writer = open_writer("s3://bkt/lake", replace(server.options, **wrong))  # type: ignore[arg-type]
        for name in NAMES:
            with pytest.raises(ConfigError):
                writer.put(name, b"x")
        assert server.requests == []
