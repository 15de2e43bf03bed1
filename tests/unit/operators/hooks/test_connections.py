"""Lookup of connections; only default connections may be missing."""

import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk import BaseHook
from airflow.sdk.bases.secrets_backend import BaseSecretsBackend
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from airflow_dredge.operators.hooks.connections import find_connection
from airflow_dredge.operators.hooks.kv import LakeFSKVConnection
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options
from dredge.errors import ConfigError, UnavailableError
from dredge.storage import open_reader
from tests.support.airflow import connections
from tests.support.airflow_server import BrokenVault, use_vault
from tests.support.secrets import failure_of, words_of

STORES = {
    "s3": "s3://bucket/lake",
    "gcs": "gs://bucket/lake",
    "azure": "https://acct.blob.core.windows.net/c/lake",
}
DEFAULTS = ("aws_default", "google_cloud_default", "wasb_default")
GOOGLE = {"conn_type": "google_cloud_platform", "extra": {"project": "p"}}


class VaultOfText(BaseSecretsBackend):
    text = ""

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str:
        return self.text


@pytest.fixture(autouse=True)
def nothing_by_environment() -> Iterator[None]:
    with connections(aws_default=None, google_cloud_default=None, wasb_default=None, other=None):
        yield


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have Airflow fail with an error at each look-up of some connections."""

    def fail(error: Exception, *names: str) -> None:
        honest = BaseHook.get_connection

        def get(conn_id: str) -> Any:
            if conn_id in names:
                raise error
            return honest(conn_id)

        monkeypatch.setattr(BaseHook, "get_connection", get)

    return fail


@pytest.mark.parametrize("error", [OSError("hunter2"), RuntimeError("hunter2")])
def test_an_error_of_the_look_up_is_not_a_missing_connection(failing: Any, error: Exception) -> None:
    failing(error, "other")
    with pytest.raises(UnavailableError) as raised:
        find_connection("other")
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


def test_a_forbidden_connection_is_not_a_missing_one(failing: Any) -> None:
    failing(AirflowSecretsBackendAccessDenied("other"), "other")
    with pytest.raises(ConfigError):
        find_connection("other")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lakefs://KEY:hunter2/x@lakefs.example.com:8000", "%2F"),
        ("lakefs://KEY:hunter2[@lakefs.example.com:8000", "%5B"),
        ("spark://local[hunter2]", "%5B"),
        ('{"conn_type": "aws", "password": "hunter2",}', "column 44"),
        ("{'conn_type': 'aws', 'password': 'hunter2'}", "column 2"),
        ('{"conn_type": "aws", "extra": "{\\"a\\": \\"hunter2\\",}"}', "JSON"),
        ('{"conn_type": "aws", "extra": "[\\"hunter2\\"]"}', "JSON"),
    ],
)
@pytest.mark.parametrize("place", ["environment", "vault"])
def test_a_text_that_airflow_cannot_read_is_bad_input_wherever_it_is(
    monkeypatch: pytest.MonkeyPatch, text: str, told: str, place: str
) -> None:
    if place == "environment":
        monkeypatch.setenv("AIRFLOW_CONN_OTHER", text)
    else:
        monkeypatch.setattr(VaultOfText, "text", text)
        use_vault(monkeypatch, VaultOfText)
    error = failure_of(lambda: LakeFSHook("other").client.to_env())
    assert isinstance(error, ConfigError)
    assert told in str(error) or place == "vault"  # Airflow says of a vault that it has none
    assert "hunter2" not in words_of(error)


def test_secrets_of_a_connection_are_hidden_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[object] = []
    monkeypatch.setattr("airflow_dredge.operators.hooks.connections.mask_secret", hidden.append)
    with connections(other={"conn_type": "aws", "password": "hunter2", "extra": {"token": "t"}}):
        find_connection("other")
    assert hidden == ["hunter2", '{"token": "t"}']


@pytest.mark.parametrize("error", [OSError("no route"), None], ids=["error", "vault"])
def test_a_named_connection_that_is_not_found_opens_no_store(
    failing: Any, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Airflow passes over a vault that does not answer: a missing connection may be that."""
    if error is None:
        use_vault(monkeypatch, BrokenVault)
    else:
        failing(error, "other")
    with pytest.raises((ConfigError, UnavailableError)):
        storage_options("other")
    with pytest.raises((ConfigError, UnavailableError)):
        LakeFSHook("other").client  # noqa: B018
    with pytest.raises((ConfigError, UnavailableError)):
        LakeFSKVConnection.read("other")


@pytest.mark.parametrize(("name", "kind"), list(zip(DEFAULTS, STORES, strict=True)))
def test_a_default_connection_that_fails_keeps_its_stores_closed(failing: Any, name: str, kind: str) -> None:
    failing(OSError("no route"), name)
    options = storage_options("aws_default")
    with pytest.raises(UnavailableError):
        open_reader(STORES[kind], options)


def test_a_named_connection_says_enough_of_its_kind_of_store(failing: Any) -> None:
    failing(OSError("no route"), "google_cloud_default", "wasb_default")
    with connections(other=GOOGLE):
        options = storage_options("other")
    assert options.gcs.project == "p"
    open_reader(STORES["gcs"], options)
    with pytest.raises(UnavailableError):
        open_reader(STORES["azure"], options)


def test_keys_are_those_of_the_connection_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's hook would ask again, and without an answer take the machine's."""
    honest, asked = BaseHook.get_connection, list[str]()

    def once(conn_id: str) -> Any:
        if conn_id in asked:
            raise OSError("no route")
        asked.append(conn_id)
        return honest(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", once)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "MACHINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "its")
    with connections(aws_default={"conn_type": "aws", "login": "S3KEY", "password": "s3secret"}):
        assert storage_options("aws_default").access_key_id == "S3KEY"
