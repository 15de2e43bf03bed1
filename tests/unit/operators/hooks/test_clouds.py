"""Azure and Google connections: fields, and masked secrets."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk._shared.secrets_masker import redact, reset_secrets_masker

from airflow_dredge.operators.hooks.clouds import azure_options, google_options
from dredge.errors import ConfigError
from dredge.storage.options import AzureOptions, GcsOptions

ENDPOINT = "https://acct.blob.core.windows.net"


@pytest.fixture
def is_masked() -> Callable[[str], bool]:
    """Whether Airflow hides a text in its logs; it begins with none."""
    reset_secrets_masker()
    return lambda text: redact(text) == "***"


def options(own: AzureOptions | None = None, extra: Any = None, **fields: Any) -> AzureOptions:
    connection = Connection(conn_id="c", conn_type="wasb", extra=json.dumps(extra or {}), **fields)
    return azure_options(connection, own or AzureOptions())


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"login": "acct", "password": "K=="}, AzureOptions("acct", "K==")),
        ({"host": "acct", "password": "K=="}, AzureOptions("acct", "K==")),
        ({"host": ENDPOINT, "login": "acct", "password": "K=="}, AzureOptions("acct", "K==", None, ENDPOINT)),
        ({"login": "acct", "extra": {"sas_token": "?sv=1&sig=S"}}, AzureOptions("acct", None, "sv=1&sig=S")),
        (
            {"extra": {"extra__wasb__sas_token": f"{ENDPOINT}/?sv=1&sig=S"}},
            AzureOptions("acct", None, "sv=1&sig=S", ENDPOINT),
        ),
        ({"extra": {"connection_string": "AccountName=acct;AccountKey=K=="}}, AzureOptions("acct", "K==")),
        (
            {"host": ENDPOINT, "login": "app", "password": "word", "extra": {"tenant_id": "t"}},
            AzureOptions("acct", None, None, ENDPOINT, "t", "app", "word"),
        ),
        ({"extra": {"managed_identity_client_id": "m"}}, AzureOptions(client_id="m")),
        ({"login": "acct", "extra": {"account_key": "K=="}}, AzureOptions("acct", "K==")),
        ({"login": "acct", "extra": {"shared_access_key": "K=="}}, AzureOptions("acct", "K==")),
        ({"host": "host", "login": "acct", "password": "K=="}, AzureOptions("acct", "K==")),
        (
            {"host": "http://localhost:10000/acct", "password": "K=="},
            AzureOptions("acct", "K==", None, "http://localhost:10000/acct"),
        ),
        (
            {"host": "acct.dfs.core.windows.net", "password": "K=="},
            AzureOptions("acct", "K==", None, ENDPOINT),
        ),
        (
            {"host": ENDPOINT, "extra": {"sas_token": "sv=1&sig=S"}},
            AzureOptions("acct", None, "sv=1&sig=S", ENDPOINT),
        ),
        (
            {"login": "acct", "extra": {"sas_token": "sv=1&sig=S", "workload_identity_tenant_id": ""}},
            AzureOptions("acct", None, "sv=1&sig=S"),
        ),
    ],
)
def test_fields_may_be_given_in_many_ways(fields: dict[str, Any], found: AzureOptions) -> None:
    assert options(**fields) == found


@pytest.mark.parametrize(
    "fields",
    [
        {"login": "acct", "password": "SECRET"},
        {"login": "acct", "extra": {"sas_token": f"{ENDPOINT}/?SECRET"}},
        {"host": ENDPOINT, "login": "app", "password": "SECRET", "extra": {"tenant_id": "t"}},
    ],
)
def test_secrets_are_kept_out_of_the_logs(is_masked: Callable[[str], bool], fields: dict[str, Any]) -> None:
    assert not is_masked("SECRET")
    options(**fields)
    assert is_masked("SECRET")


KEY = {
    "type": "service_account",
    "private_key": "SECRETKEY",
    "private_key_id": "SECRETID",
    "refresh_token": 7,
}
TEXT = json.dumps(KEY)


@pytest.mark.parametrize(
    "extra", [{"keyfile_dict": KEY}, {"keyfile_dict": TEXT}, {"keyfile_dict": f" {TEXT}"}]
)
def test_a_key_may_be_an_object_or_its_text(extra: dict[str, Any], is_masked: Callable[[str], bool]) -> None:
    found = google_options(extra, GcsOptions(credentials_file="/env.json"))
    assert json.loads(found.credentials_json or "") == KEY
    assert found.credentials_file is None
    assert all(map(is_masked, [found.credentials_json or "", "SECRETKEY", "SECRETID"]))


@pytest.mark.parametrize("text", ["SECRETKEY", '["SECRETKEY"]'])
def test_a_key_that_is_none_is_refused_and_shown_to_nobody(
    text: str, is_masked: Callable[[str], bool]
) -> None:
    with pytest.raises(ConfigError) as raised:
        google_options({"keyfile_dict": text}, GcsOptions())
    assert "SECRETKEY" not in str(raised.value)
    assert is_masked(text)
