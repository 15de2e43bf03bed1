"""The same cause gives the same family of error from every client: boto3, obstore, Azure's, Google's, lakeFS's,
PostgreSQL's and DynamoDB's."""

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dredge import causes
from dredge.causes import CAUSES, Cause
from dredge.errors import ConfigError, DredgeError, UnavailableError
from dredge.kv.dynamodb import AwsKeys
from dredge.lakefs import LakeFSClient
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.storage.options import AzureOptions, GcsOptions
from dredge.storage.s3 import access
from lakefs_embedded.kv.dynamodb import DynamoStore
from lakefs_embedded.kv.postgres import PostgresStore
from tests.support import failing
from tests.support.failing import Answer, FailingServer
from tests.support.secrets import SECRET, failure_of, words_of

_S3 = StorageOptions(
    region="us-east-1", access_key_id="AKIAX", secret_access_key=SECRET, session_token=f"{SECRET}token"
)


def _s3(url: str) -> StorageOptions:
    return replace(_S3, endpoint_url=url, ca_bundle=StorageOptions.from_env().ca_bundle)


def _list(url: str) -> object:
    return list(open_reader("s3://bkt/lake", _s3(url)).list())


def _put_if_absent(url: str) -> object:
    return open_writer("s3://bkt/lake", _s3(url)).put_if_absent("key", b"x")


def _get(url: str) -> object:
    return open_reader("s3://bkt/lake", _s3(url)).get("key")


def _put(url: str) -> object:
    return open_writer("s3://bkt/lake", _s3(url)).put("key", b"x")


def _azure(url: str) -> object:
    key = base64.b64encode(SECRET.encode() * 4).decode()
    options = StorageOptions(azure=AzureOptions("acct", key, endpoint_url=f"{url}/acct"))
    return open_reader("https://acct.blob.core.windows.net/box/lake", options).get("key")


def _gcs(url: str) -> object:
    return open_reader(
        "gs://bkt/lake", StorageOptions(gcs=GcsOptions(endpoint_url=url, retry_seconds=0.1))
    ).get("key")


def _lakefs(url: str) -> object:
    return LakeFSClient(url, "AKIAX", SECRET).repository("lake")


def _dynamodb(url: str) -> object:
    keys = AwsKeys("AKIAX", SECRET, f"{SECRET}token")
    return DynamoStore(f"dynamodb://table?region=us-east-1&endpoint={url}", create=False, keys=keys)


def _list_by_role(url: str) -> object:
    return list(open_reader("s3://bkt/lake", StorageOptions(region="us-east-1", endpoint_url=url)).list())


def _get_by_role(url: str) -> object:
    return open_reader("s3://bkt/lake", StorageOptions(region="us-east-1", endpoint_url=url)).get("key")


def _dynamodb_by_role(url: str) -> object:
    return DynamoStore(f"dynamodb://table?region=us-east-1&endpoint={url}", create=False)


def _postgres(url: str) -> object:
    scheme, _, server = url.partition("://")
    words = "sslmode=verify-full&sslrootcert=system" if scheme == "https" else "sslmode=disable"
    return PostgresStore(f"postgresql://me:{SECRET}@{server}/lakefs?{words}", create=False)


S3_CALLS = [_list, _put_if_absent, _get, _put]
HTTP_CALLS = [*S3_CALLS, _azure, _gcs, _lakefs, _dynamodb]
CALLS = [*HTTP_CALLS, _postgres]
Call = Callable[[str], object]


