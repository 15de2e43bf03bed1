"""Text of a server's URL and of its keys is in no message."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import certifi
import pytest
from botocore.exceptions import ClientError

from dredge.connections import check_key, check_server_url, tls_context
from dredge.errors import ConfigError, DredgeError, UnavailableError
from dredge.kv.dynamodb import AwsKeys
from dredge.lakefs import LakeFSClient
from dredge.storage import StorageOptions
from dredge.storage.options import AzureOptions, GcsOptions
from lakefs_embedded.kv.dynamodb import DynamoStore
from tests.support.secrets import AWKWARD, SECRET, failure_of, words_of

_URLS = (
    *(f"https://me:{password}@127.0.0.1:1" for password in AWKWARD),
    f"https://{SECRET}@127.0.0.1:1",
    f"https://127.0.0.1:{SECRET}",
    f"https://127.0.0.1:1/?sig={SECRET}",
    f"https://127.0.0.1:1#{SECRET}",
    f"https://[{SECRET}",
    f"ftp://{SECRET}",
    SECRET,
)

_TAKES_A_URL: tuple[Callable[[str], object], ...] = (
    lambda url: LakeFSClient(url, "key", "secret"),
    lambda url: StorageOptions(endpoint_url=url),
    lambda url: StorageOptions.from_env({"AWS_ENDPOINT_URL": url}),
    lambda url: GcsOptions(endpoint_url=url),
    lambda url: AzureOptions(account="a", endpoint_url=url),
    lambda url: AzureOptions.from_env({"AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint={url}"}),
)

_TAKES_A_KEY: tuple[Callable[[str], object], ...] = (
    lambda key: LakeFSClient("http://127.0.0.1:1", key, "secret"),
    lambda key: LakeFSClient("http://127.0.0.1:1", "key", key),
    lambda key: StorageOptions(access_key_id=key, secret_access_key="s"),
    lambda key: StorageOptions(access_key_id="k", secret_access_key=key),
    lambda key: StorageOptions(access_key_id="k", secret_access_key="s", session_token=key),
    lambda key: AzureOptions(account="a", key=key),
    lambda key: AzureOptions(account="a", sas_token=key),
    lambda key: AzureOptions(tenant_id="t", client_id="c", client_secret=key),
    lambda key: GcsOptions(credentials_json=key),
    lambda key: AwsKeys(key, "s"),
    lambda key: AwsKeys("k", key),
    lambda key: AwsKeys("k", "s", key),
)


@pytest.mark.parametrize("take", range(len(_TAKES_A_URL)))
def test_a_server_that_is_not_plain_is_bad_input_and_is_not_repeated(take: int) -> None:
    for url in _URLS:
        error = failure_of(lambda url=url: _TAKES_A_URL[take](url))  # type: ignore[misc]
        assert isinstance(error, ConfigError), url
        assert SECRET not in words_of(error)


@pytest.mark.parametrize("take", range(len(_TAKES_A_KEY)))
def test_a_key_that_cannot_be_sent_is_bad_input_and_is_not_repeated(take: int) -> None:
    for key in (f"{SECRET}\n", f" {SECRET}", f"{SECRET}\r\nX: y", f"{SECRET}ł"):
        error = failure_of(lambda key=key: _TAKES_A_KEY[take](key))  # type: ignore[misc]
        assert isinstance(error, ConfigError)
        assert SECRET not in words_of(error)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://lakefs:8000", "http://lakefs:8000"),
        ("https://lakefs.example.com/api/v1", "https://lakefs.example.com"),
        ("http://[::1]:8000/a/b", "http://[::1]:8000"),
        ("HTTP://my_host.example.com.", "HTTP://my_host.example.com."),
    ],
)
def test_a_plain_url_is_taken(url: str, server: str) -> None:
    assert check_server_url(url, "the endpoint", "https://x") == server
    check_key("AKIA/+=", "the key")
    check_key(None, "the key")


@pytest.mark.usefixtures("no_pauses")
def test_a_lakefs_that_does_not_answer_is_named_without_path_and_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port, seconds in ((1, 1.0), (silent.getsockname()[1], 0.2)):
            client = LakeFSClient(f"http://127.0.0.1:{port}/{SECRET}", SECRET, SECRET)
            error = failure_of(
                lambda client=client, seconds=seconds: client._transport.call(  # type: ignore[misc]
                    "GET", "/repositories", read_seconds=seconds
                )
            )
            assert isinstance(error, DredgeError)
            assert SECRET not in words_of(error) + repr(client)
    assert SECRET not in caplog.text


def test_a_table_that_does_not_answer_is_named_without_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="dredge")
    table = "dynamodb://table?region=eu-west-1&endpoint=http://127.0.0.1:1"
    keys = AwsKeys(SECRET, SECRET, SECRET)
    error = failure_of(lambda: DynamoStore(table, sleep=lambda _: None, keys=keys))
    assert isinstance(error, UnavailableError)
    assert SECRET not in words_of(error) + caplog.text


@pytest.mark.parametrize("code", ["InvalidSignatureException", "UnrecognizedClientException"])
def test_what_aws_says_of_a_signature_is_not_told(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def describe_table(self, **_: object) -> None:
            said = {
                "Code": code,
                "Message": f"The Canonical String should have been x-amz-security-token:{SECRET}",
            }
            raise ClientError({"Error": said}, "DescribeTable")

        def close(self) -> None:
            pass

    monkeypatch.setattr("dredge.kv.dynamodb._client", lambda *_: Client())
    error = failure_of(lambda: DynamoStore("dynamodb://table"))
    assert isinstance(error, ConfigError)
    assert code in str(error)
    assert SECRET not in words_of(error)


def test_clients_share_a_context_until_a_file_with_authorities_is_renewed(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    shutil.copy(certifi.where(), bundle)
    first = tls_context([str(bundle)], "lakeFS")
    assert tls_context([str(bundle)], "lakeFS") is first
    os.utime(bundle, ns=(1, 1))
    assert tls_context([str(bundle)], "lakeFS") is not first
    bundle.write_text("no certificate")
    with pytest.raises(ConfigError):
        tls_context([str(bundle)], "lakeFS")
