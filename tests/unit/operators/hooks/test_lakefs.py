"""A connection of type lakefs, turned into what Dredge and its jobs understand."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from dredge.errors import ConfigError, UnavailableError
from dredge.lakefs import LakeFSClient
from tests.support.airflow import connections
from tests.support.failing import make_certificate

LAKEFS = {"conn_type": "lakefs", "host": "http://lakefs:8000", "login": "AKIA", "password": "hunter2"}


@pytest.mark.parametrize(
    ("changes", "endpoint"),
    [
        ({}, "http://lakefs:8000"),
        ({"host": "https://lakefs.example.com/api/v1"}, "https://lakefs.example.com/api/v1"),
        ({"host": "https://lakefs.example.com/"}, "https://lakefs.example.com"),
        ({"host": "lakefs", "port": 8000}, "http://lakefs:8000"),
        ({"host": "lakefs.example.com", "schema": "https"}, "https://lakefs.example.com"),
        ({"host": "http://lakefs", "port": 8000}, "http://lakefs:8000"),
        ({"host": "http://lakefs:8000", "port": 9000}, "http://lakefs:8000"),
        ({"conn_type": "https", "host": "lakefs.example.com"}, "https://lakefs.example.com"),
        ({"conn_type": "HTTPS", "host": "lakefs.example.com"}, "https://lakefs.example.com"),
        ({"conn_type": "https", "host": "https://lakefs", "schema": "https"}, "https://lakefs"),
        ({"conn_type": "http", "host": "lakefs", "port": 8000}, "http://lakefs:8000"),
        ({"host": "HTTPS://lakefs.example.com"}, "https://lakefs.example.com"),
        ({"host": "lakefs.example.com", "schema": "HTTPS"}, "https://lakefs.example.com"),
        ({"host": "lakefs.example.com", "port": 443}, "https://lakefs.example.com:443"),
        ({"conn_type": "https", "host": "lakefs", "schema": "api/v1"}, "https://lakefs/api/v1"),
        ({"host": "https://lakefs/a/", "schema": "api/v1"}, "https://lakefs/a/api/v1"),
        ({"host": "[::1]", "port": 8000}, "http://[::1]:8000"),
        ({"host": "::1", "port": 8000}, "http://[::1]:8000"),
        ({"host": "[::1]:9000", "port": 8000}, "http://[::1]:9000"),
        ({"host": "https://[fe80::1]/api/v1", "port": 8000}, "https://[fe80::1]:8000/api/v1"),
    ],
)
def test_host_may_be_given_in_many_ways(changes: dict[str, Any], endpoint: str) -> None:
    with connections(lakefs_default=LAKEFS | changes):
        env = LakeFSHook().env()
    assert env["LAKECTL_SERVER_ENDPOINT_URL"] == endpoint
    assert env["LAKECTL_CREDENTIALS_ACCESS_KEY_ID"] == "AKIA"
    assert env["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"] == "hunter2"


@pytest.mark.parametrize(
    "changes",
    [
        {"conn_type": "https", "host": "http://lakefs"},
        {"conn_type": "http", "host": "https://lakefs"},
        {"host": "https://lakefs", "schema": "http"},
        {"host": "http://lakefs", "schema": "https"},
        {"host": "ftp://lakefs"},
        {"host": "https://AKIA:hunter2@lakefs"},
        {"host": "AKIA:hunter2@lakefs"},
        {"host": "https:// https://lakefs"},
    ],
)
def test_a_connection_that_says_two_things_is_refused_without_its_text(changes: dict[str, Any]) -> None:
    with connections(lakefs_default=LAKEFS | changes), pytest.raises(ConfigError) as raised:
        LakeFSHook().client  # noqa: B018
    assert "hunter2" not in str(raised.value)


def test_where_https_is_written_no_key_goes_over_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of plain http gets a TLS greeting, and no header."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("AIRFLOW_CONN_LAKEFS_DEFAULT", f"https://AKIA:hunter2@127.0.0.1:{port}")
        received: list[bytes] = []

        def serve() -> None:
            sent, _ = server.accept()
            with sent:
                received.append(sent.recv(4096))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(UnavailableError):
            LakeFSHook().client._transport.call("GET", "/config", retry=False)
        thread.join()
    assert received[0][:2] == b"\x16\x03"
    assert b"uthorization" not in received[0]


@pytest.mark.parametrize("missing", ["host", "login", "password"])
def test_incomplete_connection_is_refused(missing: str) -> None:
    with (
        connections(lakefs_default=LAKEFS | {missing: None}),
        pytest.raises(ConfigError),
    ):
        LakeFSHook().client  # noqa: B018


def test_a_private_authority_is_named_by_the_connection_and_goes_to_the_job(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    bundle = str(tmp_path / "ca.pem")
    with connections(lakefs_default=LAKEFS | {"extra": {"verify": bundle}}):
        assert LakeFSClient.from_env(LakeFSHook().env()).to_env() == LakeFSHook().env()
        assert bundle in LakeFSHook().env().values()


@pytest.mark.parametrize("verify", [False, "/no/such/file.pem"])
def test_an_authority_that_cannot_be_used_is_bad_input(verify: object) -> None:
    with connections(lakefs_default=LAKEFS | {"extra": {"verify": verify}}), pytest.raises(ConfigError):
        LakeFSHook().client  # noqa: B018