HASTE = {
    "storage.s3.access.READ_ATTEMPTS": 1,
    "storage.s3.access.CONNECT_SECONDS": 1,
    "storage.azure.clients.CONNECT_SECONDS": 1,
    "storage.azure.clients._READ_RETRIES": 0,
    "storage.gcs.wire._TIMEOUT": (1, 5),
    "lakefs.transport.CONNECT_SECONDS": 1,
    "lakefs.transport.TRIES": 1,
    "kv.dynamodb.TRIES": 1,
    "kv.postgres._CONNECT_SECONDS": 2,
}


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each client tries once, does not wait long, and is not one of another test."""
    for place, value in HASTE.items():
        monkeypatch.setattr(f"dredge.{place}", value)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    access.CLIENTS.forget()
    yield
    access.CLIENTS.forget()


def check(call: Call, url: str, cause: Cause) -> DredgeError:
    """Demand that a call fails for a cause, with no secret in any text of the error."""
    error = failure_of(lambda: call(url))
    assert isinstance(error, DredgeError), error
    assert isinstance(error, cause.family), error
    assert (error.kind, error.exit_code) == (cause.family.kind, cause.family.exit_code)
    if cause.what_to_do and call not in (_postgres, _dynamodb_by_role):
        assert cause.what_to_do in str(error)
    assert SECRET not in words_of(error)
    return error


@pytest.mark.parametrize("call", CALLS)
def test_a_connection_that_is_refused(call: Call) -> None:
    check(call, f"http://127.0.0.1:{failing.closed_port()}", causes.UNREACHABLE)


@pytest.mark.parametrize("call", CALLS)
def test_a_name_that_is_not_found(call: Call) -> None:
    check(call, "http://no-such-host.invalid:9000", causes.UNREACHABLE)


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_does_not_accept(call: Call) -> None:
    with failing.port_without_answer() as port:
        check(call, f"http://127.0.0.1:{port}", causes.UNREACHABLE)


# lakeFS's SDK and PostgreSQL's library use no proxy of the environment.
@pytest.mark.parametrize("call", [*S3_CALLS, _azure, _gcs, _dynamodb])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_down(call: Call, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{failing.closed_port()}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    # Clients are kept by options, and read the environment when they are made.
    check(call, f"{scheme}://store-{time.time_ns()}.example", causes.UNREACHABLE)


@pytest.mark.parametrize("call", CALLS)
def test_a_certificate_that_is_not_accepted_is_said_at_once(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (
        "storage.s3.access.READ_ATTEMPTS",
        "storage.azure.clients._READ_RETRIES",
        "lakefs.transport.TRIES",
    ):
        monkeypatch.setattr(f"dredge.{place}", 6)
    with failing.port_with_unknown_certificate(tmp_path, postgres=call is _postgres) as port:
        check(call, f"https://localhost:{port}", causes.CERTIFICATE)


_ANSWERS: list[tuple[Cause, list[Call], str, Answer]] = [
    (causes.EXPIRED, S3_CALLS, "xml", Answer(400, "ExpiredToken")),
    (causes.EXPIRED, [_dynamodb], "dynamodb", Answer(400, "ExpiredTokenException")),
    (
        causes.EXPIRED,
        [_azure],
        "xml",
        Answer(403, "AuthenticationFailed", "Signature not valid: the token expired"),
    ),
    (causes.CREDENTIALS, S3_CALLS, "xml", Answer(403, "InvalidAccessKeyId")),
    (causes.CREDENTIALS, S3_CALLS, "xml", Answer(403, "SignatureDoesNotMatch")),
    (causes.CREDENTIALS, S3_CALLS, "xml", Answer(400, "InvalidToken")),
    (causes.CREDENTIALS, [_dynamodb], "dynamodb", Answer(400, "UnrecognizedClientException")),
    (causes.CREDENTIALS, [_azure], "xml", Answer(403, "AuthenticationFailed")),
    (causes.EXPIRED, [_gcs], "google", Answer(401, "authError", "Token expired")),
    (causes.CREDENTIALS, [_gcs], "google", Answer(401, "authError")),
    (causes.CLOCK, S3_CALLS, "xml", Answer(403, "RequestTimeTooSkewed")),
    (causes.REGION, [_list, _get], "xml", Answer(400, "AuthorizationHeaderMalformed")),
    (
        causes.CHECKSUM,
        S3_CALLS,
        "xml",
        Answer(400, "InvalidRequest", "Content-MD5 OR x-amz-checksum- is required"),
    ),
    (causes.CHECKSUM, [_azure], "xml", Answer(400, "MissingContentMD5")),
    (causes.NOT_IMPLEMENTED, S3_CALLS, "xml", Answer(501, "NotImplemented")),
    (causes.NOT_IMPLEMENTED, [_azure], "xml", Answer(405, "UnsupportedHttpVerb")),
    (causes.NOT_IMPLEMENTED, [_gcs], "google", Answer(501, "notImplemented")),
    (causes.NO_CONTAINER, [_dynamodb], "dynamodb", Answer(400, "ResourceNotFoundException")),
    (causes.MISSING, [_lakefs], "lakefs", Answer(404, "", "repository not found")),
    (causes.REJECTED, S3_CALLS, "xml", Answer(400, "EntityTooLarge")),
    (causes.REJECTED, [_azure], "xml", Answer(400, "InvalidHeaderValue")),
    (causes.REJECTED, [_gcs], "google", Answer(400, "invalid")),
    (causes.REJECTED, [_dynamodb], "dynamodb", Answer(400, "ValidationException")),
    (causes.BUSY, S3_CALLS, "xml", Answer(503, "SlowDown")),
    (causes.BUSY, [_azure], "xml", Answer(503, "ServerBusy")),
    (causes.BUSY, [_gcs], "google", Answer(503, "backendError")),
    (causes.BUSY, [_dynamodb], "dynamodb", Answer(400, "ThrottlingException")),
    (causes.BUSY, [_dynamodb], "dynamodb", Answer(500, "InternalServerError")),
    (causes.CONFLICT, [_put_if_absent], "xml", Answer(412, "PreconditionFailed")),
]
_HINTED: list[tuple[Cause, list[Call], str, Answer]] = [
    (causes.DENIED, S3_CALLS, "xml", Answer(403, "AccessDenied")),
    (causes.DENIED, [_azure], "xml", Answer(403, "AuthorizationPermissionMismatch")),
    (causes.DENIED, [_gcs], "google", Answer(403, "forbidden")),
    (causes.DENIED, [_dynamodb], "dynamodb", Answer(400, "AccessDeniedException")),
    (causes.DENIED, [_lakefs], "lakefs", Answer(403, "", "insufficient permissions")),
    (causes.CREDENTIALS, [_lakefs], "lakefs", Answer(401, "", "error authenticating request")),
    (causes.NOT_IMPLEMENTED, [_lakefs], "lakefs", Answer(501, "", "Not implemented")),
    (causes.BUSY, [_lakefs], "lakefs", Answer(503, "", "Too busy")),
    (causes.NO_CONTAINER, S3_CALLS, "xml", Answer(404, "NoSuchBucket")),
    (causes.NO_CONTAINER, [_azure], "xml", Answer(404, "ContainerNotFound")),
    (causes.NO_CONTAINER, [_gcs], "google", Answer(404, "notFound", "The specified bucket does not exist.")),
]


@pytest.mark.parametrize(
    ("cause", "call", "form", "answer"),
    [(cause, call, form, answer) for cause, calls, form, answer in _ANSWERS + _HINTED for call in calls],
    ids=lambda value: (
        getattr(value, "name", None) or getattr(value, "code", None) or getattr(value, "__name__", value)
    ),
)
def test_an_answer_gives_its_family_with_the_services_own_code_and_message(
    cause: Cause, call: Call, form: str, answer: Answer
) -> None:
    with FailingServer(answer, form) as server:
        error = failure_of(lambda: call(server.address))
    assert isinstance(error, DredgeError), error
    assert (type(error).kind, type(error).exit_code) == (cause.family.kind, cause.family.exit_code), error
    assert answer.code in str(error)
    if cause not in (causes.CREDENTIALS, causes.EXPIRED) or call is not _dynamodb:
        assert answer.message in str(error)
    assert SECRET not in words_of(error)


@pytest.mark.parametrize(
    ("cause", "code", "message"),
    [
        (causes.CREDENTIALS, "28P01", 'password authentication failed for user "me"'),
        (causes.CREDENTIALS, "28000", 'no pg_hba.conf entry for host "127.0.0.1"'),
        (causes.NO_CONTAINER, "3D000", 'database "lakefs" does not exist'),
        (causes.REJECTED, "08P01", "unsupported startup parameter: options"),
        (causes.UNREACHABLE, "57P03", "the database system is starting up"),
        (causes.UNREACHABLE, "53300", "sorry, too many clients already"),
    ],
)
def test_a_database_that_lets_nobody_in(cause: Cause, code: str, message: str) -> None:
    with failing.postgres_that_refuses(code, message) as port:
        error = check(_postgres, f"http://127.0.0.1:{port}", cause)
    assert message.partition('"')[0] in str(error)


@pytest.mark.parametrize("call", [_list, _list_by_role, _get_by_role, _dynamodb_by_role])
def test_a_profile_that_is_not_there(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    check(call, f"http://127.0.0.1:{failing.closed_port()}", causes.UNUSABLE)


@pytest.mark.parametrize("call", [_list_by_role, _get_by_role, _dynamodb_by_role])
def test_a_role_whose_service_does_not_answer(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{SECRET}.{SECRET}.{SECRET}")
    for name, value in {
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/lake",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{failing.closed_port()}",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    check(call, f"http://127.0.0.1:{failing.closed_port()}", causes.UNREACHABLE)


@pytest.mark.parametrize("call", [_get, _list, _lakefs, _azure, _gcs])
def test_one_variable_names_the_authority_for_every_client(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with failing.port_with_unknown_certificate(tmp_path) as port:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        error = failure_of(lambda: call(f"https://localhost:{port}"))
    assert isinstance(error, UnavailableError), error


@pytest.mark.parametrize("call", [_get, _list, _lakefs])
def test_a_file_of_authorities_that_is_none_is_bad_input(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    error = failure_of(lambda: call("https://localhost:1"))
    assert isinstance(error, ConfigError), error


def test_every_cause_has_a_name_of_its_own() -> None:
    assert len({cause.name for cause in CAUSES}) == len(CAUSES)
    assert {cause for cause in vars(causes).values() if isinstance(cause, Cause)} == set(CAUSES)
