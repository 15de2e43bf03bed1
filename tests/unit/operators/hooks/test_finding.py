"""A connection that cannot be had is never taken for one that is not there: other credentials would be used."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest
from airflow.sdk.bases.secrets_backend import BaseSecretsBackend
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time.comms import ConnectionResult, ErrorResponse
from airflow.secrets.environment_variables import EnvironmentVariablesBackend

from airflow_dredge.operators.hooks.finding import find_connection, need_connection
from airflow_dredge.operators.hooks.kv import LakeFSKVConnection
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options
from dredge.errors import ConfigError, UnavailableError
from dredge.storage import open_reader
from tests.support.airflow import connections
from tests.support.airflow_server import (
    DOWN,
    NO_CONNECTION,
    BrokenVault,
    EmptyVault,
    Server,
    VaultOfOtherThings,
    use_vault,
)
from tests.support.secrets import failure_of, words_of

STORES = {
    "s3": "s3://bucket/lake",
    "gcs": "gs://bucket/lake",
    "azure": "https://acct.blob.core.windows.net/c/lake",
}
NOTHING: dict[str, None] = dict.fromkeys(["host", "schema", "login", "password", "port", "extra"])
OF_THE_SERVER = ConnectionResult.model_validate({"conn_id": "other", "conn_type": "aws", **NOTHING})
GOOGLE = {"conn_type": "google_cloud_platform", "extra": {"project": "p"}}


class VaultOfText(BaseSecretsBackend):
    """Has one text for every connection."""

    text = ""

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str:
        return self.text


@pytest.fixture(autouse=True)
def nothing_by_environment() -> Iterator[None]:
    with connections(aws_default=None, google_cloud_default=None, wasb_default=None, other=None):
        yield


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("error", [*ErrorType])
def test_only_a_server_that_says_so_has_no_such_connection(
    monkeypatch: pytest.MonkeyPatch, error: ErrorType, raises: bool
) -> None:
    Server(ErrorResponse(error=error), raises=raises).reached_by(monkeypatch)
    if error is ErrorType.CONNECTION_NOT_FOUND:
        assert find_connection("other") is None
    else:
        with pytest.raises((UnavailableError, ConfigError)):
            find_connection("other")


def test_a_server_without_its_database_does_not_say_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Server(NO_CONNECTION, names=DOWN).reached_by(monkeypatch)
    with pytest.raises(UnavailableError):
        find_connection("other")


def test_a_connection_that_cannot_be_read_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", '{"conn_type": "aws", "password": "hunter2"')
    with pytest.raises(ConfigError) as raised:
        find_connection("other")
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lakefs://KEY:hunter2/x@lakefs.example.com:8000", "%2F"),
        ("lakefs://KEY:hunter2[@lakefs.example.com:8000", "%5B"),
        ("spark://local[hunter2]", "%5B"),
        ('{"conn_type": "aws", "password": "hunter2",}', "column 44"),
        ("{'conn_type': 'aws', 'password': 'hunter2'}", "column 2"),
        ('{"conn_type": "aws", "extra": "{\\"a\\": \\"hunter2\\",}"}', "column"),
        ('{"conn_type": "aws", "extra": "[\\"hunter2\\"]"}', "object"),
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
    assert told in str(error)
    assert "hunter2" not in words_of(error)


def test_a_later_place_is_not_asked_when_an_earlier_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be a default one of the same name, without credentials."""
    Server(OF_THE_SERVER).reached_by(monkeypatch)
    use_vault(monkeypatch, BrokenVault)
    for place in ({}, {"other": GOOGLE}):
        with connections(**place), pytest.raises(UnavailableError):
            find_connection("other")


def test_the_first_place_that_has_a_connection_counts_and_no_more_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(OF_THE_SERVER)
    server.reached_by(monkeypatch)
    with connections(other=GOOGLE):
        assert need_connection("other", "Google", "{}").conn_type == "google_cloud_platform"
        assert server.asked_for("GetConnection") == 0
    assert need_connection("other", "AWS", "{}").conn_type == "aws"
    assert (server.asked_for("GetConnection"), server.asked_for("GetVariableKeys")) == (1, 0)


def test_secrets_of_a_connection_are_hidden_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[object] = []
    monkeypatch.setattr("airflow_dredge.operators.hooks.finding.mask_secret", hidden.append)
    with connections(other={"conn_type": "aws", "password": "hunter2", "extra": {"token": "t"}}):
        find_connection("other")
    assert hidden == ["hunter2", '{"token": "t"}']


@pytest.mark.parametrize("vault", [EmptyVault, VaultOfOtherThings])
def test_a_vault_without_the_connection_does_not_stand_against_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch, vault: type[BaseSecretsBackend]
) -> None:
    Server(NO_CONNECTION).reached_by(monkeypatch)
    use_vault(monkeypatch, vault)
    assert find_connection("other") is None
    Server(OF_THE_SERVER).reached_by(monkeypatch)
    assert need_connection("other", "AWS", "{}").conn_type == "aws"


@pytest.mark.parametrize("conn_id", ["other", "aws_default"])
def test_without_an_answer_about_a_connection_no_store_is_opened(
    monkeypatch: pytest.MonkeyPatch, conn_id: str
) -> None:
    """By the worker's own credentials it may be another account, or another store of the same name."""
    Server(NO_CONNECTION).reached_by(monkeypatch)
    use_vault(monkeypatch, BrokenVault)
    if conn_id == "other":
        with pytest.raises(UnavailableError):
            storage_options(conn_id)
        return
    options = storage_options(conn_id)
    for uri in STORES.values():
        with pytest.raises(UnavailableError):
            open_reader(uri, options)
    open_reader("memory://no-connection", options)


@pytest.mark.parametrize("kind", ["gcs", "azure"])
def test_without_an_answer_about_a_default_connection_only_its_stores_are_not_opened(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    Server(NO_CONNECTION).reached_by(monkeypatch)
    use_vault(monkeypatch, BrokenVault)
    options = storage_options(None)
    with pytest.raises(UnavailableError):
        open_reader(STORES[kind], options)
    open_reader(STORES["s3"], options)


def test_a_named_connection_says_enough_of_its_kind_of_store(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(BrokenVault):
        def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str | None:
            return None if conn_id == "other" else super().get_conn_value(conn_id, team_name)

    monkeypatch.setattr(
        "airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded",
        lambda: [Broken(), EnvironmentVariablesBackend()],
    )
    with connections(other=GOOGLE):
        options = storage_options("other")
    assert options.gcs.project == "p"
    open_reader(STORES["gcs"], options)
    with pytest.raises(UnavailableError):
        open_reader(STORES["azure"], options)


def test_keys_are_those_of_the_connection_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's hook would ask again, and without an answer take the machine's."""
    aws = "aws://S3KEY:s3secret@"

    class Once(EmptyVault):
        def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str | None:
            nonlocal aws
            said, aws = (aws, "") if conn_id == "aws_default" else ("", aws)
            return said or None

    monkeypatch.setattr(
        "airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded", lambda: [Once()]
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "MACHINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "its")
    assert storage_options("aws_default").access_key_id == "S3KEY"


def test_lakefs_and_its_store_are_not_told_to_be_missing_when_nobody_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_vault(monkeypatch, BrokenVault)
    with pytest.raises(UnavailableError):
        LakeFSHook("other").client  # noqa: B018
    with pytest.raises(UnavailableError):
        LakeFSKVConnection.of("other")
    use_vault(monkeypatch, EmptyVault)
    with pytest.raises(ConfigError):
        LakeFSKVConnection.of("other")
